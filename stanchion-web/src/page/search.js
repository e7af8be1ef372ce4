// The search of the whole store, where that has more names than are shown.

import { model, sought, view } from "./model.js";
import { reconnect } from "./server.js";
import { $, KINDS, setText, shown } from "./text.js";

// Says that there are more names, and what can be searched for.
export function showMore() {
  const isSearch = sought.query !== "";
  const { query, text } = wish();
  const parts = [];
  if (isSearch) parts.push(`Searched in the whole store: ${sought.text}.`);
  if (model.more) parts.push("There are more than the 2,000 that are shown.");
  if (model.more && query === "") parts.push("Type the beginning of a name, or choose a kind, to search the whole store.");
  $("more").hidden = parts.length === 0;
  $("all").hidden = !isSearch;
  $("whole").hidden = query === "" || query === sought.query;
  setText($("more-text"), parts.join(" "));
  setText($("whole"), `Search the whole store for ${text}`);
}

// What the kind and the text on the page would search for.
function wish() {
  const begin = $("query").value;
  const query = new URLSearchParams();
  if (view.kind) query.set("kind", view.kind);
  if (begin) query.set("prefix", begin);
  const what = view.kind ? KINDS[view.kind].many.replace(/^(?!Bloom)./, (c) => c.toLowerCase()) : "names";
  return { query: query.toString(), text: begin ? `${what} that begin with “${shown(begin)}”` : what };
}

function seek(what) {
  Object.assign(sought, what);
  showMore();
  $("query").focus();
  reconnect(sought.query === "" ? "Looking at all names." : "Searching the whole store.");
}

$("whole").addEventListener("click", () => seek(wish()));
$("all").addEventListener("click", () => seek({ query: "", text: "" }));
