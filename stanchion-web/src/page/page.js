// Shows the locks of one namespace as the server's stream of looks tells them.
//
// A look changes the model (`rows`) at once and marks rows as dirty; the page itself is changed only in
// `frame`, which patches for a few milliseconds and goes on in the next frame.

const $ = (id) => document.getElementById(id);

// How long one frame may patch and build, in milliseconds.
const BUDGET_MS = 4;
// The list is not sorted anew for this long after the pointer or a key was used in it.
const REST_MS = 2_500;
// How often an order that changes with the holds is made anew; the timer's own second is not exact.
const SORT_MS = 1_500;
// A bar longer than this moves too slowly to see: it is set once a second in place of an animation.
const SMOOTH_MS = 90_000;
// No byte for so long, not even a keep-alive, and the stream is taken for dead.
const SILENCE_MS = 60_000;
const WINDOW_MS = 600_000;

const KINDS = {
  mutex: { one: "mutex", many: "Mutexes", unit: "holder" },
  semaphore: { one: "semaphore", many: "Semaphores", unit: "permit" },
  wait_group: { one: "wait group", many: "Wait groups", unit: "member" },
  limiter: { one: "limiter", many: "Limiters", unit: "token" },
  bloom_filter: { one: "Bloom filter", many: "Bloom filters", unit: "" },
};

// Text

// Characters that do not show or that turn the text around; and a backslash that could pass for an escape.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u2060-\u206f]|\\(?=u\{)/gu;
const shown = (text) => text.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const number = (n) => numbers.format(n);
const count = (n, unit) => `${number(n)} ${unit}${n === 1 ? "" : "s"}`;

function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

function setText(node, text) {
  if (node.said === text) return;
  node.said = text;
  node.textContent = text;
}

function setAttribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

const least = (holds, field) => holds.reduce((low, hold) => Math.min(low, hold[field] ?? Infinity), Infinity);
const labelOf = (hold) => (hold.label ? shown(hold.label) : "no label");

// What is kept; where the browser forbids storage, only as long as the page is open.

const memory = new Map();

function keep(storage, key, value) {
  memory.set(key, value);
  try {
    window[storage].setItem(key, value);
  } catch {
    // Kept in memory only.
  }
}

function kept(storage, key) {
  try {
    return window[storage].getItem(key) ?? memory.get(key) ?? null;
  } catch {
    return memory.get(key) ?? null;
  }
}

// The server's clock

const clock = { offset: 0, readings: [], ofBars: 0 };
const serverNow = () => performance.now() + clock.offset;

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

// The model

const rows = new Map();
// Rows whose name is gone, until the list is put in order: a lock taken again at once keeps its row, open and focused.
const leaving = new Map();
let byName = [];
let points = [];
let mayFree = false;
let more = false;
let title = "Locks";
const view = { query: "", kind: "", sort: "name" };
const state = { connected: false, everLooked: false, fault: null, goodAt: null, tookMs: null, retryAt: null };

const collator = new Intl.Collator("en", { numeric: true });
const order = (a, b) =>
  collator.compare(a.data.name, b.data.name) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
const keyOf = (kind, name) => `${kind}/${name}`;

const SORTS = {
  waiters: (data) => -(data.waiters ?? 0),
  age: (data) => least(data.holds, "granted_at_ms"),
  lease: (data) => least(data.holds, "lease_ends_at_ms"),
};

function takeLook(look) {
  setClock(look.now_ms, look.full);
  let names = look.full;
  if (look.full) {
    const named = new Set(look.set.map((data) => keyOf(data.kind, data.name)));
    for (const key of rows.keys()) if (!named.has(key)) names = forget(key) || names;
  }
  for (const [kind, name] of look.gone) names = forget(keyOf(kind, name)) || names;
  if (names) byName = byName.filter((row) => rows.has(row.key));
  let added = false;
  for (const data of look.set) if (Object.hasOwn(KINDS, data.kind)) added = takeRow(data) || added;
  if (added) byName.sort(order);
  takePoints(look);

  mayFree = look.unlock;
  more = look.more;
  title = look.title;
  state.tookMs = look.took_ms;
  state.fault = look.error;
  if (look.error === null) state.goodAt = performance.now();
  state.everLooked = true;
  showState();
  showHead(look.store);
  if (names || added) placeSoon();
  wake();
}

