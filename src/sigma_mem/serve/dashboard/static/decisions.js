// Decisions: a list with filters, and why one was made.

import { asked, bar, choices, clamped, el, empty, filters, heading, known, money, number, percent, signed, table, verdict, when } from "./lib.js";
import { answersOf, labelForm } from "./inbox.js";

const PAGE = 25;
let pages = []; // the last decision of every page before this one

export const decisions = {
  title: "Decisions",
  async load(api, argument) {
    const given = new URLSearchParams(argument);
    const [found, now] = await Promise.all([api.get("decisions", { last: PAGE, before: pages.at(-1), ...asked(given) }), api.post("trust", {})]);
    return { decisions: found.decisions, peers: Object.keys(now.peers), topics: Object.keys(now.topics), argument, page: pages.length };
  },
  begin() { pages = []; },
  render({ decisions: found, peers, topics, argument, page }, api, again) {
    const given = new URLSearchParams(argument);
    const rows = found.map((d) => [
      el("a", { href: api.link("decision", d.id) }, d.question ?? d.ref ?? d.id),
      d.served ?? d.peer ?? "abstained", clamped(d.answers[d.served ?? d.peer] ?? d.answer ?? "–"), percent(d.confidence),
      verdict(d.labels[d.served ?? d.peer]), d.topics.join(", ") || "–", d.read, when(d.time),
    ]);
    return [
      heading("Decisions", "Newest first. Open one to see why it was made."),
      filters(api, "decisions", given, [["text", "Text", "search"], ["peer", "Chosen peer", choices("any", peers)], ["topic", "Topic", choices("any", topics)],
        ["label", "Label", [["", "any"], ["right", "right"], ["wrong", "wrong"], ["none", "no label"]]], ["below", "Confidence below, %", "number"],
        ["since", "From", "datetime-local"], ["until", "Before", "datetime-local"]]),
      found.length ? table("Decisions", [["Question"], ["Served by"], ["Answer"], ["Confidence", "num"], ["Label", "nowrap"], ["Topic"], ["Read"], ["Time", "nowrap"]], rows,
        { id: "decisions-table", class: "texts" }) : empty(argument ? "No decision matches. Show all, or remove a filter." : "No decision yet. It appears here as soon as your program or a client of the gateway asks."),
      el("div", { class: "row" },
        el("button", { type: "button", id: "newer", disabled: page === 0, click: () => { pages.pop(); again(); } }, "Newer"),
        el("button", { type: "button", id: "older", disabled: found.length < PAGE,
          click: () => { pages.push(found.at(-1).id); again(); } }, "Older")),
    ];
  },
};

const EVENTS = 12;
let explained = { decision: null, peer: "" };
const VOTES = {
  leader: "the peer with the best record decides alone",
  calibrated: "every peer counts by how likely it is right here",
  expert: "who supports an answer counts more than how many",
  joint: "weights fitted to who errs with whom",
};

