import { answerOf, el, empty, heading, known, percent, shortened, when } from "./dom.js";

export const title = "Inbox";

export const load = async (api) => (await api.get("unlabelled", { last: 10 })).decisions;

export function render(decisions, api, again, say) {
  return [
    heading("Inbox", "Events that nobody labelled. Say who was right; leave out whom you cannot judge."),
    decisions.length ? decisions.map((d, i) => card(d, i, api, again, say)) : empty("Every recent event has a label."),
  ];
}

function card(d, i, api, again, say) {
  const answered = Object.keys(d.canons).filter((peer) => d.canons[peer] !== null);
  const peers = answered.length ? answered : [d.served ?? d.peer].filter((peer) => peer !== null);
  const form = el("form", { class: "card", "data-event": d.event, "aria-labelledby": `event-${i}`, submit: async (event) => {
    event.preventDefault();
    const given = [...new FormData(form)].filter(([, value]) => value !== "");
    if (!given.length) { say("Choose right or wrong for at least one peer."); return; }
    try {
      await api.post("feedback", { decision: d.id, labels: Object.fromEntries(given.map(([peer, value]) => [peer, value === "right"])) });
      form.remove();
      say(`Recorded for ${given.map(([peer]) => peer).join(", ")}.`);
      again();
    } catch (error) { say(error.message); }
  } },
  el("h2", { id: `event-${i}` }, `${i + 1}. ${(d.topics ?? []).join(", ") || "Event"}, ${when(d.time)}`),
  el("p", { class: "question" }, shortened(d.question ?? d.ref ?? d.id, 2000)),
  el("p", { class: "note" }, `Chosen: ${d.peer ?? "nobody"} · confidence ${percent(d.confidence)} · `,
    el("a", { href: api.link("decision", d.id) }, "why")),
  el("div", { class: "answers" }, peers.map((peer) => el("fieldset", {},
    el("legend", {}, peer), el("p", { class: "answer" }, shortened(known(d.canons[peer]) ? answerOf(d, d.canons[peer]) : d.answer ?? "(answer not kept)", 400)),
    ["right", "wrong", ""].map((value) => el("label", { class: "check" },
      el("input", { type: "radio", name: peer, value, checked: value === "" }), value || "no label"))))),
  el("button", { type: "submit", class: "main" }, "Record"));
  return form;
}

// A live update must not take away what somebody has begun to fill in.
export const busy = (main) =>
  [...main.querySelectorAll("input:checked")].some((box) => box.value !== "") || main.querySelector("form:focus-within") !== null;