function takeRow(data) {
  const key = keyOf(data.kind, data.name);
  let row = rows.get(key);
  const added = !row;
  if (added) {
    row = leaving.get(key) ?? { key, peak: 0, el: null, parts: null, details: null, open: false, at: -1, place: 0 };
    leaving.delete(key);
    rows.set(key, row);
    byName.push(row);
  }
  row.data = data;
  row.text = [data.name, shown(data.name), ...data.holds.map((hold) => hold.label ?? "")].join("\n").toLowerCase();
  // The server does not know how many members a wait group has had: the most seen here since it was empty.
  const members = data.weight ?? data.holders ?? 0;
  row.peak = members === 0 ? 0 : Math.max(row.peak, members, data.limit ?? 0);
  dirty.add(row);
  return added;
}

function forget(key) {
  const row = rows.get(key);
  if (!row) return false;
  dirty.delete(row);
  leaving.set(key, row);
  return rows.delete(key);
}

function takePoints(look) {
  const last = look.full || points.length === 0 ? -Infinity : points.at(-1).at_ms;
  const fresh = look.points.filter((point) => point.at_ms > last);
  points = (look.full ? [] : points).concat(fresh).filter((point) => point.at_ms > look.now_ms - WINDOW_MS);
}

const matches = (row) =>
  (view.kind === "" || row.data.kind === view.kind) && (view.query === "" || row.text.includes(view.query));

// Frames

const dirty = new Set();
const seen = new Set();
const jobs = new Set();
let asked = false;
let behind = [];

function wake() {
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

function soon(job) {
  jobs.add(job);
  wake();
}

function everySecond() {
  behind = [...seen];
  soon(tellTimes);
  soon(drawPlots);
  soon(countKinds);
  if ((view.sort !== "name" || view.query !== "") && performance.now() - placedAt > SORT_MS) soon(place);
  showSince();
}

// Some rows in a frame, so that no frame has to lay out all of them.
function tellTimes() {
  const now = serverNow();
  for (const row of behind.splice(0, 16)) if (seen.has(row)) times(row, now);
  if (behind.length > 0) soon(tellTimes);
}

// The order of the rows on the page

const list = $("rows");
const rowOf = new WeakMap();
let placed = [];
let back = [];
let current = null;
let round = 0;
let touchedAt = -Infinity;
let placedAt = -Infinity;
let placeTimer = 0;
const move = (el, before) => {
  if (el.isConnected && list.moveBefore) list.moveBefore(el, before);
  else list.insertBefore(el, before);
};

// Names may come and go with every look: twice a second is enough for them.
function placeSoon() {
  clearTimeout(placeTimer);
  const rest = placedAt + 500 - performance.now();
  if (rest <= 0) soon(place);
  else placeTimer = setTimeout(soon, rest, place);
}

function wanted() {
  const want = byName.filter(matches);
  const rank = SORTS[view.sort];
  if (rank) {
    for (const row of want) row.rank = rank(row.data);
    want.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0));
  }
  if (performance.now() - touchedAt < REST_MS) {
    const at = (row) => (row.at < 0 ? Infinity : row.at);
    want.sort((a, b) => (at(a) < at(b) ? -1 : at(a) > at(b) ? 1 : 0));
  }
  return want;
}

function place(until) {
  placedAt = performance.now();
  round += 1;
  leaving.clear();
  let unfinished = false;
  const next = [];
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
    row.place = round;
    next.push(row);
  }
  const focused = document.activeElement?.closest?.("#rows > .row");
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
  if (unfinished) soon(place);
  if (back.length > 0) setTimeout(soon, 100, seeBack);
  showEmpty(unfinished);
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

function showEmpty(unfinished) {
  const text = !state.everLooked
    ? "Waiting for the first look."
    : rows.size === 0
      ? "No name has state in this namespace."
      : "No name matches the search.";
  setText($("empty"), text);
  $("empty").hidden = placed.length > 0 || unfinished;
  $("heads").hidden = list.hidden = !$("empty").hidden;
  $("more").hidden = !more;
}

// One row

