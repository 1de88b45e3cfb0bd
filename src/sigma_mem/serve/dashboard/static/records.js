// What is known of peers and sources: trust, topics, relation, cost, sources.

import { LEAST, asked, bar, choices, costChart, count, el, empty, filters, heading, known, money, number, percent, plural, range, rateChart, seconds, signed, table, tinted, under, when } from "./lib.js";

const WHOLE = 20; // tasks with a label of every answer, below which nothing is said of who errs with whom
const noLabels = (api) => empty("No label yet, so nothing is known about any peer. ",
  api.mayWrite ? [el("a", { href: api.link("inbox") }, "Label some decisions"), ", or send feedback from your tests and graders."]
    : "Labels come from the inbox of somebody who may write, or as feedback from tests and graders.");

export const trust = {
  title: "Trust",
  async load(api, argument) {
    const given = asked(new URLSearchParams(argument));
    const [now, trend, drift] = await Promise.all([api.post("trust", {}), api.get("trend", given), api.get("drift")]);
    return { now, trend, drift: drift.drift, argument };
  },
  render({ now, trend, drift, argument }, api) {
    const given = new URLSearchParams(argument);
    const counted = `last ${trend.window} labels${given.get("topic") ? ` on ${given.get("topic")}` : ""}`;
    const peers = Object.keys(now.peers).sort((a, b) => now.peers[b].prob - now.peers[a].prob);
    const changed = Object.fromEntries(drift.map((d) => [d.peer, d]));
    const rows = peers.map((peer) => {
      const { prob, interval, labels, last: newest } = now.peers[peer];
      const last = trend.trends[peer]?.at(-1);
      return [peer, labels ? bar(prob, percent(prob)) : "–", labels ? range(interval) : "–", count(labels), known(newest) ? when(newest) : "never",
        percent(last?.right), changedText(changed[peer])];
    });
    const drawn = peers.filter((peer) => trend.trends[peer]?.length);
    return [
      heading("Trust", `How often each peer is right on what it was asked, after ${plural(now.events, "task")}. The rate says nothing about tasks that a peer was never given.`),
      table("Trust by peer, best first", [["Peer"], ["Right with probability", "num"], ["95 % interval", "num"], ["Labels", "num"],
        ["Last label", "nowrap"], [`Right of the ${counted}`, "num"], ["Changed", "words"]], rows, { id: "trust-table" }),
      drawn.length ? [el("h2", {}, "Over time"),
        el("p", { class: "note" }, `Share right over the ${counted}, with its 95 % interval. A dashed line marks when a peer's record changed.`),
        filters(api, "trust", given, [["topic", "Topic", choices("all tasks", Object.keys(now.topics).sort())]]),
        el("div", { class: "panels" }, drawn.map((peer) => panel(peer, trend, changed[peer]))), asTable(drawn, trend)] : noLabels(api),
    ];
  },
};

const changedText = (drift) => (drift ? `${percent(drift.was)} → ${percent(drift.now)} since ${when(drift.time)}, ${percent(drift.confidence)} sure` : "no");

function panel(peer, trend, drift) {
  const points = trend.trends[peer];
  const last = points.at(-1);
  const label = `${peer}: ${percent(last.right)} right over the last labels, interval ${range(last.interval)}; changed: ${changedText(drift)}`;
  return el("figure", {},
    el("figcaption", {}, el("strong", {}, peer), " ", el("span", {}, percent(last.right)),
      drift ? el("span", { class: "badge" }, `changed: ${percent(drift.was)} → ${percent(drift.now)}`) : null),
    rateChart({ label, points, span: trend.span, mark: drift?.time }));
}

function asTable(peers, trend) {
  const columns = 6;
  const [begin, end] = trend.span;
  const ends = Array.from({ length: columns }, (_, i) => begin + ((i + 1) * (end - begin)) / columns);
  const rows = peers.map((peer) => [peer, ...ends.map((time) => {
    const point = trend.trends[peer].findLast((p) => p.time <= time);
    return point ? el("td", { class: "num" }, percent(point.right), under(range(point.interval))) : "–";
  })]);
  return el("details", { id: "trend-details" }, el("summary", {}, "The charts as a table"),
    table("Share right up to a time", [["Peer"], ...ends.map((time) => [when(time), "num"])], rows));
}

export const topics = {
  title: "Topics",
  load: (api) => api.post("trust", {}),
  render({ peers: overall, topics: by }, api) {
    const names = Object.keys(by).sort();
    const peers = Object.keys(overall);
    const rows = [["all tasks", ...peers.map((peer) => topicCell(overall[peer], overall[peer].labels))],
      ...names.map((name) => [name, ...peers.map((peer) => topicCell(by[name][peer], by[name][peer].effective))])];
    return [
      heading("Topics", `How often each peer is right, by topic. Grey: fewer than ${LEAST} labels, too few to tell.`),
      names.length ? null : empty("No decision named a topic yet. Pass topic= to route, vote or decide; in the gateway, send the header x-sigma-mem-topic or set rules under [[topics]] in sigma-mem.toml."),
      table("Topic by peer", [["Topic"], ...peers.map((peer) => [peer, "num"])], rows, { id: "heatmap", class: "heat" }),
      el("p", { class: "legend", "aria-hidden": "true" }, "0 % right", el("span", { class: "ramp" }), "100 %"),
      Object.values(overall).some((each) => each.labels) ? null : noLabels(api),
    ];
  },
};

