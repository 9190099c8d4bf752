"use strict";
// The charts, as Vega-Lite. Ink is the text colour of the page, so dark and print need nothing.

const INK = "currentColor";
const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a6fd1", "#7f7f7f", "#e7298a"];
const PARTS = { prefill: "#b8860b", drafting: "#cc79a7", verification: "#0072b2", load: "#d55e00" };
const shown = new Map(); // element id: the chart's view, and what it was made for

const CONFIG = {
  background: null,
  font: "system-ui, 'DejaVu Sans', sans-serif",
  view: { stroke: null },
  axis: {
    labelColor: INK, titleColor: INK, tickColor: INK, domainColor: INK, gridColor: INK,
    gridOpacity: 0.15, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
  },
  legend: { labelColor: INK, titleColor: INK, labelFontSize: 12, orient: "top", title: null, symbolStrokeWidth: 3, symbolOpacity: 1, columns: 4 },
};

function seriesScale(names) {
  return { domain: names, range: names.map((_, i) => SERIES[i % SERIES.length]) };
}

const DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 4], [1, 3]]; // 7 and 9 share no divisor: 63 series differ

function seriesOf(names) {
  return {
    color: { field: "series", type: "nominal", scale: seriesScale(names), legend: { symbolOpacity: 1, symbolType: "stroke", symbolSize: 400, symbolFillColor: "transparent" } },
    strokeDash: {
      field: "series", type: "nominal",
      scale: { domain: names, range: names.map((_, i) => DASHES[i % DASHES.length]) },
    },
  };
}

function loadAxis(title) {
  return { field: "load", type: "quantitative", title, scale: { type: "log", nice: false }, axis: { labelOverlap: true, tickCount: 6 } };
}

const HERE = { data: { name: "here" }, mark: { type: "rule", color: INK, strokeDash: [3, 3] }, encoding: { x: { field: "load", type: "quantitative" } } };

function latencyChart(names, loadTitle, measured) {
  const seconds = { type: "quantitative", title: "Latency, s", scale: { type: "log", nice: false }, axis: { tickCount: 6, labelOverlap: true } };
  const colour = seriesOf(names);
  return {
    layer: [
      { data: { name: "values" }, mark: { type: "area", opacity: 0.18 }, encoding: { x: loadAxis(loadTitle), y: { ...seconds, field: "low" }, y2: { field: "high" }, color: colour.color } },
      { data: { name: "values" }, mark: { type: "line", strokeWidth: 2.5 }, encoding: { x: loadAxis(loadTitle), y: { ...seconds, field: "median" }, ...colour } },
      ...(measured ? [{ data: { name: "points" }, mark: { type: "point", filled: true, size: 45, opacity: 1 }, encoding: { x: loadAxis(loadTitle), y: { ...seconds, field: "e2e_s" }, color: colour.color } }] : []),
      { data: { name: "limit" }, mark: { type: "rule", color: INK, strokeWidth: 1.5 }, encoding: { y: { ...seconds, field: "limit" } } },
      HERE,
    ],
  };
}

function probabilityChart(names, loadTitle, title) {
  return pointsChart(names, loadTitle, { title, scale: { domain: [0, 1] } });
}

function goodputChart(names, loadTitle) {
  return pointsChart(names, loadTitle, { title: "Goodput, requests/s", scale: { zero: true } });
}

function pointsChart(names, loadTitle, about) {
  const y = { field: "p", type: "quantitative", ...about };
  return {
    layer: [
      { data: { name: "values" }, mark: { type: "line", point: { size: 30 }, strokeWidth: 2.5 }, encoding: { x: loadAxis(loadTitle), y, ...seriesOf(names) } },
      HERE,
    ],
  };
}

function sharesChart(names) {
  const parts = Object.keys(PARTS);
  return {
    data: { name: "values" },
    mark: { type: "bar" },
    encoding: {
      y: { field: "series", type: "nominal", title: null, sort: names },
      x: { field: "share", type: "quantitative", title: "Share of mean latency", stack: "zero", scale: { domain: [0, 1] } },
      color: { field: "part", type: "nominal", scale: { domain: parts, range: parts.map((p) => PARTS[p]) } },
      order: { field: "order", type: "quantitative" },
    },
  };
}

// Draw a chart, or give one that was drawn for the same series its new rows.
function draw(id, made, key, data, label) {
  const known = shown.get(id);
  const holder = document.getElementById(id);
  holder.setAttribute("role", "img");
  holder.setAttribute("aria-label", label);
  if (known && known.key === key) {
    known.ready = known.ready.then((view) => {
      for (const [name, rows] of Object.entries(data)) view.data(name, rows);
      return view.resize().runAsync();
    });
    return known.ready;
  }
  const legend = { ...CONFIG.legend, columns: holder.clientWidth < 420 ? 2 : 4 };
  const spec = {
    width: "container", height: 240, autosize: { type: "fit-x", contains: "padding" },
    datasets: data, config: { ...CONFIG, legend }, ...made(),
  };
  const before = known ? known.ready.then((view) => view.finalize()) : Promise.resolve();
  const options = { actions: false, ast: true, renderer: "svg", tooltip: false, defaultStyle: false };
  const ready = before
    .then(() => vegaEmbed(holder, spec, options))
    .then((result) => {
      holder.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
      return result.view;
    });
  shown.set(id, { key, ready });
  return ready;
}
