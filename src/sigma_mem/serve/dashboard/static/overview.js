import { barChart, bar, count, el, empty, heading, known, money, percent, plural, seconds, table, under, when } from "./lib.js";

const HOURS = [["1", "last hour"], ["24", "last 24 hours"], ["168", "last 7 days"], ["720", "last 30 days"]];

export const title = "Overview";

export const load = (api, argument) => api.get("overview", { hours: new URLSearchParams(argument).get("hours") ?? 24 });

export function render({ now, since, memory, service }, api) {
  const hours = String(Math.round((now - since) / 3600));
  return [
    heading("Overview"),
    el("p", { class: "row" }, el("label", { for: "period" }, "Period"),
      el("select", { id: "period", change: (event) => { location.hash = api.link("overview", `hours=${event.target.value}`); } },
        HOURS.map(([value, text]) => el("option", { value, selected: value === hours }, text))),
      memory?.cut ? el("span", { class: "note" }, `From ${when(memory.begin)}: the newest 20,000 lines of the ledger.`) : null),
    warnings(memory, service, api),
    memory || service?.requests ? tiles(memory, service, api) : null,
    service?.process ? el("p", { class: "note", id: "process" }, `Requests, errors, latency, alarms and calls of upstreams are those of process ${service.process}, which answered this page, since it began. `
      + "Tasks, labels and spending are those of all processes that share this memory. For all of them together, let Prometheus read /metrics of each.") : null,
    memory && !memory.total.events ? beginning(memory, service, api) : null,
    el("div", { class: "panels" }, charts(memory, service, now)),
    byPeer(memory, service, api),
    memory ? changed(memory, service) : null,
    memory?.advice.length ? [el("h2", {}, "Worth doing"), el("ul", { id: "advice" }, memory.advice.map((text) => el("li", {}, text)))] : null,
  ];
}

// What is wrong now: alarms that ring, peers whose record changed, a store that is away.
function warnings(memory, service, api) {
  const cards = [];
  if (service?.away || !memory) {
    const waits = service?.waiting ? ` ${plural(service.waiting, "decision")} wait to be recorded.` : "";
    cards.push(["The store is away", `The gateway serves without it.${waits} Restore the database; nothing else is to be done here.`]);
  }
  for (const change of memory?.changes.filter((each) => each.kind === "drift") ?? []) {
    const worse = change.now < change.was;
    const after = change.after;
    const share = (tally, tasks) => `${count(tally.events)} of ${plural(tasks, "task")}`;
    cards.push([`${change.about} became ${worse ? "worse" : "better"}: ${percent(change.was)} → ${percent(change.now)}`,
      `Since ${when(change.time)}, over ${plural(change.labels, "label")}; ${percent(change.confidence)} sure. It served ${share(change.before, change.tasks_before)} before and `
      + `${share(after, change.tasks_after)} since then (${after.right} right, ${after.wrong} wrong). Calls to it cost ${money(after.cost)} since then.`,
      el("a", { href: api.link("decision", change.since) }, "The first decision after the change"), worse ? "warning" : "good"]);
  }
  for (const alarm of service?.alarms.filter((each) => each.ended === null && each.kind !== "drift" && each.kind !== "store") ?? []) {
    const name = { circuit: `Upstream ${alarm.about} fails`, source: `Source ${alarm.about} turned`, budget: "The budget of the day is spent" }[alarm.kind];
    cards.push([`${name}${alarm.namespace && alarm.namespace !== api.namespace ? ` (${alarm.namespace})` : ""}`, `Since ${when(alarm.time)}: ${alarm.text}.`]);
  }
  if (!cards.length) return null;
  return el("div", { id: "warnings", role: "group", "aria-label": "Warnings" }, cards.map(([name, text, link, kind]) =>
    el("div", { class: `card ${kind ?? "warning"}` }, el("h2", {}, name), el("p", {}, text, link ? [" ", link, "."] : null))));
}

function tiles(memory, service, api) {
  const tile = (id, name, value, note) => el("div", { class: "tile", id }, el("dt", {}, name), el("dd", {}, value, el("small", {}, note)));
  const total = memory?.total;
  const labelled = total ? total.right + total.wrong : 0;
  const share = (part, whole) => (whole ? percent(part / whole) : "–");
  return el("dl", { class: "tiles" },
    service ? [
      tile("requests", "Requests", count(service.requests), `since ${when(service.begin)}`),
      tile("errors", "Errors", count(service.errors), service.requests ? `${share(service.errors, service.requests)}; ${count(service.refused)} refused (status 4xx)` : "no request yet"),
      tile("latency", "Latency", seconds(service.median), known(service.p95) ? `median; 95 % within ${seconds(service.p95)}` : "no request yet"),
    ] : null,
    total ? [
      tile("decided", "Tasks decided", count(total.events), `${count(memory.events)} in all`),
      tile("labelled", "Labelled", share(labelled, total.events), total.events ? [`${count(labelled)} of ${count(total.events)} served answers; `, el("a", { href: api.link("inbox") }, "label next")] : "no answer yet"),
      tile("right", "Right", share(total.right, labelled), labelled ? `${count(total.right)} right, ${count(total.wrong)} wrong` : "no label yet"),
      tile("spent", "Spent", money(total.cost), `today ${money(memory.spent.today)}${memory.budget ? ` of ${money(memory.budget)}` : ""}; in all ${money(memory.spent.total)}`),
    ] : null);
}

