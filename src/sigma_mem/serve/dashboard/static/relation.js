import { relationGraph, tinted } from "./charts.js";
import { el, heading, number, signed, table } from "./dom.js";

export const title = "Relation";

export const load = (api) => api.get("relation");

export function render({ peers, matrix, votes }, api) {
  const most = Math.max(0, ...matrix.flatMap((row, i) => row.filter((_, j) => i !== j).map(Math.abs)));
  const rows = peers.map((peer, i) => [peer, ...peers.map((_, j) => {
    if (i === j) return el("td", { class: "num nothing" }, "1");
    return tinted(el("td", { class: "num" }, signed(matrix[i][j], 3)), most ? 0.5 + (0.5 * matrix[i][j]) / most : 0.5);
  })]);
  return [
    heading("Relation", "G: who is right and wrong together (+) or apart (−), relative to the rest of the pool."),
    el("div", { class: "two" }, relationGraph(peers, matrix, most),
      table("G by pair of peers", [["Peer"], ...peers.map((peer) => [peer, "num"])], rows, { id: "relation-table", class: "heat" })),
    el("h2", {}, "Effective votes"),
    agreement(peers, votes, api),
  ];
}

function agreement(peers, votes, api) {
  const result = el("output", { id: "votes" });
  const say = (count, worth) => { result.textContent = `${count} peers that agree are worth ${number(worth, 2)} independent votes.`; };
  const form = el("form", { id: "agreement" },
    el("fieldset", {}, el("legend", {}, "If these peers gave one answer"),
      peers.map((peer) => el("label", { class: "check" }, el("input", { type: "checkbox", name: "peer", value: peer, checked: true }), peer))),
    result);
  form.addEventListener("change", async () => {
    const chosen = new FormData(form).getAll("peer");
    if (!chosen.length) { result.textContent = "Choose at least one peer."; return; }
    try {
      say(chosen.length, (await api.get("relation", { peer: chosen })).votes);
    } catch (error) { result.textContent = error.message; }
  });
  say(peers.length, votes);
  return form;
}

export const busy = (main) => [...main.querySelectorAll("#agreement input")].some((box) => !box.checked);
