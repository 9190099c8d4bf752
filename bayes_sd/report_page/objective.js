"use strict";
// An objective that the reader types, read as bayes_sd.Slo reads it; and what the draws of the page
// say of it: bayes_sd.slo_attainment and choose_draft_length(utility="slo" or "goodput"), kind "mean".

const LATENCIES = ["e2e", "ttft", "tpot"];
const EXAMPLE = "Write for example e2e_p95 <= 2 or tpot_mean <= 30 ms.";
const SLO_UTILITIES = {
  slo: { words: "P(your SLO met)", meaning: "P(SLO met)" },
  goodput: { words: "goodput in your SLO", meaning: "requests per second within the SLO" },
};
let rules = {}; // max_regret, near_tie and share_digits of the library, read from the page

function parseObjective(text) {
  const terms = text.split(",").map(parseTerm);
  const names = terms.map((term) => term.name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice) throw new Error(`An objective must have one limit for ${twice}. Keep the lower one.`);
  terms.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { terms, text: terms.map((term) => `${term.name} ${term.operator} ${secondsText(term.limit)}`).join(", ") };
}

function parseTerm(text) {
  const found = /^\s*([^<>=≤≥]*?)\s*([<>=≤≥]+)\s*(.*?)\s*$/.exec(text);
  const got = `Got "${text.trim()}".`;
  if (!found) throw new Error(`An objective must have a name, <= or <, and a limit. ${got} ${EXAMPLE}`);
  const operator = found[2].replaceAll("≤", "<=");
  if (operator !== "<=" && operator !== "<") throw new Error(`An objective must be an upper limit, with <= or <. ${got} ${EXAMPLE}`);
  const words = found[1].toLowerCase().split(/[\s_-]+/).filter(Boolean);
  const latencies = words.filter((word) => LATENCIES.includes(word));
  const others = words.filter((word) => !LATENCIES.includes(word));
  if (latencies.length !== 1 || others.length !== 1) {
    throw new Error(`An objective must name one of ${LATENCIES.join(", ")}, and mean or a percentile such as p95. ${got} ${EXAMPLE}`);
  }
  const percentile = /^p(\d+(?:\.\d+)?)$/.exec(others[0]);
  const percent = percentile ? Number(percentile[1]) : NaN;
  if (others[0] !== "mean" && !(percent >= 50 && percent <= 99.9)) {
    throw new Error(`The statistic must be mean, or a percentile from p50 to p99.9. Got "${others[0]}". ${EXAMPLE}`);
  }
  const number = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:e([+-]?\d+))?\s*(s|ms)?$/i.exec(found[3]);
  const shift = number && (number[3] ?? "").toLowerCase() === "ms" ? -3 : 0;
  const limit = number ? Number(`${number[1]}e${Number(number[2] ?? 0) + shift}`) : NaN; // 6.1 ms is 0.0061
  if (!(limit > 0 && limit < Infinity)) {
    throw new Error(`The limit must be a number of seconds above 0, or one with the unit s or ms. Got "${found[3]}". ${EXAMPLE}`);
  }
  const statistic = percentile ? `p${percent}` : "mean";
  const level = percentile ? Number(`${percentile[1]}e-2`) : null;
  return { latency: latencies[0], statistic, level, operator, limit, name: `${latencies[0]}_${statistic}` };
}