export const decision = {
  title: "Decision",
  async load(api, id) {
    if (explained.decision !== id) explained = { decision: id, peer: "" };
    const [found, explanation] = await Promise.all([
      api.get("decision", { id }),
      api.get("explain", { decision: id, peer: explained.peer, top: EVENTS })
        .catch((error) => ({ refused: error.message })), // who abstained for want of answers chose nobody
    ]);
    return { decision: found, explanation };
  },
  render({ decision: d, explanation }, api, again, say) {
    const fact = (name, value) => (known(value) && value !== "" ? [el("dt", {}, name), el("dd", {}, value)] : []);
    const served = d.served ?? d.peer;
    return [
      heading("Decision"),
      el("p", { class: "question", id: "question" }, d.question ?? d.ref ?? d.id),
      el("dl", { class: "facts", id: "facts" },
        fact("Chosen", d.peer ?? "nobody: it abstained"), fact("Answered by", d.served), fact("Answer", d.answers[served] ?? d.answer),
        fact("Label", served ? verdict(d.labels[served]) : null), fact("Confidence", percent(d.confidence)),
        fact("Read", d.read), fact("Drawn with probability", d.propensity < 1 ? percent(d.propensity) : null),
        fact("Topics", d.topics.join(", ")), fact("Cost", known(d.cost) ? money(d.cost) : null),
        fact("Time", when(d.time)), fact("Ref", d.ref), fact("Id", d.id)),
      el("h2", {}, "Peers"),
      weights(d),
      el("p", { class: "note" }, "Weight: the log-odds of being right (0 is even, +2.2 is 90 %), and what the text of the answer adds. A calibrated vote adds the same "
        + "amount to every peer, for how many wrong answers compete, so of two sums the one with more peers gains."),
      outcome(d),
      votes(d),
      Object.keys(d.labels).length || !api.mayWrite || !served ? null : [el("h2", { id: "label-it" }, "Label it"), labelForm(d, null, {}, api, again, say)],
      el("h2", {}, "Which past events weighed how much"),
      choice(d, explanation, again),
      explanation.refused ? empty(explanation.refused) : terms(explanation, api),
    ];
  },
};

const textOdds = (d, peer) => d.details.text_log_odds?.[peer] ?? 0;
const weight = (d, peer) => Math.log(d.probs[peer] / (1 - d.probs[peer])) + textOdds(d, peer);

function weights(d) {
  const peers = Object.keys(d.scores).sort((a, b) => d.probs[b] - d.probs[a]);
  const rows = peers.map((peer) => [
    peer === d.peer ? el("strong", {}, `${peer} (chosen)`) : peer, clamped(answersOf(d, peer)), bar(d.probs[peer], percent(d.probs[peer])),
    number(d.effective[peer]), signed(d.scores[peer]), signed(textOdds(d, peer), 2), signed(weight(d, peer), 2), verdict(d.labels[peer]),
  ]);
  return table("Every peer at this task", [["Peer"], ["Answer"], ["Right here with probability", "num"], ["Labels near", "num"], ["Score", "num"],
    ["Text, log-odds", "num"], ["Weight, log-odds", "num"], ["Label now", "nowrap"]], rows, { id: "weights-table" });
}

function outcome(d) {
  const groups = Map.groupBy(Object.keys(d.canons).filter((peer) => known(d.canons[peer])), (peer) => d.canons[peer]);
  if (!groups.size) return null;
  const rows = [...groups.values()].map((peers) => [clamped(answersOf(d, peers[0])), peers.join(", "),
    signed(peers.reduce((sum, peer) => sum + weight(d, peer), 0), 2), peers.includes(d.peer) ? "won" : ""]);
  return [el("h2", {}, "Outcome"),
    table("Answers and who gave them", [["Answer"], ["Peers"], ["Sum of weights", "num"], ["Outcome"]], rows, { id: "outcome-table" })];
}

// A mixture decided: what each of its votes alone would have chosen.
function votes(d) {
  if (!d.details.votes) return null;
  const same = (peer) => peer === d.peer || (known(d.canons[peer]) && d.canons[peer] === d.canons[d.peer]);
  const rows = Object.entries(d.details.votes).map(([vote, peer]) => [vote, VOTES[vote] ?? "", clamped(answersOf(d, peer)), same(peer) ? "for the chosen answer" : "for another"]);
  return [el("h2", {}, "The votes that were mixed"),
    table("What each vote alone would have chosen", [["Vote"], ["How it counts", "words"], ["Its answer"], ["It was"]], rows, { id: "votes-table" })];
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
      + `one; ${percent(from.prior)} of its probability is its overall rate (${number(from.labels, 0)} labels).`),
    table(`Terms of the score ${signed(e.score)} of ${e.peer}`, [["Past event"], ["It was", "nowrap"], ["Similarity", "num"],
      ["Recency", "num"], ["Weight of who said so", "num"], ["Share", "num"]], rows, { id: "terms-table", class: "texts" }),
  ];
}
