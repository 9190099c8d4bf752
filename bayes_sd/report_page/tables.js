"use strict";
// Tables whose columns sort, and numbers as text. Text from the data is set as text, never as HTML.

function numberText(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "no finite value" : "–";
  return String(Number(value.toPrecision(digits)));
}

function secondsText(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return numberText(value);
  return value < 0.1 ? `${numberText(value * 1000)} ms` : `${numberText(value)} s`;
}

function probabilityText(value) {
  return value === null || Number.isNaN(value) ? "–" : value.toFixed(2);
}

function shareText(value) {
  return Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)} %`;
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// columns: {title, value(row), text(row), words}; a row marked chosen is set off.
function fillTable(table, columns, rows) {
  const sorted = table.dataset.sorted === undefined ? null : Number(table.dataset.sorted);
  const head = element("thead");
  const names = element("tr");
  for (const column of columns) {
    names.append(element("th", column.title, { scope: "col", ...(column.words ? { class: "text" } : {}) }));
  }
  head.append(names);
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr", null, row.chosen ? { class: "chosen" } : {});
    columns.forEach((column, at) => {
      const value = column.value(row);
      const cell = element(at ? "td" : "th", column.text ? column.text(row) : String(value));
      if (!at) cell.setAttribute("scope", "row");
      if (column.words) cell.className = "text";
      cell.dataset.value = String(value);
      line.append(cell);
    });
    body.append(line);
  }
  table.replaceChildren(head, body);
  makeSortable(table);
  if (sorted !== null) sortTable(table, sorted, table.dataset.direction);
}

function makeSortable(table) {
  table.querySelectorAll("thead th").forEach((cell, at) => {
    const button = element("button", cell.textContent, { type: "button" });
    button.addEventListener("click", () => {
      const again = table.dataset.sorted === String(at) && table.dataset.direction === "ascending";
      sortTable(table, at, again ? "descending" : "ascending");
    });
    cell.replaceChildren(button);
  });
}

function sortTable(table, at, direction) {
  table.dataset.sorted = at;
  table.dataset.direction = direction;
  table.querySelectorAll("thead th").forEach((cell, other) => {
    if (other === at) cell.setAttribute("aria-sort", direction);
    else cell.removeAttribute("aria-sort");
  });
  const sign = direction === "ascending" ? 1 : -1;
  const keyOf = (line) => line.cells[at].dataset.value ?? line.cells[at].textContent;
  const missing = (text) => ["NaN", "null", "undefined", "–", ""].includes(text);
  const lines = [...table.tBodies[0].rows].sort((one, two) => {
    const a = keyOf(one), b = keyOf(two);
    if (missing(a) || missing(b)) return missing(a) - missing(b); // what is not known stays last
    const x = Number(a), y = Number(b);
    if (Number.isNaN(x) || Number.isNaN(y)) return sign * a.localeCompare(b, "en", { numeric: true });
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  });
  table.tBodies[0].append(...lines);
}
