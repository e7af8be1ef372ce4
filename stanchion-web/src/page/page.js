// Shows the locks of one namespace as the server's stream of looks tells them.
//
// A look changes the model (model.js) at once and marks rows as dirty; the page itself is changed only in `frame`
// (list.js), which patches for a few milliseconds and goes on in the next frame. This module takes the looks, and has
// the clock, the second's turn, the plots and the controls.

import { place, placeSoon, placedAt, showEmpty, sift, soon, wake } from "./list.js";
import {
  WINDOW_MS, clock, forget, isOld, keyOf, model, order, rows, seen, serverNow, state, takePoints, takeRow, view,
} from "./model.js";
import { runBars, times } from "./rows.js";
import { ask, listen, showSince, showState } from "./server.js";
import { $, KINDS, keep, kept, number, say, setAttribute, setText, shown } from "./text.js";

// A look

// A late arrival makes a reading too low, so the highest of the last readings is the nearest.
function setClock(nowMs, fresh) {
  const reading = nowMs - performance.now();
  if (fresh || reading < clock.offset - 5_000) clock.readings = [];
  clock.readings.push(reading);
  if (clock.readings.length > 30) clock.readings.shift();
  clock.offset = Math.max(...clock.readings);
  if (Math.abs(clock.offset - clock.ofBars) < 150) return;
  clock.ofBars = clock.offset;
  for (const row of seen) runBars(row, true);
}

// Whether the page has rows that the server does not know: it began while the store was away.
let hasOldRows = false;

function takeLook(look) {
  setClock(look.now_ms, look.full);
  const isWhole = look.full || hasOldRows;
  hasOldRows = isWhole && look.error !== null && look.set.length === 0;
  let names = isWhole && !hasOldRows;
  if (names) {
    const named = new Set(look.set.map((data) => keyOf(data.kind, data.name)));
    for (const key of rows.keys()) if (!named.has(key)) names = forget(key) || names;
  }
  for (const [kind, name] of look.gone) names = forget(keyOf(kind, name)) || names;
  if (names) model.byName = model.byName.filter((row) => rows.has(row.key));
  let added = false;
  for (const data of look.set) if (Object.hasOwn(KINDS, data.kind)) added = takeRow(data) || added;
  if (added) model.byName.sort(order);
  takePoints(look);

  model.mayFree = look.unlock;
  model.more = look.more;
  model.title = look.title;
  state.tookMs = look.took_ms;
  state.fault = look.error;
  if (look.error === null) state.goodAt = performance.now();
  state.everLooked = true;
  showState();
  showHead(look.store);
  if (names || added) placeSoon();
  wake();
}

function showHead(store) {
  setText($("title"), shown(model.title));
  say("store", shown(store));
  const held = model.points.at(-1)?.held ?? model.byName.reduce((sum, row) => sum + (row.data.holders ?? 0), 0);
  const text = `${state.fault === null ? `${number(held)} held` : "store away"} – ${shown(model.title)}`;
  if (document.title !== text) document.title = text;
  if (rows.size === 0) showEmpty(false);
}

function countKinds() {
  const isUnknown = rows.size === 0 && (isOld() || !state.everLooked);
  const counts = { "": model.byName.length };
  for (const row of model.byName) counts[row.data.kind] = (counts[row.data.kind] ?? 0) + 1;
  for (const node of document.querySelectorAll("#kinds .count")) setText(node, isUnknown ? "–" : number(counts[node.dataset.kind] ?? 0));
}

// Every second

// How often an order that changes with the holds is made anew; the timer's own second is not exact.
const SORT_MS = 1_500;
let behind = [];

function everySecond() {
  behind = [...seen];
  soon(tellTimes);
  soon(drawPlots);
  soon(countKinds);
  const changes = view.sort !== "name" || view.query !== "" || view.used;
  if (changes && performance.now() - placedAt > SORT_MS) soon(place);
  if (rows.size === 0) showEmpty(false);
  showSince();
}

// Some rows in a frame, so that no frame has to lay out all of them.
function tellTimes() {
  const now = serverNow();
  for (const row of behind.splice(0, 16)) if (seen.has(row)) times(row, now);
  if (behind.length > 0) soon(tellTimes);
}

// Plots

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 300;
const HIGH = 60;
const PLOTS = { names: "Names", held: "Held", waiting: "Waiting", began_per_s: "Begun per second" };
const plots = Object.entries(PLOTS).map(([field, name]) => makePlot(field, name));

function makePlot(field, name) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const head = document.createElement("span");
  const now = document.createElement("strong");
  head.textContent = name;
  caption.append(head, now);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const [area, line] = ["area", "line"].map((kind) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", kind);
    svg.append(path);
    return path;
  });
  const box = document.createElement("div");
  box.className = "plot";
  const [most] = [["most"], ["least", "0"], ["from", "10 min ago"], ["middle", "5 min"], ["to", "now"]].map((mark) => addMark(box, ...mark));
  box.append(svg);
  figure.append(caption, box);
  $("plots").append(figure);
  return { field, name, svg, area, line, now, most };
}