function topicCell({ prob, interval }, labels) {
  const enough = Math.round(labels) >= LEAST;
  const about = enough ? `${range(interval)}, ${number(labels)} labels` : `too few labels: ${number(labels)}`;
  return tinted(el("td", { class: "num", title: about }, enough ? percent(prob) : "–", el("span", { class: "hidden" }, ` ${about}`)), enough ? prob : null);
}

export const relation = {
  title: "Relation",
  load: (api) => api.get("relation"),
  render({ peers, matrix, together, votes, errors }, api) {
    const pair = (i, j) => (together[i][j] >= LEAST ? matrix[i][j] : null);
    const most = Math.max(0, ...matrix.flatMap((row, i) => row.map((_, j) => (i === j ? 0 : Math.abs(pair(i, j) ?? 0)))));
    const cells = (value, text, share) => peers.map((peer, i) => [peer, ...peers.map((_, j) => {
      if (i === j) return el("td", { class: "num nothing" }, "");
      return tinted(el("td", { class: "num" }, known(value(i, j)) ? text(value(i, j)) : "–"), known(value(i, j)) ? share(value(i, j)) : null);
    })]);
    const columns = [["Peer"], ...peers.map((peer) => [peer, "num"])];
    const pairs = errors.deceiving.map((each) => [each.peers.join(" and "), percent(each.together), percent(each.expected), known(each.correlation) ? signed(each.correlation, 2) : "–"]);
    return [
      heading("Relation", "Who is right and wrong together. Peers that err together count as fewer votes."),
      together.some((row, i) => row[i]) ? null : noLabels(api),
      errors.events >= WHOLE ? worth(errors) : null,
      el("h2", {}, "Who errs with whom"),
      errors.events >= WHOLE ? [
        el("p", { class: "note" }, `Correlation of being wrong over the last ${plural(errors.events, "task")} with a label of every answer: + together, − apart, 0 independently. `
          + `Grey: fewer than ${WHOLE} of them in common, or a peer that is always right or always wrong.`),
        table("Correlation of being wrong, by pair", columns, cells((i, j) => errors.correlation[i][j], (x) => signed(x, 2), (x) => 0.5 - 0.5 * x), { id: "errors-table", class: "heat" }),
      ] : empty(`This needs ${WHOLE} tasks that several peers answered, with a label of every answer: from votes, or from tests that grade all of them. There are ${errors.events} so far.`),
      pairs.length ? table("Pairs that give the same wrong answer more often than chance", [["Pair"], ["Same wrong answer", "num"], ["By chance", "num"], ["Correlation", "num"]], pairs, { id: "pairs-table" }) : null,
      el("h2", {}, "What an agreement is worth"),
      agreement(peers, votes, together, api),
      el("h2", {}, "The memory's own relation (G)"),
      el("p", { class: "note" }, `Learned as labels come, relative to the rest of the pool; recent labels count more. Grey: fewer than ${LEAST} recent tasks with a label of both.`),
      table("G by pair of peers", columns, cells(pair, (x) => signed(x, 3), (x) => (most ? 0.5 - (0.5 * x) / most : 0.5)), { id: "relation-table", class: "heat" }),
    ];
  },
};

function worth(errors) {
  const enough = (line) => line.labels >= WHOLE;
  const rows = [...errors.peers].sort((a, b) => b.accuracy - a.accuracy).map((line) => [
    line.peer, count(line.labels), percent(line.accuracy), range([line.low, line.high]),
    enough(line) ? `${signed(100 * line.adds, 1)} ± ${number(100 * line.adds_error, 1)}` : "–",
  ]);
  const idle = errors.peers.filter((line) => line.adds_nothing && enough(line)).map((line) => line.peer);
  return el("section", {},
    el("h2", {}, "What each peer is worth"),
    el("p", { class: "note" }, `Over the last ${plural(errors.events, "task")} with a label of every answer: a majority is right in ${percent(errors.majority)}, the best peer in ${percent(errors.best)}, `
      + `a vote that knows who errs with whom in ${percent(errors.joint)}. Adds: points of that vote that the peer is needed for.${idle.length ? ` Nothing is added by: ${idle.join(", ")}.` : ""}`),
    table("Share right and what each adds", [["Peer"], ["Labels", "num"], ["Right", "num"], ["95 %", "num"], ["Adds", "num"]], rows, { id: "worth-table" }));
}

