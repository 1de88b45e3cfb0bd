import { rateChart } from "./charts.js";
import { bar, el, empty, heading, known, number, percent, range, table, when } from "./dom.js";

export const title = "Trust";

export async function load(api) {
  const [now, trend, drift] = await Promise.all([api.post("trust", {}), api.get("trend"), api.get("drift")]);
  return { now, trend, drift: drift.drift };
}

export function render({ now, trend, drift }) {
  const peers = Object.keys(now.peers).sort((a, b) => now.peers[b].prob - now.peers[a].prob);
  const changed = Object.fromEntries(drift.map((d) => [d.peer, d]));
  const rows = peers.map((peer) => {
    const { prob, interval, labels, last: newest } = now.peers[peer];
    const last = trend.trends[peer]?.at(-1);
    return [peer, bar(prob, percent(prob)), range(interval), number(labels, 0), known(newest) ? when(newest) : "never", percent(last?.right), changedText(changed[peer])];
  });
  return [
    heading("Trust", `How often each peer is right on what it was asked, after ${now.events} events.`),
    now.events === 0 ? empty("No event yet. Decide through the API or the gateway, and this page fills by itself.") : null,
    table("Trust by peer, best first", [["Peer"], ["Right with p", "num"], ["95 % interval", "num"], ["Labels", "num"],
      ["Last label", "nowrap"], [`Last ${trend.window} labels`, "num"], ["Changed", "nowrap"]], rows, { id: "trust-table" }),
    el("h2", {}, "Over time"),
    el("p", { class: "note" }, `Share right over the last ${trend.window} labels, with its 95 % interval. `
      + "A dashed line marks the event at which a peer's record changed."),
    el("div", { class: "panels" }, peers.map((peer) => panel(peer, trend, changed[peer]))),
    asTable(peers, trend),
  ];
}

function changedText(drift) {
  return drift ? `${percent(drift.was)} → ${percent(drift.now)}, ${percent(drift.confidence)} sure` : "no";
}

function panel(peer, trend, drift) {
  const points = trend.trends[peer] ?? [];
  const last = points.at(-1);
  if (!last) return el("figure", {}, el("figcaption", {}, peer), empty("No label yet."));
  const mark = drift ? points.find((p) => p.time >= drift.time) : undefined;
  const label = `${peer}: ${percent(last.right)} right over the last labels, interval ${range(last.interval)}; `
    + `changed: ${changedText(drift)}`;
  return el("figure", {},
    el("figcaption", {}, el("strong", {}, peer), " ", el("span", {}, percent(last.right)),
      drift ? el("span", { class: "badge" }, `changed: ${percent(drift.was)} → ${percent(drift.now)}`) : null),
    rateChart({ label, points, places: trend.events, marks: mark ? [mark.place] : [] }));
}

function asTable(peers, trend) {
  const columns = 8;
  const ends = Array.from({ length: columns }, (_, i) => Math.round(((i + 1) * (trend.events - 1)) / columns));
  const rows = peers.map((peer) => [peer, ...ends.map((end) => {
    const point = (trend.trends[peer] ?? []).findLast((p) => p.place <= end);
    return point ? `${percent(point.right)} (${range(point.interval)})` : "–";
  })]);
  return el("details", { id: "trend-details" }, el("summary", {}, "The charts as a table"),
    table("Share right up to an event", [["Peer"], ...ends.map((end) => [`Event ${end + 1}`, "num"])], rows));
}