function build(row) {
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

function setSeen(row, now) {
  if (now === seen.has(row)) return;
  if (now) seen.add(row);
  else seen.delete(row);
  runBars(row, now);
  if (now) times(row, serverNow());
}

function patch(row) {
  dirty.delete(row);
  if (!row.el) return;
  const { data, parts } = row;
  const { kind, holders, waiters, holds } = data;
  setText(parts.who, whoHolds(data));
  row.el.classList.toggle("free", !holders);
  patchLevel(row);
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

// How much of a semaphore, wait group or limiter is used, left or done.
function levelOf({ data, peak }) {
  const { kind, weight, holders, limit, tokens } = data;
  const used = weight ?? holders;
  if (kind === "semaphore" && used !== null) {
    return { now: used, most: limit, text: limit === null ? count(used, "permit") : `${number(used)} of ${count(limit, "permit")}` };
  }
  if (kind === "limiter" && tokens !== null) {
    const left = Math.max(0, tokens);
    return { now: left, most: limit, text: limit === null ? `${count(left, "token")} left` : `${number(left)} of ${count(limit, "token")} left` };
  }
  if (kind === "wait_group" && used !== null && used > 0) {
    return { now: peak - used, most: peak, text: `${number(peak - used)} of ${count(peak, "member")} done` };
  }
  return { now: 0, most: null, text: "" };
}

function patchLevel(row) {
  const { level, amount } = row.parts;
  const { now, most, text } = levelOf(row);
  setText(amount, text);
  level.hidden = !most;
  if (!most) return;
  const full = Math.min(1, now / most);
  if (level.full !== full) {
    level.full = full;
    level.firstElementChild.style.setProperty("transform", `scaleX(${full})`);
  }
  setAttribute(level, "role", row.data.kind === "wait_group" ? "progressbar" : "meter");
  setAttribute(level, "aria-label", row.data.kind === "wait_group" ? "Done" : row.data.kind === "limiter" ? "Tokens left" : "Permits held");
  setAttribute(level, "aria-valuemin", 0);
  setAttribute(level, "aria-valuemax", most);
  setAttribute(level, "aria-valuenow", Math.min(now, most));
  setAttribute(level, "aria-valuetext", text);
}

// All that changes with time alone: texts, and bars that are not animated.
function times(row, now) {
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
    bar.el.classList.toggle("low", left < 0.3);
    if (!bar.run || left === 0) bar.fill.style.setProperty("transform", `scaleX(${left})`);
  }
}

function runBars(row, on) {
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

function toggleRow(row, open) {
  row.open = open;
  setAttribute(row.parts.name, "aria-expanded", open);
  row.el.classList.toggle("open", open);
  if (open) {
    const el = $("details-template").content.firstElementChild.cloneNode(true);
    row.details = { el, facts: el.querySelector(".facts"), note: el.querySelector(".note"), list: el.querySelector(".holds"), holds: new Map() };
    row.el.append(el);
    patchDetails(row);
    times(row, serverNow());
  } else {
    for (const hold of row.details.holds.values()) hold.bars.forEach(stopBar);
    row.details.el.remove();
    row.details = null;
  }
}

function setFacts(box, facts) {
  box.entries ??= new Map();
  for (const [term, value] of Object.entries(facts)) {
    let entry = box.entries.get(term);
    if (!entry) {
      entry = document.createElement("div");
      entry.append(document.createElement("dt"), document.createElement("dd"));
      entry.firstChild.textContent = term;
      box.entries.set(term, entry);
      box.append(entry);
    }
    entry.hidden = value === null || value === "";
    setText(entry.lastChild, typeof value === "number" ? number(value) : value ?? "");
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
  setText(details.note, unknown ? "Not looked at yet." : left > 0 ? `${number(left)} more are not shown.` : holds.length === 0 ? "None." : "");
  details.note.hidden = details.note.textContent === "";
}

function makeHold(row, key) {
  const el = $("hold-template").content.firstElementChild.cloneNode(true);
  const entry = { el, bars: [], data: null };
  for (const name of ["label", "held", "leases", "when", "free", "ids"]) entry[name] = el.querySelector(`.${name}`);
  entry.free.addEventListener("click", () => askFree(row, entry.data));
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
  entry.free.hidden = !(mayFree && hold.ticket && (kind === "mutex" || kind === "semaphore"));
  setAttribute(entry.free, "aria-label", `Free… ${shown(name)} held by ${labelOf(hold)}`);
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

// Moving in the list

function setCurrent(row) {
  if (current?.parts) current.parts.name.tabIndex = -1;
  current = row;
  if (row) row.parts.name.tabIndex = 0;
}

const touch = () => {
  touchedAt = performance.now();
};
list.addEventListener("pointermove", touch, { passive: true });
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
  const to = { ArrowDown: row.at + 1, ArrowUp: row.at - 1, PageDown: row.at + 10, PageUp: row.at - 10, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const { name } = placed[Math.min(last, Math.max(0, to))].parts;
  name.focus({ preventScroll: true });
  name.scrollIntoView({ block: "nearest" });
});

// Plots

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 300;
const HIGH = 60;
const PLOTS = { names: "Names", held: "Held", waiting: "Waiting", began_per_s: "Holds begun per second" };
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
  const range = document.createElement("p");
  range.className = "range";
  range.setAttribute("aria-hidden", "true");
  figure.append(caption, svg, range);
  $("plots").append(figure);
  return { field, name, svg, area, line, now, range };
}

function drawPlots() {
  const now = serverNow();
  const steps = points.slice(1).map((point, i) => point.at_ms - points[i].at_ms).sort((a, b) => a - b);
  const gap = Math.max(2_000, 2.5 * (steps[steps.length >> 1] ?? 0));
  for (const plot of plots) drawPlot(plot, now, gap);
}

// The points in stretches: a pause longer than `gap`, or a point without the value, ends one.
function stretches(field, now, gap) {
  const found = [];
  let last = -Infinity;
  for (const point of points) {
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
  const y = (point) => (HIGH - 2 - (HIGH - 6) * (point[field] / top)).toFixed(1);
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
  setText(plot.range, known ? `least ${number(low)}, most ${number(most)}` : "no points yet");
  const text = known ? `now ${number(values.at(-1))}, least ${number(low)}, most ${number(most)}` : "no points yet";
  setAttribute(plot.svg, "aria-label", `${name} over the last ten minutes: ${text}`);
}

// What the head of the page says

function say(id, text) {
  const node = $(id);
  setText(node, text);
  node.hidden = text === "";
}

function showHead(store) {
  setText($("title"), shown(title));
  say("store", shown(store));
  const held = points.at(-1)?.held ?? byName.reduce((sum, row) => sum + (row.data.holders ?? 0), 0);
  const text = `${number(held)} held – ${shown(title)}`;
  if (document.title !== text) document.title = text;
  if (rows.size === 0) showEmpty(false);
}

function showState() {
  document.body.classList.toggle("connected", state.connected);
  document.body.classList.toggle("old", state.everLooked && (!state.connected || state.fault !== null));
  document.body.classList.toggle("failing", state.fault !== null);
  say("fault", state.fault === null ? "" : `The look at the store failed: ${shown(state.fault)}`);
  showSince();
}

function showSince() {
  const now = performance.now();
  const parts = [];
  if (document.body.classList.contains("old")) {
    parts.push(state.goodAt === null ? "There was no good look yet." : `The rows are old: last good look ${span(now - state.goodAt)} ago.`);
  } else if (state.goodAt !== null) {
    parts.push(`Last look ${span(now - state.goodAt)} ago, it took ${number(state.tookMs)} ms.`);
  }
  if (state.retryAt !== null) parts.push(`Next try in ${span(state.retryAt - now + 999)}.`);
  setText($("since"), parts.join(" "));
}

function countKinds() {
  const counts = { "": byName.length };
  for (const row of byName) counts[row.data.kind] = (counts[row.data.kind] ?? 0) + 1;
  for (const node of document.querySelectorAll("#kinds .count")) setText(node, number(counts[node.dataset.kind] ?? 0));
}

// The token

const form = $("token-form");
let given = null;

const token = () => kept("sessionStorage", "stanchion-token");
const authorization = () => (token() === null ? {} : { Authorization: `Bearer ${token()}` });

// Shows the form and waits until a token was given.
function askToken(why) {
  given ??= Promise.withResolvers?.() ?? later();
  setText($("token-why"), why);
  form.hidden = false;
  $("token").focus();
  return given.promise;
}

function later() {
  const parts = {};
  parts.promise = new Promise((resolve) => (parts.resolve = resolve));
  return parts;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  keep("sessionStorage", "stanchion-token", $("token").value.trim());
  $("token").value = "";
  form.hidden = true;
  given?.resolve();
  given = null;
});

// The stream

class Refused extends Error {}
let wakeUp = () => {};

async function listen() {
  for (let pause = 1_000; ; ) {
    const before = state.goodAt;
    let why = "the server ended the stream";
    try {
      await oneStream();
    } catch (error) {
      if (error instanceof Refused) {
        leave("A token is needed.");
        await askToken(token() === null ? "The server asks for a token." : "The server refused that token.");
        continue;
      }
      why = error.why ?? (state.connected ? "the stream broke off" : "the server cannot be reached");
    }
    if (state.goodAt !== before) pause = 1_000;
    leave(`Not connected: ${why}. Trying again.`);
    const wait = Math.max(1_000, Math.min(15_000, pause * (0.75 + Math.random() / 2)));
    state.retryAt = performance.now() + wait;
    showSince();
    await new Promise((resolve) => {
      wakeUp = resolve;
      setTimeout(resolve, wait);
    });
    state.retryAt = null;
    pause = Math.min(15_000, pause * 2);
  }
}

function leave(text) {
  state.connected = false;
  say("connection", text);
  showState();
}

const failure = (why) => Object.assign(new Error(why), { why });

async function oneStream() {
  const stop = new AbortController();
  let silence = 0;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(failure("the server went silent")), SILENCE_MS);
  };
  heard();
  try {
    const answer = await fetch("events", { headers: authorization(), cache: "no-store", signal: stop.signal });
    if (answer.status === 401) throw new Refused();
    if (!answer.ok) throw failure(`the server answers ${answer.status}`);
    if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) throw failure("the answer is no event stream");
    await readEvents(answer.body, heard, takeEvent);
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
}

