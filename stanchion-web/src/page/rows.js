// The rows themselves: building and patching one, its lease bars and its details.

import { LOW, dirty, model, seen, serverNow } from "./model.js";
import { askFree } from "./server.js";
import { $, KINDS, count, labelOf, least, number, setAttribute, setFacts, setText, shown, span } from "./text.js";

// One row

// The row that an element of the list shows.
export const rowOf = new WeakMap();

export function build(row) {
  const el = $("row-template").content.firstElementChild.cloneNode(true);
  const part = (name) => el.querySelector(`.${name}`);
  row.el = el;
  row.parts = { line: part("line"), name: part("name"), text: part("text"), kind: part("kind"), who: part("who") };
  for (const name of ["age", "level", "leases", "amount", "when", "marks", "waiters"]) row.parts[name] = part(name);
  row.parts.bars = [];
  rowOf.set(el, row);
  const { kind, name } = row.data;
  el.dataset.kind = kind;
  setText(row.parts.text, shown(name));
  row.parts.name.title = shown(name);
  setText(row.parts.kind, KINDS[kind].one);
  if ("oncontentvisibilityautostatechange" in el) {
    el.addEventListener("contentvisibilityautostatechange", (event) => {
      if (event.target === el) setSeen(row, !event.skipped);
    });
  } else {
    setSeen(row, true);
  }
  patch(row);
}

export function setSeen(row, now) {
  if (now === seen.has(row)) return;
  if (now) seen.add(row);
  else seen.delete(row);
  runBars(row, now);
  if (now) times(row, serverNow());
}

// Puts a heading above the row, or takes it away if the text is empty.
export function setHeading(row, text) {
  if (!row.heading) {
    if (text === "") return;
    row.heading = document.createElement("h3");
    row.el.prepend(row.heading);
  }
  setText(row.heading, text);
  if (row.heading.hidden !== (text === "")) row.heading.hidden = text === "";
}

export function patch(row) {
  dirty.delete(row);
  if (!row.el) return;
  const { data, parts } = row;
  const { kind, holders, waiters, holds } = data;
  setText(parts.who, whoHolds(data));
  row.el.classList.toggle("free", !holders);
  const leased = kind === "mutex" || kind === "semaphore" || kind === "wait_group" ? holds.slice(0, 8) : [];
  parts.leases.hidden = leased.length === 0;
  patchBars(row, parts.leases, parts.bars, leased);
  setText(parts.waiters, waiters ? `${number(waiters)} waiting` : "");
  const marks = Math.min(waiters ?? 0, 12);
  if (parts.marks.count !== marks) {
    parts.marks.count = marks;
    parts.marks.style.setProperty("--count", marks);
  }
  if (row.open) patchDetails(row);
  times(row, serverNow());
}

function whoHolds({ kind, holders, holds }) {
  if (kind === "limiter" || kind === "bloom_filter") return "";
  if (holders === null) return "not known yet";
  if (holders === 0) return kind === "wait_group" ? "no members" : "free";
  const labels = holds.slice(0, 2).map((hold) => (hold.label ? shown(hold.label) : null));
  if (labels.length === 0 || labels.includes(null)) return count(holders, kind === "wait_group" ? "member" : "holder");
  return labels.join(", ") + (holders > labels.length ? ` and ${number(holders - labels.length)} more` : "");
}

// How much of a semaphore, wait group or limiter is held, held past the end of its lease (`over`),
// left or done.
function levelOf({ data, peak }, time) {
  const { kind, weight, holders, limit, tokens, holds } = data;
  const used = weight ?? holders;
  const late = holds.filter((hold) => hold.lease_ends_at_ms !== null && hold.lease_ends_at_ms < time);
  const over = Math.min(used ?? 0, late.reduce((sum, hold) => sum + (hold.weight ?? 1), 0));
  const past = over > 0 ? `, ${number(over)} late` : "";
  if (kind === "semaphore" && used !== null) {
    const text = `${limit === null ? count(used, "permit") : `${number(used)} of ${count(limit, "permit")}`} held${past}`;
    const left = Math.max(0, (limit ?? used) - used);
    return { now: used, most: limit, text, spoken: `${text}, ${number(left)} left`, parts: { held: used - over, over, left } };
  }
  if (kind === "limiter" && tokens !== null) {
    const left = Math.max(0, tokens);
    const text = limit === null ? `${count(left, "token")} left` : `${number(left)} of ${count(limit, "token")} left`;
    return { now: left, most: limit, text, parts: { left } };
  }
  if (kind === "wait_group" && used !== null && used > 0) {
    const text = `${number(peak - used)} of ${count(peak, "member")} done${past}`;
    return { now: peak - used, most: peak, text, parts: { done: peak - used, held: used - over, over } };
  }
  return { now: 0, most: null, text: "", parts: {} };
}

// The parts of a bar from its beginning on; the rest of it is track.
const PARTS = ["done", "held", "over", "left"];

