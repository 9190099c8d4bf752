"use strict";
// The page: what is chosen, and the numbers that were computed for it.

let settings = []; // read from the page by start
const at = (id) => document.getElementById(id);
const chosen = { setting: 0, load: 0, draft: 0, statistic: "", limit: 0, kind: "mean", utility: "mean", objective: null };
const LATENCY_NAMES = { e2e: "end to end", ttft: "time to first token", tpot: "time per output token" };
const UNITS = { request_rate_rps: "requests/s", concurrency: "requests in flight" };

function finite(value) { // "inf", "-inf" and "nan" stand for what JSON cannot hold
  if (typeof value !== "string") return value;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;
}

async function unpacked(text) { // base64 of gzip of JSON
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function withinOf(setting, statistic, kind, k, load, limit) {
  return setting.statistics[statistic][kind].within[k][load][limit] / setting.num_draws;
}

function statisticText(name) {
  const [latency, what] = name.split("_");
  return `${LATENCY_NAMES[latency]}, ${what === "mean" ? "mean" : `${what.slice(1)} % of requests within`}`;
}

const UTILITIES = { mean: "mean latency", cvar: "mean latency in the worst tenth of the draws" };
const utilityText = (name) => UTILITIES[name] ?? SLO_UTILITIES[name]?.words ?? `${name.slice(1)} % of requests (end to end)`;
const attained = (s) => (unknownOf(s, chosen.objective) ? null : attainmentOf(s, chosen.objective));
const decisionOf = (s, load) => (s.decisions[chosen.utility] ?? attained(s).decisions[chosen.utility])[load];
const seriesText = (k) => (k ? `k = ${k}` : "k = 0 (off)");
const setting = () => settings[chosen.setting];
const unit = () => UNITS[setting().load_name];

function options(select, rows, value) {
  select.replaceChildren(...rows.map(([key, text]) => element("option", text, { value: key })));
  select.value = String(value);
}

function rowAt(s, k, load) {
  const band = s.statistics[chosen.statistic][chosen.kind];
  const own = attained(s)?.arms[k][load] ?? { met: NaN, share: [NaN, NaN, NaN], goodput: [NaN, NaN, NaN] };
  return {
    own,
    k: s.draft_lengths[k],
    load: s.loads[load],
    low: finite(band.low[k][load]),
    median: finite(band.median[k][load]),
    high: finite(band.high[k][load]),
    met: withinOf(s, chosen.statistic, chosen.kind, k, load, chosen.limit),
    best: finite(decisionOf(s, load).probability_best[k]),
    regret: finite(decisionOf(s, load).expected_regret[k]),
    batch: finite(s.effective_batch[k][load]),
    past: finite(s.p_past_capacity[k][load]),
    status: s.status[k][load] + (s.outside[k][load] ? `: ${s.outside[k][load]}` : ""),
    chosen: k === chosen.draft && load === chosen.load,
  };
}

const COLUMNS = [
  { title: "k", value: (r) => r.k },
  { title: "Median", value: (r) => r.median, text: (r) => secondsText(r.median) },
  { title: "5 %", value: (r) => r.low, text: (r) => secondsText(r.low) },
  { title: "95 %", value: (r) => r.high, text: (r) => secondsText(r.high) },
  { title: "P(within limit)", value: (r) => r.met, text: (r) => probabilityText(r.met) },
  { title: "P(best)", value: (r) => r.best, text: (r) => probabilityText(r.best) },
  { title: "Regret", value: (r) => r.regret, text: (r) => `${(100 * r.regret).toFixed(1)} %` },
  { title: "In the system", value: (r) => r.batch, text: (r) => numberText(r.batch) },
  { title: "P(past capacity)", value: (r) => r.past, text: (r) => probabilityText(r.past) },
  { title: "P(SLO met)", value: (r) => r.own.met, text: (r) => probabilityText(r.own.met) },
  { title: "Within SLO", value: (r) => r.own.share[1], text: (r) => shareText(r.own.share[1]) },
  { title: "Goodput, 1/s", value: (r) => r.own.goodput[1], text: (r) => numberText(r.own.goodput[1]) },
  { title: "Status", value: (r) => r.status, words: true },
];

function fillChoices() {
  const s = setting();
  chosen.load = Math.min(chosen.load, s.loads.length - 1);
  chosen.draft = Math.min(chosen.draft, s.draft_lengths.length - 1);
  if (!(chosen.statistic in s.statistics)) chosen.statistic = Object.keys(s.statistics)[0];
  options(at("setting"), settings.map((each, i) => [i, each.label]).filter(([i]) => settings[i].pair === s.pair), chosen.setting);
  options(at("draft"), s.draft_lengths.map((k, i) => [i, seriesText(k)]), chosen.draft);
  options(at("statistic"), Object.keys(s.statistics).map((name) => [name, statisticText(name)]), chosen.statistic);
  const utilities = [...Object.keys(s.decisions), ...(unknownOf(s, chosen.objective) ? [] : Object.keys(SLO_UTILITIES))];
  if (!utilities.includes(chosen.utility)) chosen.utility = "mean";
  options(at("utility"), utilities.map((name) => [name, utilityText(name)]), chosen.utility);
  at("load").max = s.loads.length - 1;
  at("load").value = chosen.load;
  fillLimits();
}

function fillLimits() {
  const limits = setting().statistics[chosen.statistic].limits_s;
  chosen.limit = Math.min(chosen.limit, limits.length - 1);
  at("limit").max = limits.length - 1;
  at("limit").value = chosen.limit;
}

// Take the objective as typed, or say what is wrong with it and keep the last one.
function takeObjective() {
  let wrong = "", read = null;
  try {
    read = parseObjective(at("slo").value);
    wrong = unknownOf(setting(), read);
  } catch (error) {
    wrong = error.message;
  }
  if (!wrong) chosen.objective = read;
  at("slo").setAttribute("aria-invalid", String(Boolean(wrong)));
  at("slo-message").textContent = wrong && `${wrong} The page still shows ${chosen.objective.text}.`;
  fillChoices();
}

function card(list, name, text, small, value) {
  const box = element("div");
  const answer = element("dd", text);
  if (small) answer.append(element("small", small));
  answer.dataset.name = name;
  answer.dataset.value = String(value);
  box.append(element("dt", name), answer);
  list.push(box);
}

function show() {
  const s = setting();
  const limit = s.statistics[chosen.statistic].limits_s[chosen.limit];
  const loadText = `${numberText(s.loads[chosen.load], 4)} ${unit()}`;
  at("load-text").textContent = loadText;
  at("limit-text").textContent = secondsText(limit);
  at("load").setAttribute("aria-valuetext", loadText);
  at("limit").setAttribute("aria-valuetext", secondsText(limit));
  const row = rowAt(s, chosen.draft, chosen.load);
  const decision = decisionOf(s, chosen.load);
  const about = `${s.pair}, ${seriesText(row.k)}, ${loadText}; ${s.label}`;
  at("scenario-text").textContent = about;
  const cards = [];
  card(cards, `Latency (${statisticText(chosen.statistic)})`, secondsText(row.median), `90 %: ${secondsText(row.low)} to ${secondsText(row.high)}`, row.median);
  card(cards, "P(within limit)", probabilityText(row.met), `at most ${secondsText(limit)}`, row.met);
  const best = s.draft_lengths.indexOf(decision.choice);
  const none = decision.choice === null;
  card(cards, "Draft length to run", none ? "none" : `k = ${decision.choice}`, none ? decision.verdict : `P(best) ${probabilityText(decision.probability_best[best])}; ${decision.verdict}`, decision.choice);
  const met = s.loads.map((_, i) => withinOf(s, chosen.statistic, chosen.kind, chosen.draft, i, chosen.limit));
  let highest = -1; // a load counts only if every lower one of the page does, too
  while (highest + 1 < met.length && met[highest + 1] >= 0.9) highest += 1;
  card(cards, "Highest load of the slider with P ≥ 0.9", highest < 0 ? "none" : `${numberText(s.loads[highest], 4)}`, `${unit()}, ${seriesText(row.k)}`, highest < 0 ? null : s.loads[highest]);
  at("answers").replaceChildren(...cards);
  showObjective(s, row);
  at("choice-text").textContent = `${decision.verdict}: ${decision.reason}.`;
  at("status-text").textContent = `Status of this prediction: ${row.status}.`;
  fillTable(at("drafts"), COLUMNS, s.draft_lengths.map((_, k) => rowAt(s, k, chosen.load)));
  const everything = s.loads.flatMap((_, i) => s.draft_lengths.map((_, k) => rowAt(s, k, i)));
  const loadColumn = { title: `Load, ${unit()}`, value: (r) => r.load, text: (r) => numberText(r.load, 4) };
  fillTable(at("all"), [loadColumn, ...COLUMNS], everything);
  showLimits(s);
  showCharts(s, limit, everything);
}

function showObjective(s, row) {
  const { num_draws: n, of_draws: all } = { ...s.requests, of_draws: s.num_draws };
  const unknown = unknownOf(s, chosen.objective);
  at("objective-text").textContent = unknown || `${chosen.objective.text}, at ${numberText(row.load, 4)} ${unit()} with ${seriesText(row.k)}; of the configuration, from ${n === all ? `all ${n}` : `${n} of the ${all}`} draws of the fit.`;
  const cards = [];
  const [low, middle, high] = row.own.share, [least, usual, most] = row.own.goodput;
  card(cards, "P(SLO met)", probabilityText(row.own.met), "the objective as a whole", row.own.met);
  card(cards, "Requests within the SLO", shareText(middle), `90 %: ${shareText(low)} to ${shareText(high)}`, row.own.share.join(" "));
  card(cards, "Goodput", `${numberText(usual)} requests/s`, `90 %: ${numberText(least)} to ${numberText(most)}`, row.own.goodput.join(" "));
  at("objective-answers").replaceChildren(...(unknown ? [] : cards));
}

function showLimits(s) {
  const part = (values, i) => (values ? finite(values[i]) : NaN);
  const rows = s.draft_lengths.map((k, i) => {
    const turn = s.break_even.find((each) => each.num_speculative_tokens === k);
    return { k, turn, capacity: s.capacity[i], chosen: i === chosen.draft };
  });
  const span = (low, middle, high) => (Number.isFinite(middle) ? `${numberText(middle)} (${numberText(low)} to ${numberText(high)})` : "–");
  const chance = (title, name) => ({ title, value: (r) => (r.turn ? r.turn[name] : NaN), text: (r) => (r.turn ? probabilityText(r.turn[name]) : "–") });
  const turnOf = (r, name) => (r.turn && r.turn[name] !== null ? finite(r.turn[name]) : NaN);
  fillTable(at("limits"), [
    { title: "k", value: (r) => r.k },
    { title: "Capacity, requests/s", value: (r) => part(r.capacity, 1), text: (r) => span(part(r.capacity, 0), part(r.capacity, 1), part(r.capacity, 2)) },
    { title: `Break-even, ${unit()}`, value: (r) => turnOf(r, "median"), text: (r) => span(turnOf(r, "low"), turnOf(r, "median"), turnOf(r, "high")) },
    chance("P(stops paying)", "p_crosses"),
    chance("P(always pays)", "p_always"),
    chance("P(never pays)", "p_never"),
    { title: "Status", value: (r) => (r.turn ? r.turn.status + (r.turn.outside ? `: ${r.turn.outside}` : "") : "–"), words: true },
  ], rows);
  at("break-even-text").replaceChildren(...s.break_even.map((turn) => element("p", turn.statement)));
}

function showCharts(s, limit, everything) {
  const names = s.draft_lengths.map(seriesText);
  const loadTitle = s.load_name === "request_rate_rps" ? "Request rate, requests/s" : "Requests in flight";
  const key = `${chosen.setting}|${chosen.statistic}`;
  const drawn = everything.map((r) => ({ ...r, series: seriesText(r.k) }));
  const here = [{ load: s.loads[chosen.load] }];
  const bands = drawn.filter((r) => Number.isFinite(r.median)).map((r) => {
    return { ...r, high: Number.isFinite(r.high) ? r.high : r.median };
  });
  const open = drawn.some((r) => Number.isFinite(r.median) && !Number.isFinite(r.high));
  const points = chosen.statistic === "e2e_mean" ? s.measured.map((r) => ({ ...r, series: seriesText(r.k) })) : [];
  const text = statisticText(chosen.statistic);
  const what = chosen.kind === "mean" ? "the configuration" : "one fresh run";
  const dots = points.length ? " Dots: measured runs." : "";
  const cut = open ? " Where the band has no finite upper end only its lower half is drawn." : "";
  at("latency-caption").textContent = `Latency (${text}) of ${what} against load: median, 90 % band, limit.${dots}${cut}`;
  at("limit-caption").textContent = `P(within limit): ${text} at most ${secondsText(limit)}, of ${what}, against load.`;
  at("shares-caption").textContent = `Where the mean latency goes at ${numberText(s.loads[chosen.load], 4)} ${unit()} (mean over the draws below capacity).`;
  at("best-caption").textContent = `P(best) for ${utilityText(chosen.utility)}, of the configuration, against load.`;
  at("objective-caption").textContent = `P(SLO met): ${chosen.objective.text}, of the configuration, against load.`;
  at("goodput-caption").textContent = `Goodput: requests/s within ${chosen.objective.text}, of the configuration, against load: median.`;
  const limitRow = [{ limit }];
  draw("latency-chart", () => latencyChart(names, loadTitle, points.length > 0), key, { values: bands, ...(points.length ? { points } : {}), limit: limitRow, here }, "Latency against load; the same numbers are in the table of all loads");
  const met = drawn.map((r) => ({ load: r.load, series: r.series, p: r.met }));
  draw("limit-chart", () => probabilityChart(names, loadTitle, "P(within limit)"), key, { values: met, here }, "Probability that the latency is within the limit against load; numbers in the table of all loads");
  const own = (value) => drawn.map((r) => ({ load: r.load, series: r.series, p: value(r.own) })).filter((r) => Number.isFinite(r.p));
  draw("objective-chart", () => probabilityChart(names, loadTitle, "P(SLO met)"), key, { values: own((o) => o.met), here }, "Probability that the objective typed is met against load; numbers in the table of all loads");
  draw("goodput-chart", () => goodputChart(names, loadTitle), key, { values: own((o) => o.goodput[1]), here }, "Requests per second within the objective typed against load; numbers in the table of all loads");
  const best = drawn.map((r) => ({ load: r.load, series: r.series, p: r.best }));
  draw("best-chart", () => probabilityChart(names, loadTitle, "P(best)"), key, { values: best, here }, "Probability of being best against load; numbers in the table of all loads");
  const parts = s.draft_lengths.flatMap((k, i) => Object.keys(PARTS).map((part, order) => {
    return { series: seriesText(k), part, order, share: finite(s.shares[part][i][chosen.load]) };
  })).filter((r) => Number.isFinite(r.share));
  const spoken = parts.map((r) => `${r.series} ${r.part} ${(100 * r.share).toFixed(0)} %`).join(", ");
  draw("shares-chart", () => sharesChart(names), key, { values: parts }, `Shares of mean latency: ${spoken || "past capacity"}`);
}

async function start() {
  const page = await unpacked(at("report-data").textContent.trim());
  [settings, rules] = [page.settings, page.rules];
  at("slo").value = page.objective;
  chosen.objective = parseObjective(page.objective);
  const pairs = [...new Set(settings.map((s) => s.pair))];
  options(at("pair"), pairs.map((pair) => [pair, pair]), setting().pair);
  chosen.load = Math.floor(setting().loads.length / 3);
  chosen.draft = setting().draft_lengths.length - 1;
  chosen.limit = Math.floor(Object.values(setting().statistics)[0].limits_s.length / 3);
  fillChoices();
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("controls").addEventListener("input", (event) => {
    const { id, value } = event.target;
    if (id === "pair") chosen.setting = settings.findIndex((s) => s.pair === value);
    else if (id === "slo") takeObjective();
    else if (id === "statistic" || id === "kind" || id === "utility") chosen[id] = value;
    else chosen[id] = Number(value);
    if (id === "pair" || id === "setting") takeObjective(); // fills the choices, too
    if (id === "statistic") fillLimits();
    show();
  });
  makeSortable(at("runs"));
  show();
}

const started = start();