function floatsOf(text) { // 32-bit floats in base64
  return text === null ? null : new Float32Array(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
}

function requestsOf(s) { // the draws of a setting, unpacked when they are first asked for
  if (!s.unpacked) {
    s.unpacked = {};
    for (const [name, found] of Object.entries(s.requests.latencies)) {
      s.unpacked[name] = { mean: floatsOf(found.mean_s), spread: floatsOf(found.spread), skew: floatsOf(found.skew) };
    }
  }
  return s.unpacked;
}

// What of an objective the fit does not know; empty if it knows all.
function unknownOf(s, objective) {
  const known = s.requests.latencies;
  const term = objective.terms.find(({ latency, level }) => !known[latency] || (level !== null && known[latency].spread === null));
  if (!term) return "";
  const there = Object.keys(known).map((name) => (known[name].spread === null ? `${name}_mean` : `${name}_mean, ${name}_p95`));
  return `${term.name} is not known: no fitted run had it. Known are ${there.join(", ")}.`;
}

function normalShare(z) { // the normal distribution function: Marsaglia (2004), J. Stat. Softw. 11(4)
  if (Math.abs(z) > 8.5) return z > 0 ? 1 : 0;
  let sum = z, last = 0, part = z;
  for (let i = 3; sum !== last; i += 2) {
    last = sum;
    part *= (z * z) / i;
    sum += part;
  }
  return 0.5 + sum * Math.exp(-0.5 * z * z - 0.9189385332046727);
}

function normalQuantile(p) { // from p50 up: Newton's steps come from below
  let z = 0;
  for (let i = 0; i < 60; i += 1) {
    const step = (p - normalShare(z)) * Math.exp(0.5 * z * z + 0.9189385332046727);
    z += step;
    if (Math.abs(step) < 1e-14) break;
  }
  return z;
}

function logMeanOffset(s, skew) { // as bayes_sd.physics.request_quantiles
  const room = Math.max(1 - 2 * s * skew, 0.05);
  return -s * skew - Math.log(room) / 2 + (s * s) / (2 * room);
}

function logQuantileRatio(z, s, skew) {
  const turn = -0.5 / skew;
  const at = skew < 0 ? Math.min(z, turn) : skew > 0 ? Math.max(z, turn) : z;
  return s * (at + skew * (at * at - 1)) - logMeanOffset(s, skew);
}

function shareWithin(limit, mean, s, skew) { // solves logQuantileRatio for the normal score
  if (!Number.isFinite(mean)) return 0;
  if (s === 0) return mean <= limit ? 1 : 0;
  const target = (Math.log(limit / mean) + logMeanOffset(s, skew)) / s;
  const under = 1 + 4 * skew * (skew + target);
  if (under <= 0) return skew < 0 ? 1 : 0;
  return normalShare((2 * (target + skew)) / (1 + Math.sqrt(under)));
}

// Draw by draw at one draft length and load: is it met, which share of requests meets it.
function drawsOf(s, objective, arm) {
  const n = s.requests.num_draws, found = requestsOf(s), from = arm * n;
  const met = new Uint8Array(n).fill(1), missed = new Float64Array(n);
  const means = objective.terms.filter((term) => term.level === null);
  const limits = {};
  for (const { latency, level, limit } of objective.terms) {
    if (level !== null) limits[latency] = Math.min(limit, limits[latency] ?? Infinity);
  }
  const broken = (value, term) => !(term.operator === "<" ? value < term.limit : value <= term.limit);
  for (const term of objective.terms) {
    const { mean, spread, skew } = found[term.latency];
    const z = term.level === null ? 0 : normalQuantile(term.level);
    for (let d = 0; d < n; d += 1) {
      const ratio = term.level === null ? 0 : logQuantileRatio(z, spread[from + d], skew[d]);
      if (broken(mean[from + d] * Math.exp(ratio), term)) met[d] = 0;
    }
  }
  for (const [latency, limit] of Object.entries(limits)) {
    const { mean, spread, skew } = found[latency];
    for (let d = 0; d < n; d += 1) missed[d] += 1 - shareWithin(limit, mean[from + d], spread[from + d], skew[d]);
  }
  const share = Float64Array.from(missed, (out, d) => {
    const e2e = found.e2e.mean[from + d];
    const kept = means.every((term) => !broken(found[term.latency].mean[from + d], term));
    return Number.isFinite(e2e) && kept ? Math.max(1 - out, 0) : 0;
  });
  return { met, share };
}

function quantilesOf(values, ends) { // of the draws themselves, numpy's inverted_cdf
  const sorted = Float64Array.from(values).sort();
  return ends.map((q) => sorted[Math.min(Math.max(Math.ceil(sorted.length * q - 1), 0), sorted.length - 1)]);
}

// P(best) and expected regret of each candidate: bayes_sd.decide.compare.
function compare(losses) {
  const n = losses[0].length, best = losses.map(() => 0), regret = losses.map(() => 0);
  for (let d = 0; d < n; d += 1) {
    const lowest = Math.min(...losses.map((loss) => loss[d]));
    if (!Number.isFinite(lowest)) continue;
    const ties = losses.filter((loss) => loss[d] === lowest).length;
    losses.forEach((loss, k) => {
      if (loss[d] === lowest) best[k] += 1 / ties;
      regret[k] += 1 - lowest / loss[d];
    });
  }
  return { best: best.map((x) => x / n), regret: regret.map((x) => x / n) };
}

function roundedText(value, digits) { // a half goes to the even digit, as in Python
  const scaled = value * 10 ** digits, low = Math.floor(scaled);
  const isHalf = scaled - low === 0.5 && Number.isInteger(value * 2 ** (digits + 1));
  return isHalf ? ((low + (low % 2)) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}

const percentText = (share, digits = 1) => `${roundedText(100 * share, digits)}%`;

// The choice, as bayes_sd.decide makes it.
function decide(lengths, losses, past, meaning) {
  const { best, regret } = compare(losses);
  const least = Math.min(...past);
  const usable = regret.map((each, k) => (least > 0.5 || past[k] <= 0.5 ? each : Infinity));
  const at = usable.indexOf(Math.min(...usable));
  const close = lengths.filter((_, k) => k !== at && regret[k] - regret[at] <= rules.near_tie);
  let choice = lengths[at], verdict = "choose";
  let reason = `k = ${choice} has P(best) ${roundedText(best[at], 2)}, expected regret ${percentText(regret[at])}`;
  if (least > 0.5) {
    [choice, verdict] = [null, "past capacity"];
    reason = `every candidate is past capacity in at least ${percentText(least, 0)} of the draws`;
  } else if (losses.every((loss) => loss.every((x) => x === Infinity))) {
    [choice, verdict] = [null, "objective not met"];
    reason = "no candidate meets the objective in any draw: lower the load, or ask for less";
  } else if (regret[at] > rules.max_regret) {
    verdict = "not enough data";
    reason = `even the best candidate, k = ${choice}, has an expected regret of ${percentText(regret[at])}, above ${percentText(rules.max_regret)}: measure it and its nearest rival at this load`;
  } else if (close.length) {
    verdict = "near tie";
    reason = `k = ${choice} is ahead of ${close.map((k) => `k = ${k}`).join(" and ")} by at most 1 % (${meaning})`;
  }
  return { choice, verdict, reason, probability_best: best, expected_regret: regret };
}

// Everything about an objective in a setting, (draft length, load); kept until another is typed.
function attainmentOf(s, objective) {
  if (s.attained && s.attained.objective === objective) return s.attained;
  const n = s.requests.num_draws, e2e = requestsOf(s).e2e.mean, loads = s.loads.length;
  const open = s.load_name === "request_rate_rps", digits = 10 ** rules.share_digits;
  const ends = [(1 - 0.9) / 2, 0.5, 1 - (1 - 0.9) / 2];
  const decisions = { slo: [], goodput: [] };
  const arms = s.draft_lengths.map(() => []);
  for (let load = 0; load < loads; load += 1) {
    const losses = { slo: [], goodput: [] }, past = [];
    s.draft_lengths.forEach((_, k) => {
      const arm = k * loads + load;
      const { met, share } = drawsOf(s, objective, arm);
      const mean = e2e.subarray(arm * n, (arm + 1) * n);
      const rate = (d) => (open ? s.loads[load] : s.loads[load] / mean[d]); // Little's law
      const goodput = share.map((x, d) => x * rate(d));
      losses.slo.push(Array.from(met, (is) => (is ? 1 : Infinity)));
      losses.goodput.push(Array.from(share, (x, d) => 1 / (rate(d) * Math.round(x * digits) / digits)));
      past.push(mean.reduce((count, x) => count + (x === Infinity), 0) / n);
      arms[k].push({ met: met.reduce((a, b) => a + b, 0) / n, share: quantilesOf(share, ends), goodput: quantilesOf(goodput, ends) });
    });
    for (const name of Object.keys(decisions)) {
      decisions[name].push(decide(s.draft_lengths, losses[name], past, SLO_UTILITIES[name].meaning));
    }
  }
  s.attained = { objective, arms, decisions };
  return s.attained;
}