function patchLevel(row, time) {
  const { level, amount } = row.parts;
  const { now, most, text, spoken = text, parts } = levelOf(row, time);
  setText(amount, text);
  if (level.hidden !== !most) level.hidden = !most;
  if (!most) return;
  // An empty part at the beginning ends one gap before it, so that its gap does not show.
  let end = 0;
  const ends = PARTS.map((part) => (end = Math.min(1, end + Math.max(0, parts[part] ?? 0) / most)));
  if (level.ends !== ends.join()) {
    level.ends = ends.join();
    PARTS.forEach((part, i) => level.style.setProperty(`--${part}-end`, ends[i] === 0 ? "-2px" : `${(100 * ends[i]).toFixed(2)}%`));
  }
  const { kind } = row.data;
  setAttribute(level, "role", kind === "wait_group" ? "progressbar" : "meter");
  setAttribute(level, "aria-label", kind === "wait_group" ? "Done" : kind === "limiter" ? "Tokens left" : "Permits held");
  setAttribute(level, "aria-valuemin", 0);
  setAttribute(level, "aria-valuemax", most);
  setAttribute(level, "aria-valuenow", Math.min(now, most));
  setAttribute(level, "aria-valuetext", spoken);
}

// All that changes with time alone: texts, and bars that are not animated.
export function times(row, now) {
  const { data, parts } = row;
  const { holds } = data;
  const since = least(holds, "granted_at_ms");
  const ends = least(holds, "lease_ends_at_ms");
  setText(parts.age, since < Infinity ? `held ${span(now - since)}` : "");
  let when = "";
  if (ends < Infinity) when = leaseText(ends, now, holds.length > 1 ? "first lease ends" : "lease ends");
  else if (holds.length > 0) when = "no lease";
  else if (data.used_at_ms !== null && !data.holders) when = `used ${span(now - data.used_at_ms)} ago`;
  setText(parts.when, when);
  row.el.classList.toggle("over", ends < now);
  if (data.kind !== "mutex") patchLevel(row, now);
  tellBars(parts.bars, now);
  if (holds.length > 0) tellMeter(parts.leases, holds, now);
  if (row.details) timesOfDetails(row, now);
}

const leaseText = (ends, now, words) =>
  ends > now ? `${words} in ${span(ends - now)}` : `lease over since ${span(now - ends)}`;

function tellMeter(meter, holds, now) {
  const ends = least(holds, "lease_ends_at_ms");
  if (ends === Infinity) {
    setAttribute(meter, "aria-valuemax", 1);
    setAttribute(meter, "aria-valuenow", 1);
    setAttribute(meter, "aria-valuetext", "no lease");
    return;
  }
  const { lease_ms: length } = holds.find((hold) => hold.lease_ends_at_ms === ends);
  const most = Math.max(1, Math.round((length ?? ends - now) / 1000));
  setAttribute(meter, "aria-valuemax", most);
  setAttribute(meter, "aria-valuenow", Math.min(most, Math.max(0, Math.floor((ends - now) / 1000))));
  setAttribute(meter, "aria-valuetext", leaseText(ends, now, "ends"));
}

// Lease bars

// A bar longer than this moves too slowly to see: it is set once a second in place of an animation.
const SMOOTH_MS = 90_000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// Gives `box` one bar for each hold; a bar whose hold is as before is not touched.
function patchBars(row, box, bars, holds) {
  while (bars.length > holds.length) {
    const bar = bars.pop();
    stopBar(bar);
    bar.el.remove();
  }
  holds.forEach((hold, i) => {
    bars[i] ??= makeBar(box);
    const bar = bars[i];
    if (bar.ends === hold.lease_ends_at_ms && bar.length === hold.lease_ms) return;
    bar.ends = hold.lease_ends_at_ms;
    bar.length = hold.lease_ms;
    bar.full = Math.max(1, hold.lease_ms ?? bar.ends - (hold.granted_at_ms ?? serverNow()));
    bar.el.classList.toggle("endless", bar.ends === null);
    stopBar(bar);
    if (seen.has(row)) runBar(bar, serverNow());
  });
}

function makeBar(box) {
  const el = document.createElement("span");
  const fill = document.createElement("i");
  el.className = "lease";
  el.append(fill);
  box.append(el);
  return { el, fill, run: null, ends: undefined };
}

const leftOf = (bar, now) => Math.min(1, Math.max(0, (bar.ends - now) / bar.full));

function runBar(bar, now) {
  stopBar(bar);
  if (bar.ends === null) return;
  const left = leftOf(bar, now);
  if (calm.matches || bar.full > SMOOTH_MS || left === 0) {
    bar.fill.style.setProperty("transform", `scaleX(${left})`);
  } else {
    bar.fill.style.setProperty("transform", "scaleX(0)");
    const steps = [{ transform: `scaleX(${left})` }, { transform: "scaleX(0)" }];
    bar.run = bar.fill.animate(steps, { duration: bar.ends - now, easing: "linear" });
  }
  tellBars([bar], now);
}

function stopBar(bar) {
  bar.run?.cancel();
  bar.run = null;
}

function tellBars(bars, now) {
  for (const bar of bars) {
    if (bar.ends === null) continue;
    const left = leftOf(bar, now);
    bar.el.classList.toggle("low", left < LOW);
    if (!bar.run || left === 0) bar.fill.style.setProperty("transform", `scaleX(${left})`);
  }
}