function charts(memory, service, now) {
  const shown = [];
  if (memory?.total.events) {
    shown.push(barChart({ label: "Tasks decided", bins: memory.bins, end: now, text: count, parts: [["right", "right", (bin) => bin.right],
      ["wrong", "wrong", (bin) => bin.wrong], ["unlabelled", "no label", (bin) => bin.events - bin.right - bin.wrong]] }));
  }
  if (service?.requests) {
    shown.push(barChart({ label: "Requests", bins: service.bins, end: now, text: count, parts: [["served", "served", (bin) => bin.requests - bin.refused - bin.errors],
      ["refused", "refused", (bin) => bin.refused], ["wrong", "errors", (bin) => bin.errors]] }));
    shown.push(barChart({ label: "Latency: 95 % within", bins: service.bins, end: now, text: seconds, parts: [["served", "", (bin) => bin.p95]] }));
  }
  if (memory?.total.cost) shown.push(barChart({ label: "Spent", bins: memory.bins, end: now, text: money, parts: [["served", "", (bin) => bin.cost]] }));
  return shown;
}

// What every peer served, from the memory, and how its upstream does, also while the memory's store is away.
function byPeer(memory, service, api) {
  const upstreams = service && Object.keys(service.upstreams).length ? service.upstreams : null;
  if (!memory?.total.events && !upstreams) return null;
  const names = [...new Set([...Object.keys(memory?.peers ?? {}), ...Object.keys(upstreams ?? {})])];
  const ours = [["Answers served", "num"], ["Right", "num"], ["Wrong", "num"], ["Spent on it", "num"]];
  const theirs = [["Upstream", "nowrap"], ["Calls answered", "num"], ["Answer takes", "num"], ["Not answered"]];
  const rows = names.map((name) => [name, ...(memory ? served(name, memory, api) : []), ...(upstreams ? health(upstreams[name]) : [])]);
  return [el("h2", {}, upstreams ? "Peers and upstreams" : "Peers"),
    table("What each peer served in this period", [["Peer"], ...(memory ? ours : []), ...(upstreams ? theirs : [])], rows, { id: "peers-table" })];
}

function served(name, memory, api) {
  const own = memory.peers[name] ?? { events: 0, right: 0, wrong: 0, cost: 0 };
  return [bar(own.events / Math.max(memory.total.events, 1), count(own.events)), el("span", { class: own.right ? "right" : null }, count(own.right)),
    own.wrong ? el("a", { class: "wrong", href: api.link("decisions", new URLSearchParams({ peer: name, label: "wrong" }).toString()) }, count(own.wrong)) : "0", money(own.cost)];
}

function health(calls) {
  if (!calls) return [el("span", { class: "no-label" }, "none"), "–", "–", "–"];
  const called = calls.answered + calls.failed + calls.limited + calls.refused;
  return [known(calls.open_since) ? [el("span", { class: "wrong" }, "fails"), under(`since ${when(calls.open_since)}`)]
    : called ? el("span", { class: "right" }, "answers") : el("span", { class: "no-label" }, "not called"),
  count(calls.answered), known(calls.median) ? [seconds(calls.median), under(`95 % within ${seconds(calls.p95)}`)] : "–", unanswered(calls)];
}

const REASONS = { failed: "failed", limited: "rate limited", refused: "refused the request" };
const unanswered = (calls) => Object.entries(REASONS).filter(([name]) => calls[name]).map(([name, text]) => `${count(calls[name])} ${text}`).join(", ") || "–";

function changed(memory, service) {
  const ended = service?.alarms.filter((each) => each.kind !== "drift")
    .flatMap((each) => [{ ...each, kind: "alarm" }, ...(each.ended ? [{ time: each.ended, kind: "alarm over", text: each.text }] : [])]) ?? [];
  const all = [...memory.changes, ...ended].sort((a, b) => b.time - a.time).slice(0, 30);
  return [el("h2", {}, "What changed"),
    all.length ? table("Changes, newest first", [["Time"], ["Kind", "nowrap"], ["What", "words"]], all.map((each) => [when(each.time), each.kind, each.text]), { id: "changes-table" })
      : empty("Nothing changed in this period: no peer's record, no price, no source and no alarm.")];
}

// A memory without decisions: what to do first.
function beginning(memory, service, api) {
  const upstreams = Object.keys(service?.upstreams ?? {}).filter((name) => name in memory.peers);
  const steps = upstreams.length
    ? [`Point an OpenAI, Anthropic or Responses client to ${location.origin}/v1 and ask for the model sigma-mem. It goes to ${upstreams.join(", ")}.`,
      "Label answers as right or wrong: in the Inbox, or as feedback from your tests and graders."]
    : [`Decide from your program: sigma_mem.Client("${location.origin}").namespace("${api.namespace}"), then route, vote or decide. To route requests of chat clients, name models under [[upstreams]] in sigma-mem.toml.`,
      "Label answers as right or wrong: in the Inbox, or as feedback from your tests and graders."];
  return empty(el("p", {}, memory.events ? "Nothing was decided in this period. Choose a longer one, or go on:" : "Nothing was decided yet. To begin:"),
    el("ol", {}, steps.map((text) => el("li", {}, text))), el("p", {}, "This page updates by itself."));
}
