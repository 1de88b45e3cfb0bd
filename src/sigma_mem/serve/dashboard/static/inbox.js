// Decisions that nobody labelled: what to label next, answer by answer, by mouse, keyboard or all at once.

import { asked, choices, el, empty, filters, heading, known, number, percent, plural, shortened, when } from "./lib.js";

export const title = "Inbox";
const SHOWN = 10;

export async function load(api, argument) {
  const given = new URLSearchParams(argument);
  const [found, now] = await Promise.all([api.get("unlabelled", { last: SHOWN, ...asked(given) }), api.post("trust", {})]);
  return { ...found, topics: Object.keys(now.topics), events: now.events, argument };
}

// What a peer answered. If texts are not kept, a decision only knows which answers were equal, by number.
export function answersOf(d, peer) {
  if (known(d.answers[peer])) return d.answers[peer];
  if (peer === d.peer && known(d.answer)) return d.answer;
  if (known(d.canons[peer])) return `answer ${Number(d.canons[peer]) + 1}, text not kept`;
  return peer in d.canons ? "none that can be read" : "–";
}

// Peers whose answers are equal are right or wrong together: one choice for all of them.
function groupsOf(d) {
  const served = d.served ?? d.peer;
  const answered = Object.keys(d.canons).filter((peer) => known(d.canons[peer]) || d.answers[peer]);
  const peers = answered.length ? answered : [served];
  return [...Map.groupBy(peers, (peer) => d.canons[peer] ?? `\0${peer}`).values()].sort((a, b) => b.includes(served) - a.includes(served));
}

export function render({ decisions, weight, moves, topics, events, argument }, api, again, say) {
  const forms = decisions.map((d, i) => labelForm(d, i, moves[d.event], api, again, say));
  return [
    heading("Inbox", `Decisions that nobody labelled${new URLSearchParams(argument).get("newest") ? "" : ", those first whose label teaches most"}. `
      + (api.mayWrite ? `A label by your key weighs ${number(weight, 2)} (1 is a trusted source).` : "Your key may only read: labels need the role write.")),
    filters(api, "inbox", new URLSearchParams(argument), [["newest", "Order", [["", "most valuable first"], ["true", "newest first"]]],
      ["topic", "Topic", choices("any", topics)], ["below", "Confidence below, %", "number"]]),
    !decisions.length ? empty(argument ? "No decision without a label matches." : events ? "Every recent decision has a label." : "No decision yet. Those of your program or of the gateway wait here for a label.")
      : api.mayWrite ? [bulk(forms, api, again, say), forms] : forms,
  ];
}

function bulk(forms, api, again, say) {
  const mark = (value) => () => { for (const form of forms) setChoice(form, 0, value, false); };
  const record = el("button", { type: "button", id: "record-all", class: "main", click: async () => {
    const items = forms.filter((form) => form.isConnected && Object.keys(form.labels()).length).map((form) => ({ decision: form.dataset.decision, labels: form.labels() }));
    if (!items.length) { say("Mark at least one answer first."); return; }
    try {
      const { results } = await api.post("feedback/batch", { items });
      const refused = results.filter((each) => each.error);
      say(`Recorded ${plural(results.length - refused.length, "decision")}${refused.length ? `; refused ${refused.length}: ${refused[0].error.message}` : ""}.`);
      for (const form of forms) form.reset();
      again();
    } catch (error) { say(error.message); }
  } }, "Record all that are marked");
  return el("div", { class: "bulk" },
    el("div", { class: "row" }, el("button", { type: "button", click: mark("right") }, "Mark all served answers right"),
      el("button", { type: "button", click: mark("wrong") }, "Mark all served answers wrong"), record),
    el("p", { class: "note" }, "Keys: ", el("kbd", {}, "j"), " and ", el("kbd", {}, "k"), " go to the next and previous decision; ", el("kbd", {}, "1"), " to ", el("kbd", {}, "9"),
      " mark that answer right and the others wrong; ", el("kbd", {}, "0"), " marks all wrong; ", el("kbd", {}, "Enter"), " records."));
}

