// What is known: the server's clock, the rows and points as the last look left them, what is searched for, the connection.

import { least, shown } from "./text.js";

export const WINDOW_MS = 600_000;

// The server's clock

export const clock = { offset: 0, readings: [], ofBars: 0 };
export const serverNow = () => performance.now() + clock.offset;

// The model

export const rows = new Map();
// Rows whose name is gone, until the list is put in order: a lock taken again at once keeps its row, open and focused.
export const leaving = new Map();
// Rows to be patched, and rows that are in view.
export const dirty = new Set();
export const seen = new Set();
export const model = { byName: [], points: [], mayFree: false, more: false, title: "Locks" };
// What the stream is asked for: all names, or a search of the whole store where that has more than are shown.
export const sought = { query: "", text: "" };
export const view = { query: "", kind: "", sort: "urgency", used: false, grouped: false };
export const state = { connected: false, everLooked: false, fault: null, goodAt: null, tookMs: null, retryAt: null };

const collator = new Intl.Collator("en", { numeric: true });
export const order = (a, b) =>
  collator.compare(a.data.name, b.data.name) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
export const keyOf = (kind, name) => `${kind}/${name}`;

// A lease is low in this last share of its length. It ends soon if it is low and has less than a
// minute.
export const LOW = 0.3;
const SOON_MS = 60_000;

function endsSoon({ lease_ends_at_ms: ends, lease_ms: length }, now) {
  return ends !== null && ends - now < Math.min(SOON_MS, LOW * (length ?? Infinity));
}

// Smallest first: leases that are over, names that are waited for (the most waiters first), leases
// that end soon, names that are held, idle names.
function urgency({ holds, holders, waiters }) {
  const now = urgencyNow();
  if (least(holds, "lease_ends_at_ms") < now) return 0;
  if (waiters > 0) return 1 + 1 / (1 + waiters);
  if (holds.some((hold) => endsSoon(hold, now))) return 2;
  return holders > 0 ? 3 : 4;
}

export const SORTS = {
  urgency,
  waiters: (data) => -(data.waiters ?? 0),
  age: (data) => least(data.holds, "granted_at_ms"),
  lease: (data) => least(data.holds, "lease_ends_at_ms"),
};

export function takeRow(data) {
  const key = keyOf(data.kind, data.name);
  let row = rows.get(key);
  const added = !row;
  if (added) {
    row = leaving.get(key) ?? { key, peak: 0, el: null, parts: null, details: null, heading: null, open: false, at: -1, place: 0 };
    row.prefix = /^[^/:]*[/:]/.exec(data.name)?.[0] ?? "";
    leaving.delete(key);
    rows.set(key, row);
    model.byName.push(row);
  }
  row.data = data;
  row.text = [data.name, shown(data.name), ...data.holds.map((hold) => hold.label ?? "")].join("\n").toLowerCase();
  // The server does not know how many members a wait group has had: the most seen here since it was empty.
  const members = data.weight ?? data.holders ?? 0;
  row.peak = members === 0 ? 0 : Math.max(row.peak, members, data.limit ?? 0);
  dirty.add(row);
  return added;
}

export function forget(key) {
  const row = rows.get(key);
  if (!row) return false;
  dirty.delete(row);
  leaving.set(key, row);
  return rows.delete(key);
}

export function takePoints(look) {
  const last = look.full || model.points.length === 0 ? -Infinity : model.points.at(-1).at_ms;
  const fresh = look.points.filter((point) => point.at_ms > last);
  model.points = (look.full ? [] : model.points).concat(fresh).filter((point) => point.at_ms > look.now_ms - WINDOW_MS);
}

// What is on the page is not of now: the server or the store is away.
export const isOld = () => state.everLooked && (!state.connected || state.fault !== null);
// Leases do not end in the order of the rows while nobody can know whether they were renewed.
const urgencyNow = () => (isOld() ? (state.goodAt ?? 0) + clock.offset : serverNow());

const isUsed = ({ holders, waiters }) => holders > 0 || waiters > 0;
export const matches = (row) =>
  (view.kind === "" || row.data.kind === view.kind) &&
  (!view.used || isUsed(row.data)) &&
  (view.query === "" || row.text.includes(view.query));
