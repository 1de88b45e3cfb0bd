import { answerOf, bar, clamped, el, heading, known, money, number, percent, signed, table, verdict, when } from "./dom.js";

export const title = "Decision";
const EVENTS = 12;
let explained = { decision: null, peer: "" };

export async function load(api, id) {
  if (explained.decision !== id) explained = { decision: id, peer: "" };
  const [decision, explanation] = await Promise.all([
    api.get("decision", { id }),
    api.get("explain", { decision: id, peer: explained.peer, top: EVENTS })
      .catch((error) => ({ refused: error.message })), // who abstained for want of answers chose nobody
  ]);
  return { decision, explanation };
}

export function render({ decision: d, explanation }, api, again) {
  const fact = (name, value) => (known(value) && value !== "" ? [el("dt", {}, name), el("dd", {}, value)] : []);
  return [
    heading("Decision"),
    el("p", { class: "question", id: "question" }, d.question ?? d.ref ?? d.id),
    el("dl", { class: "facts", id: "facts" },
      fact("Chosen", d.peer ?? "nobody: it abstained"), fact("Answer", d.answer), fact("Confidence", percent(d.confidence)),
      fact("Read", d.read), fact("Drawn with probability", percent(d.propensity)), fact("Answered by", d.served),
      fact("Topics", (d.topics ?? []).join(", ")), fact("Cost", known(d.cost) ? money(d.cost) : null),
      fact("Time", when(d.time)), fact("Ref", d.ref), fact("Id", d.id)),
    el("h2", {}, "Scores and weights"),
    weights(d, d.labels),
    el("p", { class: "note" }, "Weight: the log-odds of p, and what the text of the answer adds. A calibrated vote adds the same amount to "
      + "every peer, for how many wrong answers compete, so of two sums the one with more peers gains."),
    outcome(d),
    el("h2", {}, "Which past events weighed how much"),
    choice(d, explanation, again),
    explanation.refused ? el("p", { class: "empty" }, explanation.refused) : terms(explanation, api),
  ];
}

const logOdds = (p) => Math.log(p / (1 - p));
const textOdds = (d, peer) => d.details.text_log_odds?.[peer] ?? 0;
const weight = (d, peer) => logOdds(d.probs[peer]) + textOdds(d, peer);

function weights(d, labels) {
  const peers = Object.keys(d.scores).sort((a, b) => d.probs[b] - d.probs[a]);
  const rows = peers.map((peer) => [
    peer === d.peer ? el("strong", {}, `${peer} (chosen)`) : peer, clamped(known(d.canons[peer]) ? answerOf(d, d.canons[peer]) : "–"), signed(d.scores[peer]),
    bar(d.probs[peer], percent(d.probs[peer])), number(d.effective[peer]), signed(textOdds(d, peer), 2),
    signed(weight(d, peer), 2), verdict(labels[peer]),
  ]);
  return table("Scores and weights by peer", [["Peer"], ["Answer"], ["Score", "num"], ["Right here with p", "num"],
    ["Labels near", "num"], ["Text, log-odds", "num"], ["Weight, log-odds", "num"], ["Label now"]], rows, { id: "weights-table" });
}

function outcome(d) {
  const groups = new Map();
  for (const [peer, canon] of Object.entries(d.canons)) {
    if (known(canon)) groups.set(canon, [...(groups.get(canon) ?? []), peer]);
  }
  if (!groups.size) return null;
  const rows = [...groups].map(([canon, peers]) => [clamped(answerOf(d, canon)), peers.join(", "),
    signed(peers.reduce((sum, peer) => sum + weight(d, peer), 0), 2), peers.includes(d.peer) ? "won" : ""]);
  return [el("h2", {}, "Outcome"),
    table("Answers and who gave them", [["Answer"], ["Peers"], ["Sum of weights", "num"], ["Outcome"]], rows, { id: "outcome-table" })];
}

function choice(d, explanation, again) {
  return el("p", { class: "row" }, el("label", { for: "explained" }, "Explain the score of"),
    el("select", { id: "explained", change: (event) => { explained.peer = event.target.value; again(); } },
      Object.keys(d.scores).map((peer) => el("option", { value: peer, selected: peer === explanation.peer }, peer))));
}

function terms(e, api) {
  const most = Math.max(...e.contributions.map((term) => Math.abs(term.share)), 1e-12);
  const rows = e.contributions.map((term) => [
    el("a", { href: api.link("decision", term.event) }, term.question ?? term.event), verdict(term.label),
    number(term.similarity, 2), number(term.recency, 2), number(term.weight, 2), bar(Math.abs(term.share) / most, signed(term.share)),
  ]);
  if (e.others) rows.push([`${e.others} other events`, "", "", "", "", signed(e.rest)]);
  const from = e.basis;
  return [
    el("p", {}, `${e.peer} was right about ${number(from.right, 0)} and wrong about ${number(from.wrong, 0)} times on tasks like this `
      + `one; ${percent(from.prior)} of p is its overall rate (${number(from.labels, 0)} labels).`),
    table(`Terms of the score ${signed(e.score)} of ${e.peer}`, [["Past event"], ["It was"], ["Similarity", "num"],
      ["Recency", "num"], ["Weight of who said so", "num"], ["Share", "num"]], rows, { id: "terms-table", class: "texts" }),
  ];
}