function setChoice(form, place, value, others) {
  form.querySelectorAll("fieldset").forEach((set, i) => {
    const wanted = i === place ? value : others || null;
    if (wanted) set.querySelector(`input[value=${wanted}]`).checked = true;
  });
}

export function labelForm(d, i, moves, api, again, say) {
  const groups = groupsOf(d);
  const served = d.served ?? d.peer;
  const form = el("form", { class: "card", "data-event": d.event, "data-decision": d.id, "aria-labelledby": known(i) ? `event-${i}` : "label-it", tabindex: api.mayWrite ? "-1" : null,
    keydown: (event) => keyPressed(event, form, groups.length),
    submit: async (event) => {
      event.preventDefault();
      const labels = form.labels();
      if (!Object.keys(labels).length) { say("Choose right or wrong for at least one answer."); return; }
      try {
        await api.post("feedback", { decision: d.id, labels });
        say(`Recorded for ${Object.keys(labels).join(", ")}.`);
        const next = form.nextElementSibling;
        form.remove();
        if (next?.matches("form")) next.focus(); // no update by force: it would take away marks that were set meanwhile
        else again();
      } catch (error) { say(error.message); }
    } },
  known(i) ? [el("h2", { id: `event-${i}` }, `${i + 1}. ${d.topics.join(", ") || "Task"}, ${when(d.time)}`),
    el("p", { class: "question" }, shortened(d.question ?? d.ref ?? d.id, 2000)),
    el("p", { class: "note" }, `Served: ${served ?? "nobody"} · confidence ${percent(d.confidence)} · `, el("a", { href: api.link("decision", d.id) }, "why"))] : null,
  el("div", { class: "answers" }, groups.map((peers, place) => el("fieldset", {},
    el("legend", {}, `${place + 1}. ${peers.join(", ")}${peers.includes(served) ? " (served)" : ""}`),
    [...new Set(peers.map((peer) => answersOf(d, peer)))].map((text) => el("div", { class: "answer", tabindex: text.length > 600 ? "0" : null }, text === "–" ? "answer not kept: only memories that keep texts have it" : shortened(text, 4000))),
    moved(peers, moves),
    api.mayWrite ? ["right", "wrong", ""].map((value) => el("label", { class: "check" },
      el("input", { type: "radio", name: `answer-${place}`, value, checked: value === "" }), value || "no label")) : null))),
  api.mayWrite ? el("button", { type: "submit", class: "main" }, "Record") : null);
  form.labels = () => Object.fromEntries(groups.flatMap((peers, place) => {
    const value = new FormData(form).get(`answer-${place}`);
    return value ? peers.map((peer) => [peer, value === "right"]) : [];
  }));
  return form;
}

function moved(peers, moves = {}) {
  const known_ = peers.filter((peer) => known(moves[peer]));
  if (!known_.length) return null;
  return el("p", { class: "note" }, "A label moves ", known_.map((peer) => `${peer} by ${moves[peer] < 0.001 ? "less than 0.1" : `about ${number(100 * moves[peer])}`}`).join(", "), " points");
}

function keyPressed(event, form, answers) {
  if (event.ctrlKey || event.altKey || event.metaKey || !form.querySelector("fieldset input")) return;
  const other = { j: form.nextElementSibling, k: form.previousElementSibling }[event.key];
  if (other?.matches("form.card")) other.focus();
  else if (/^[0-9]$/.test(event.key) && Number(event.key) <= answers) setChoice(form, Number(event.key) - 1, "right", "wrong");
  else if (event.key === "Enter" && event.target === form) form.requestSubmit();
  else return;
  event.preventDefault();
}

// `j` begins with the first decision, wherever the focus is.
document.addEventListener("keydown", (event) => {
  const first = event.key === "j" && !event.ctrlKey && !event.metaKey && !event.target.closest("form, input, select, textarea, dialog") && document.querySelector("main form.card");
  if (first) first.focus();
});
