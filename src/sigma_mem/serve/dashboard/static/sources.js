import { el, empty, heading, number, percent, table } from "./dom.js";

export const title = "Sources";

export const load = async (api) => (await api.get("sources")).sources;

export function render(sources, api, again, say) {
  const rows = sources.map((s, i) => [s.name, String(s.lines), s.revoked ? "revoked" : s.trusted ? "trusted" : "counted",
    percent(s.agreement), number(s.compared), number(s.weight, 2), change(s, i, api, again, say)]);
  return [
    heading("Sources", "Who gave feedback, how far they agree with others, and what their word weighs."),
    sources.length ? table("Sources of feedback", [["Source"], ["Feedback", "num"], ["Status"], ["Agreement", "num"],
      ["Labels compared", "num"], ["Weight", "num"], ["Change"]], rows, { id: "sources-table" }) : empty("No feedback yet."),
  ];
}

function change(source, i, api, again, say) {
  const verb = source.revoked ? "let count again" : "revoke";
  const question = source.revoked ? `Let the feedback of ${source.name} count again?`
    : `Take back all feedback of ${source.name}? The memory is then as if it had never been given.`;
  return el("button", { type: "button", id: `source-${i}`, class: source.revoked ? null : "danger", "aria-label": `${verb} ${source.name}`,
    click: async () => {
      if (!window.confirm(question)) return;
      try {
        const done = await api.post("revoke", { source: source.name, undo: source.revoked });
        say(`${source.name}: ${done.lines} lines of feedback ${source.revoked ? "count again" : "taken back"}.`);
        again();
      } catch (error) { say(error.message); }
    } }, source.revoked ? "Let count again" : "Revoke");
}
