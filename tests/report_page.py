"""What the tests of the report share: a page's parts, and a fit with hostile names."""

import base64
import gzip
import json
import re

import numpy as np

from tests.fake_fit import fake_fit

EVIL = '<script>window.pwned=1</script><img src=x onerror="pwned=1">{{7*7}}</script>'


def evil_fit():
    """Return a fit whose labels are markup."""
    tree = fake_fit(spread=0.1)
    for group in ("posterior", "constant_data"):
        data = tree[group].to_dataset()
        renamed = {}
        for dim in ("base", "pair", "deployment"):
            if dim in data.coords:
                labels = [f"{EVIL} {i}" for i in range(data.sizes[dim])]
                renamed[dim] = np.array(labels, dtype=str)
        tree[group].dataset = data.assign_coords(renamed)
    tree.attrs |= {"verdict": f"Converged {EVIL}", "version_evil": EVIL}
    return tree


def embedded(html):
    """Return the numbers of the settings that a page holds."""
    return page_of(html)["settings"]


def page_of(html):
    """Return everything that a page holds."""
    block = re.search(r'<script type="application/gzip;base64" id="report-data">(.*?)<', html)
    return json.loads(gzip.decompress(base64.b64decode(block.group(1))))


# Scripts for a browser: set controls and read what is shown; the settings; wait for the charts.
CHOOSE = """
for (const [id, value] of Object.entries(arguments[0])) {
  const control = document.getElementById(id);
  control.value = String(value);
  control.dispatchEvent(new Event('input', {bubbles: true}));
}
const cards = Object.fromEntries(
  [...document.querySelectorAll('dl.cards dd')].map((d) => [d.dataset.name, d.dataset.value]));
const rows = [...document.querySelectorAll('#drafts tbody tr')].map(
  (line) => [...line.cells].map((cell) => cell.dataset.value));
const told = Object.fromEntries(['choice-text', 'objective-text', 'slo-message'].map(
  (id) => [id, document.getElementById(id).textContent]));
return {cards, rows, told, invalid: document.getElementById('slo').getAttribute('aria-invalid')};
"""
ABOUT = "return settings"
WAIT = """
const done = arguments[0];
started.then(() => Promise.all([...shown.values()].map((c) => c.ready))).then(() => done(true));
"""
