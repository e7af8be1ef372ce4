// The list: the frames in which it changes, the order of its rows, and moving in it.

import { SORTS, dirty, leaving, matches, model, rows, seen, state, view } from "./model.js";
import { build, patch, rowOf, setHeading, setSeen, toggleRow } from "./rows.js";
import { showMore } from "./search.js";
import { $, count, setText, shown } from "./text.js";

// Frames

// How long one frame may patch and build, in milliseconds.
const BUDGET_MS = 4;
const jobs = new Set();
let asked = false;

export function wake() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(frame);
}

// At most one job in a frame, so that the work of a second is spread over some of them.
function frame() {
  asked = false;
  const until = performance.now() + BUDGET_MS;
  for (const row of seen) if (dirty.has(row)) patch(row);
  for (const row of dirty) {
    if (performance.now() > until) break;
    patch(row);
  }
  const [job] = jobs;
  if (job) {
    jobs.delete(job);
    job(until);
  }
  if (dirty.size > 0 || jobs.size > 0) wake();
}

export function soon(job) {
  jobs.add(job);
  wake();
}

// The order of the rows on the page

// The list is not sorted anew for this long after the pointer or a key was used in it.
const REST_MS = 2_500;
const list = $("rows");
let placed = [];
let back = [];
let current = null;
let round = 0;
let touchedAt = -Infinity;
export let placedAt = -Infinity;
let placeTimer = 0;
const move = (el, before) => {
  if (el.isConnected && list.moveBefore) list.moveBefore(el, before);
  else list.insertBefore(el, before);
};

// Names may come and go with every look: twice a second is enough for them.
export function placeSoon() {
  clearTimeout(placeTimer);
  const rest = placedAt + 500 - performance.now();
  if (rest <= 0) soon(place);
  else placeTimer = setTimeout(soon, rest, place);
}

function wanted() {
  const want = model.byName.filter(matches);
  const rank = SORTS[view.sort];
  if (rank) {
    for (const row of want) row.rank = rank(row.data);
    want.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0));
  }
  if (performance.now() - touchedAt < REST_MS) {
    const at = (row) => (row.at < 0 ? Infinity : row.at);
    want.sort((a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0));
  }
  return view.grouped ? inGroups(want) : want;
}

// The rows by the prefixes of their names. The groups are in the order of their first rows, which
// have the headings.
function inGroups(want) {
  const groups = new Map();
  for (const row of want) {
    if (!groups.has(row.prefix)) groups.set(row.prefix, []);
    groups.get(row.prefix).push(row);
  }
  for (const [prefix, [first, ...others]] of groups) {
    first.begins = `${prefix === "" ? "Without a prefix" : shown(prefix)}, ${count(others.length + 1, "name")}`;
  }
  return [...groups.values()].flat();
}

export function place(until) {
  placedAt = performance.now();
  round += 1;
  leaving.clear();
  let unfinished = false;
  const next = [];
  for (const row of model.byName) row.begins = "";
  for (const row of wanted()) {
    if (!row.el) {
      if (performance.now() > until) {
        unfinished = true;
        continue;
      }
      build(row);
    } else if (row.at < 0) {
      back.push(row);
    }
    setHeading(row, row.begins);
    row.place = round;
    next.push(row);
  }
  const focused = document.activeElement?.closest?.("#rows > .row");
  const topBefore = isRead() ? current.el.getBoundingClientRect().top : null;
  const lost = takeAway(focused);
  const stay = longestRun(next);
  for (let i = next.length - 1, after = null; i >= 0; i -= 1) {
    const row = next[i];
    if (!stay.has(row)) move(row.el, after);
    row.at = i;
    after = row.el;
  }
  placed = next;
  if (!placed.includes(current)) setCurrent(placed[Math.min(Math.max(lost, 0), placed.length - 1)] ?? null);
  if (lost >= 0) (current?.parts.name ?? list).focus({ preventScroll: true });
  else if (focused && !focused.contains(document.activeElement)) rowOf.get(focused).parts.name.focus({ preventScroll: true });
  if (topBefore !== null && current.at >= 0) scrollBy(0, current.el.getBoundingClientRect().top - topBefore);
  if (unfinished) soon(place);
  if (back.length > 0) setTimeout(soon, 100, seeBack);
  showEmpty(unfinished);
}

// Whether the row that was used last is open or has the focus: then it keeps its place in the window
// when the order changes.
function isRead() {
  return current !== null && current.at >= 0 && seen.has(current) && (current.open || current.el.contains(document.activeElement));
}

// The browser tells of a row coming into view only when that is a change from before it was taken away.
function seeBack() {
  for (const row of back) setSeen(row, row.at >= 0 && row.parts.line.checkVisibility({ contentVisibilityAuto: true }));
  back = [];
}

// Takes away the rows that this round does not want; tells the place of the one that had the focus, or -1.
function takeAway(focused) {
  let lost = -1;
  for (const row of placed) {
    if (row.place === round) continue;
    if (row.el === focused) lost = row.at;
    row.el.remove();
    setSeen(row, false);
    row.at = -1;
  }
  return lost;
}

// The longest run of rows that already stand in the wanted order: only the others need to be moved.
function longestRun(next) {
  const ends = [];
  for (const row of next) {
    if (row.at < 0) continue;
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle].at < row.at) low = middle + 1;
      else high = middle;
    }
    row.previous = low > 0 ? ends[low - 1] : null;
    ends[low] = row;
  }
  const run = new Set();
  for (let row = ends.at(-1) ?? null; row; row = row.previous) run.add(row);
  return run;
}

export function showEmpty(unfinished) {
  setText($("empty"), whyEmpty());
  $("empty").hidden = placed.length > 0 || unfinished;
  $("heads").hidden = list.hidden = !$("empty").hidden;
  showMore();
}

function whyEmpty() {
  if (!state.everLooked) return "Waiting for the first look.";
  if (rows.size > 0) return "No name matches the search, the kind and the filter.";
  if (!state.connected) return "The names are not known: the page is not connected.";
  return state.fault === null ? "No name has state in this namespace." : "The names are not known: the store is away.";
}

// Puts the list in order with the next frame, also while it is in use.
export function sift() {
  showMore();
  touchedAt = -Infinity;
  soon(place);
}

// Moving in the list

function setCurrent(row) {
  if (current?.parts) current.parts.name.tabIndex = -1;
  current = row;
  if (row) row.parts.name.tabIndex = 0;
}

const touch = () => {
  touchedAt = performance.now();
};
for (const type of ["pointermove", "wheel", "touchmove"]) list.addEventListener(type, touch, { passive: true });
list.addEventListener("keydown", touch);
list.addEventListener("focusin", (event) => {
  touch();
  const row = rowOf.get(event.target.closest(".row"));
  if (row) setCurrent(row);
});
list.addEventListener("click", (event) => {
  const row = rowOf.get(event.target.closest(".row"));
  if (row && event.target.closest(".name")) toggleRow(row, !row.open);
});
list.addEventListener("keydown", (event) => {
  const row = rowOf.get(event.target.closest(".row"));
  if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape" && row.open) {
    toggleRow(row, false);
    row.parts.name.focus();
    return;
  }
  if (!event.target.classList.contains("name")) return;
  const last = placed.length - 1;
  const { at } = row;
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const { name } = placed[Math.min(last, Math.max(0, to))].parts;
  name.focus({ preventScroll: true });
  name.scrollIntoView({ block: "nearest" });
});