function agreement(peers, votes, together, api) {
  const result = el("output", { id: "votes" });
  const say = (chosen, worth) => {
    const places = chosen.map((peer) => peers.indexOf(peer));
    const [i, j] = places.flatMap((a) => places.filter((b) => b >= a).map((b) => [a, b])).reduce((a, b) => (together[b[0]][b[1]] < together[a[0]][a[1]] ? b : a));
    result.textContent = known(worth) ? `${plural(chosen.length, "peer")} that agree${chosen.length === 1 ? "s" : ""} ${chosen.length === 1 ? "is" : "are"} worth ${number(worth, 2)} independent votes.`
      : `Not known yet: ${i === j ? `${peers[i]} has` : `${peers[i]} and ${peers[j]} both have`} a label in ${plural(together[i][j], "recent task")}, and ${LEAST} are needed.`;
  };
  const form = el("form", { id: "agreement" },
    el("fieldset", {}, el("legend", {}, "If these peers gave one answer"),
      peers.map((peer) => el("label", { class: "check" }, el("input", { type: "checkbox", name: "peer", value: peer, checked: true }), peer))),
    result);
  form.addEventListener("change", async () => {
    const chosen = new FormData(form).getAll("peer");
    if (!chosen.length) { result.textContent = "Choose at least one peer."; return; }
    try {
      say(chosen, (await api.get("relation", { peer: chosen })).votes);
    } catch (error) { result.textContent = error.message; }
  });
  say(peers, votes);
  return form;
}

const TOKENS = 250; // of a question, where a price is by token
const HOURS = 720;

export const cost = {
  title: "Cost",
  async load(api) {
    const [now, spent, { memory }] = await Promise.all([api.post("trust", {}), api.get("spent"), api.get("overview", { hours: HOURS })]);
    return { overall: now.peers, spent, called: memory?.peers ?? {} };
  },
  render({ overall, spent, called }) {
    const { prices } = spent;
    const perCall = (peer) => (called[peer]?.paid ? called[peer].cost / called[peer].paid : listed(prices[peer]));
    const priced = Object.keys(overall).filter((peer) => prices[peer]);
    const spots = priced.filter((peer) => overall[peer].labels).map((peer) => ({ peer, cost: perCall(peer), ...overall[peer] }));
    const rows = Object.keys(overall).map((peer) => {
      const price = prices[peer] ? perCall(peer) : null;
      const { prob, interval, labels } = overall[peer];
      return [peer, money(price), money(price === null || !labels ? null : price / Math.max(prob, 1e-9)), labels ? percent(prob) : "–", labels ? range(interval) : "–",
        seconds(prices[peer]?.latency), money(spent.by_peer[peer] ?? 0)];
    });
    const days = Object.entries(spent.by_day).slice(-14).reverse().map(([day, by]) => [day, money(Object.values(by).reduce((a, b) => a + b, 0)),
      Object.entries(by).filter(([, amount]) => amount).map(([peer, amount]) => `${peer} ${money(amount)}`).join(", ")]);
    return [
      heading("Cost", `What peers cost, and how often they are right. Spent so far: ${money(spent.total)}.`),
      spots.length ? costChart(spots) : priced.length ? empty("No label yet: what a right answer costs is known once somebody says which answers were right.")
        : empty("No peer has a price yet. Set input_price and output_price of an upstream in sigma-mem.toml, or call set_price(peer, per_call=…)."),
      table(`Cost and accuracy. A call: the mean of the last 30 days; of a peer that was not called, what a question of ${TOKENS} tokens would cost`, [["Peer"], ["Cost of a call", "num"],
        ["Cost of a right answer", "num"], ["Right with probability", "num"], ["95 % interval", "num"], ["Latency", "num"],
        ["Spent", "num"]], rows, { id: "cost-table" }),
      days.length ? [el("h2", {}, "By day"), table("Spent by day (UTC)", [["Day"], ["Spent", "num"], ["By peer"]], days, { id: "days-table" })] : null,
    ];
  },
};

const listed = (price) => price.per_call + TOKENS * price.per_input_token + price.output_tokens * price.per_output_token;

export const sources = {
  title: "Sources",
  load: async (api) => (await api.get("sources")).sources,
  render(found, api, again, say) {
    const rows = found.map((s, i) => [s.name, count(s.lines), s.revoked ? "revoked" : s.trusted ? "trusted" : "counted",
      percent(s.agreement), number(s.compared), number(s.weight, 2), ...(api.mayAdmin ? [change(s, i, api, again, say)] : [])]);
    return [
      heading("Sources", "Who gave feedback, how far each agrees with the others, and what its labels weigh (1: a trusted source)."),
      found.some((s) => s.lines) ? null : empty("No feedback yet. Every key, grader and signal that labels an answer is a source of its own, and shows up here."),
      found.length ? table("Sources of feedback", [["Source"], ["Feedback", "num"], ["Status"], ["Agreement", "num"],
        ["Labels compared", "num"], ["Weight", "num"], ...(api.mayAdmin ? [["Change"]] : [])], rows, { id: "sources-table" }) : null,
      api.mayAdmin ? null : el("p", { class: "note" }, "Revoking a source needs a key with the role admin."),
    ];
  },
};

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
