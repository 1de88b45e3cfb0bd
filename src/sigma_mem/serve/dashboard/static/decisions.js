import { clamped, el, empty, heading, percent, table, when } from "./dom.js";

export const title = "Decisions";
const PAGE = 25;
let search = { text: "", peer: "" };
let pages = []; // the last decision of every page before this one

export async function load(api) {
  const [found, about] = await Promise.all([
    api.get("decisions", { last: PAGE, before: pages.at(-1), ...search }), api.get(""),
  ]);
  return { decisions: found.decisions, peers: about.peers, search: { ...search }, page: pages.length };
}

export function begin() {
  search = { text: "", peer: "" };
  pages = [];
}

export function render({ decisions, peers, page }, api, again) {
  const form = el("form", { class: "row", role: "search", submit: (event) => {
    event.preventDefault();
    search = Object.fromEntries(new FormData(form));
    pages = [];
    again();
  } },
  el("label", { for: "search-text" }, "Text"), el("input", { id: "search-text", name: "text", type: "search", value: search.text }),
  el("label", { for: "search-peer" }, "Chosen peer"),
  el("select", { id: "search-peer", name: "peer" }, el("option", { value: "" }, "any"),
    peers.map((peer) => el("option", { value: peer, selected: peer === search.peer }, peer))),
  el("button", { type: "submit" }, "Search"));
  const rows = decisions.map((d) => [
    el("a", { href: api.link("decision", d.id) }, d.question ?? d.ref ?? d.id),
    d.peer ?? "abstained", clamped(d.answer ?? "–"), percent(d.confidence), d.read, when(d.time),
  ]);
  return [
    heading("Decisions", "Newest first. Open one to see why it was made."),
    form,
    decisions.length ? table("Decisions", [["Question"], ["Chosen"], ["Answer"], ["Confidence", "num"], ["Read"], ["Time"]], rows,
      { id: "decisions-table", class: "texts" }) : empty("No decision found."),
    el("div", { class: "row" },
      el("button", { type: "button", id: "newer", disabled: page === 0, click: () => { pages.pop(); again(); } }, "Newer"),
      el("button", { type: "button", id: "older", disabled: decisions.length < PAGE,
        click: () => { pages.push(decisions.at(-1).id); again(); } }, "Older")),
  ];
}

export const busy = (main) => main.querySelector("form")?.contains(document.activeElement) ?? false;