function takeEvent(type, data) {
  if (type !== "look") return;
  if (!state.connected) {
    state.connected = true;
    say("connection", "Connected.");
  }
  try {
    takeLook(JSON.parse(data));
  } catch (error) {
    console.error(error);
    throw failure("a look cannot be read");
  }
}

// Splits the stream into events, as the HTML standard says: https://html.spec.whatwg.org/#parsing-an-event-stream
async function readEvents(body, heard, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let type = "";
  let data = [];
  const line = (said) => {
    if (said === "") {
      if (data.length > 0) take(type || "message", data.join("\n"));
      type = "";
      data = [];
      return;
    }
    const colon = said.indexOf(":");
    const field = colon < 0 ? said : said.slice(0, colon);
    const value = colon < 0 ? "" : said.slice(colon + 1).replace(/^ /, "");
    if (field === "event") type = value;
    else if (field === "data") data.push(value);
  };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value;
    if (!/[\r\n]/.test(value)) continue;
    // A carriage return at the end may be half of a line end: it waits for what follows.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    lines.forEach(line);
  }
}

addEventListener("online", () => wakeUp());
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") wakeUp();
});

// Freeing

const ask = $("ask");
let target = null;

function askFree(row, hold) {
  const { kind, name } = row.data;
  target = { row, kind, name, ticket: hold.ticket, label: labelOf(hold) };
  setText($("ask-head"), `Free this ${KINDS[kind].one}?`);
  const since = hold.granted_at_ms === null ? null : span(serverNow() - hold.granted_at_ms);
  setFacts($("ask-facts"), {
    Name: shown(name), "Held by": target.label, "Held for": since, "Fencing token": hold.token, Ticket: hold.ticket,
  });
  $("ask-yes").disabled = false;
  say("result", "");
  ask.showModal();
}