export function runBars(row, on) {
  const now = serverNow();
  const bars = [...row.parts.bars];
  if (row.details) for (const hold of row.details.holds.values()) bars.push(...hold.bars);
  for (const bar of bars) {
    if (on) runBar(bar, now);
    else stopBar(bar);
  }
}

calm.addEventListener("change", () => {
  for (const row of seen) runBars(row, true);
});

// Details of a row

const FACTS = {
  Name: ({ name }) => shown(name),
  Kind: ({ kind }) => KINDS[kind].one,
  Holders: ({ holders, kind }) => (kind === "wait_group" ? null : holders),
  Members: ({ holders, weight, kind }) => (kind === "wait_group" ? weight ?? holders : null),
  "Permits held": ({ weight, kind }) => (kind === "semaphore" ? weight : null),
  Limit: ({ limit }) => limit,
  "Tokens left": ({ tokens }) => tokens,
  Waiting: ({ waiters }) => waiters,
};
const HOLDS_SHOWN = 100;

export function toggleRow(row, open) {
  row.open = open;
  setAttribute(row.parts.name, "aria-expanded", open);
  row.el.classList.toggle("open", open);
  if (open) {
    const el = $("details-template").content.firstElementChild.cloneNode(true);
    const part = (name) => el.querySelector(`.${name}`);
    row.details = { el, facts: part("facts"), note: part("note"), list: part("holds"), holds: new Map() };
    row.el.append(el);
    patchDetails(row);
    times(row, serverNow());
  } else {
    for (const hold of row.details.holds.values()) hold.bars.forEach(stopBar);
    row.details.el.remove();
    row.details = null;
  }
}
function patchDetails(row) {
  const { data, details } = row;
  const facts = {};
  for (const [term, of] of Object.entries(FACTS)) facts[term] = of(data);
  setFacts(details.facts, facts);
  const holds = data.holds.slice(0, HOLDS_SHOWN);
  const kept = new Set();
  let before = null;
  holds.forEach((hold, i) => {
    const key = hold.ticket ?? `#${i}`;
    kept.add(key);
    const entry = details.holds.get(key) ?? makeHold(row, key);
    patchHold(row, entry, hold);
    const after = before ? before.nextSibling : details.list.firstChild;
    if (entry.el !== after) details.list.insertBefore(entry.el, after);
    before = entry.el;
  });
  for (const [key, entry] of details.holds) {
    if (kept.has(key)) continue;
    const focused = entry.el.contains(document.activeElement);
    entry.bars.forEach(stopBar);
    entry.el.remove();
    details.holds.delete(key);
    if (focused) row.parts.name.focus({ preventScroll: true });
  }
  const left = data.holds.length - holds.length;
  const unknown = (data.holders ?? 0) > 0 && holds.length === 0;
  const none = holds.length === 0 ? "None." : "";
  setText(details.note, unknown ? "Not looked at yet." : left > 0 ? `${number(left)} more are not shown.` : none);
  details.note.hidden = details.note.textContent === "";
}

function makeHold(row, key) {
  const el = $("hold-template").content.firstElementChild.cloneNode(true);
  const entry = { el, bars: [], data: null };
  for (const name of ["label", "held", "leases", "when", "free", "ids"]) entry[name] = el.querySelector(`.${name}`);
  entry.free.addEventListener("click", () => {
    // Safari does not focus a pressed button; after the question the focus comes back to it.
    entry.free.focus({ preventScroll: true });
    askFree(row, entry.data);
  });
  row.details.holds.set(key, entry);
  return entry;
}

function patchHold(row, entry, hold) {
  const { kind, name } = row.data;
  entry.data = hold;
  setText(entry.label, labelOf(hold));
  const ids = [];
  if (hold.weight > 1) ids.push(count(hold.weight, KINDS[kind].unit));
  if (hold.token !== null) ids.push(`fencing token ${hold.token}`);
  if (hold.ticket !== null) ids.push(`ticket ${hold.ticket}`);
  setText(entry.ids, shown(ids.join(", ")));
  entry.free.hidden = !(model.mayFree && hold.ticket && (kind === "mutex" || kind === "semaphore"));
  setAttribute(entry.free, "aria-label", `Free… ${shown(name)} held by ${hold.label ? shown(hold.label) : "a holder without a label"}`);
  patchBars(row, entry.leases, entry.bars, [hold]);
}

function timesOfDetails(row, now) {
  setFacts(row.details.facts, { "Last used": row.data.used_at_ms === null ? null : `${span(now - row.data.used_at_ms)} ago` });
  for (const entry of row.details.holds.values()) {
    const { granted_at_ms: since, lease_ends_at_ms: ends } = entry.data;
    setText(entry.held, since === null ? "" : `held ${span(now - since)}`);
    setText(entry.when, ends === null ? "no lease" : leaseText(ends, now, "lease ends"));
    entry.el.classList.toggle("over", ends !== null && ends < now);
    tellBars(entry.bars, now);
    tellMeter(entry.leases, [entry.data], now);
  }
}