// A value at an axis. The picture's own text says the same.
function addMark(box, place, text = "") {
  const mark = document.createElement("span");
  mark.className = place;
  mark.textContent = text;
  mark.setAttribute("aria-hidden", "true");
  box.append(mark);
  return mark;
}

function drawPlots() {
  const last = model.points.at(-1);
  const totals = last ? Object.entries(PLOTS).filter(([field]) => last[field] !== null) : [];
  setText($("totals"), totals.map(([field, name]) => `${name.toLowerCase()} ${number(last[field])}`).join(" · "));
  if (!plotsBox.open) return;
  const now = serverNow();
  const steps = model.points.slice(1).map((point, i) => point.at_ms - model.points[i].at_ms).sort((a, b) => a - b);
  const gap = Math.max(2_000, 2.5 * (steps[steps.length >> 1] ?? 0));
  for (const plot of plots) drawPlot(plot, now, gap);
}

// The points in stretches: a pause longer than `gap`, or a point without the value, ends one.
function stretches(field, now, gap) {
  const found = [];
  let last = -Infinity;
  for (const point of model.points) {
    if (point[field] === null || point.at_ms < now - WINDOW_MS) continue;
    if (point.at_ms - last > gap) found.push([]);
    found.at(-1).push(point);
    last = point.at_ms;
  }
  return found;
}

function drawPlot(plot, now, gap) {
  const { field, name } = plot;
  const found = stretches(field, now, gap);
  const values = found.flat().map((point) => point[field]);
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const top = Math.max(1, most);
  const x = (point) => (WIDE * (1 - (now - point.at_ms) / WINDOW_MS)).toFixed(1);
  const y = (point) => (HIGH * (1 - point[field] / top)).toFixed(1);
  let line = "";
  let area = "";
  for (const stretch of found) {
    const way = stretch.map((point) => `${x(point)} ${y(point)}`).join("L");
    line += `M${way}${stretch.length === 1 ? "h1" : ""}`;
    area += `M${x(stretch[0])} ${HIGH}L${way}L${x(stretch.at(-1))} ${HIGH}Z`;
  }
  plot.line.setAttribute("d", line);
  plot.area.setAttribute("d", area);
  const known = values.length > 0;
  setText(plot.now, known ? number(values.at(-1)) : "–");
  setText(plot.most, number(top));
  const text = known ? `now ${number(values.at(-1))}, least ${number(low)}, most ${number(most)}` : "no points yet";
  setAttribute(plot.svg, "aria-label", `${name} over the last ten minutes: ${text}`);
}

// Controls

function addKinds() {
  const choices = [["", "All"], ...Object.entries(KINDS).map(([kind, { many }]) => [kind, many])];
  for (const [kind, text] of choices) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const number = document.createElement("span");
    Object.assign(input, { type: "radio", name: "kind", value: kind, checked: kind === "" });
    number.className = "count";
    number.dataset.kind = kind;
    label.append(input, ` ${text} `, number);
    $("kinds").append(label);
  }
}

// A browser may give the controls what they had before the page was loaded again.
function readControls() {
  view.query = $("query").value.trim().toLowerCase();
  view.sort = $("sort").value;
  view.used = $("used").checked;
  view.grouped = $("grouped").checked;
  view.kind = document.querySelector("#kinds input:checked").value;
  sift();
}

$("controls").addEventListener("submit", (event) => event.preventDefault());
$("controls").addEventListener("input", readControls);
$("query").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.preventDefault();
  $("query").value = view.query = "";
  sift();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || ask.open) return;
  if (event.target.closest("input:not([type=radio]), select, textarea")) return;
  event.preventDefault();
  $("query").focus();
  $("query").select();
});

const THEMES = ["system", "light", "dark"];
let theme = "system";

function setTheme(name) {
  theme = THEMES.includes(name) ? name : "system";
  document.documentElement.dataset.theme = theme;
  setText($("theme"), `Colours: ${theme}`);
}

$("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  keep("localStorage", "stanchion-theme", theme);
});

// What is chosen here is kept. On a narrow page the plots are closed at first, to leave room for the
// list.
const plotsBox = $("plots-box");
const rowsBox = $("compact");

function setCompact(on) {
  rowsBox.checked = on;
  document.body.classList.toggle("compact", on);
}

rowsBox.addEventListener("input", (event) => {
  event.stopPropagation();
  setCompact(rowsBox.checked);
  keep("localStorage", "stanchion-compact", rowsBox.checked ? "yes" : "no");
});
plotsBox.querySelector("summary").addEventListener("click", () => {
  keep("localStorage", "stanchion-plots", plotsBox.open ? "closed" : "open");
});
plotsBox.addEventListener("toggle", drawPlots);

setTheme(kept("localStorage", "stanchion-theme"));
setCompact(kept("localStorage", "stanchion-compact") === "yes");
plotsBox.open = (kept("localStorage", "stanchion-plots") ?? (matchMedia("(max-width: 44rem)").matches ? "closed" : "open")) === "open";
addKinds();
readControls();
drawPlots();
setInterval(everySecond, 1_000);
listen(takeLook);