async function free({ kind, name, ticket, label }) {
  const lock = `${KINDS[kind].one} ${shown(name)}`;
  const headers = { "Content-Type": "application/json", ...authorization() };
  const answer = await fetch("api/v1/unlock", { method: "POST", headers, body: JSON.stringify({ kind, name, ticket }) });
  if (answer.status === 401) {
    ask.close();
    askToken("Freeing needs a token. Give it, then free again.");
    return `Not freed: a token is needed for the ${lock}.`;
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) return `Not freed: ${shown(String(said.error ?? `the server answers ${answer.status}`))}`;
  return said.freed ? `Freed the ${lock}, held by ${label}.` : `Nothing to free: ${label} does not hold the ${lock} any more.`;
}

$("ask-no").addEventListener("click", () => ask.close());
$("ask-yes").addEventListener("click", async () => {
  const { row } = target;
  $("ask-yes").disabled = true;
  let said;
  try {
    said = await free(target);
  } catch {
    said = "Not known whether it was freed: the server cannot be reached.";
  }
  ask.close();
  say("result", said);
  if (form.hidden && !list.contains(document.activeElement)) (row.el.isConnected ? row.parts.name : list).focus();
});

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

function sift() {
  touchedAt = -Infinity;
  soon(place);
}

$("controls").addEventListener("submit", (event) => event.preventDefault());
$("controls").addEventListener("input", () => {
  view.query = $("query").value.trim().toLowerCase();
  view.sort = $("sort").value;
  view.kind = document.querySelector("#kinds input:checked").value;
  sift();
});
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

setTheme(kept("localStorage", "stanchion-theme"));
addKinds();
drawPlots();
setInterval(everySecond, 1_000);
listen();
