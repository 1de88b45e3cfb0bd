import { tinted } from "./charts.js";
import { el, empty, heading, number, percent, range, table } from "./dom.js";

export const title = "Topics";
const LEAST = 5; // labels, below which a cell stays grey

export const load = (api) => api.post("trust", {});

export function render({ peers: overall, topics }) {
  const names = Object.keys(topics).sort();
  const rows = Object.keys(overall).map((peer) => [peer, cell(overall[peer]), ...names.map((name) => cell(topics[name][peer]))]);
  return [
    heading("Topics", "How often each peer is right, by topic. Grey: too few labels to say."),
    names.length ? null : empty("No decision named a topic yet: pass topic= to route, vote or decide."),
    table("Peer by topic", [["Peer"], ["All", "num"], ...names.map((name) => [name, "num"])], rows, { id: "heatmap", class: "heat" }),
    el("p", { class: "legend", "aria-hidden": "true" }, "0 %", el("span", { class: "ramp" }), "100 %"),
  ];
}

function cell({ prob, interval, effective }) {
  const enough = effective >= LEAST;
  const about = enough ? `${range(interval)}, ${number(effective)} labels` : `too few labels: ${number(effective)}`;
  return tinted(el("td", { class: "num", title: about }, enough ? percent(prob) : "–",
    el("span", { class: "hidden" }, ` ${about}`)), enough ? prob : null);
}
