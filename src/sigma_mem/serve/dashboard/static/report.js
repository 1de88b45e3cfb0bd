// Had the memory chosen: the same numbers as `sigma-mem report`.

import { amount, bar, count, el, empty, heading, known, money, percent, range, table, under } from "./lib.js";

const HOURS = [["24", "last 24 hours"], ["168", "last 7 days"], ["720", "last 30 days"], ["8760", "last year"]];
const SECONDS = 60; // the whole ledger is read for it, so a change waits that long
let loaded = { place: "", time: 0, data: null };

export const title = "Report";

export async function load(api, argument) {
  const hours = new URLSearchParams(argument).get("hours") ?? "168";
  const place = `${api.namespace} ${hours}`;
  if (loaded.place !== place || Date.now() - loaded.time > 1000 * SECONDS) {
    loaded = { place, time: Date.now(), data: { hours, ...(await api.get("report", { hours })) } };
  }
  return loaded.data;
}

export function render({ hours, compared }, api) {
  return [
    heading("Report", "Had the memory chosen: what it would have changed, from what was served and labelled. Made for the gateway's mode observe."),
    el("p", { class: "row" }, el("label", { for: "period" }, "Period"),
      el("select", { id: "period", change: (event) => { location.hash = api.link("report", `hours=${event.target.value}`); } },
        HOURS.map(([value, text]) => el("option", { value, selected: value === hours }, text)))),
    compared.length ? body(compared) : empty("Nobody served in this period. Choose a longer one, or send requests to the gateway."),
  ];
}

function body(compared) {
  const rows = compared.map((each) => [each.topic ?? "all requests", count(each.requests),
    bar(each.elsewhere / Math.max(each.requests, 1), count(each.elsewhere)), count(each.untried), right(each, "right_before"), right(each, "right_after"),
    cost(each, "cost_before"), cost(each, "cost_after")]);
  return [
    table("As it was served, and had the memory chosen", [["Topic"], ["Requests", "num"], ["Elsewhere", "num"], ["Untried", "num"], ["Right", "num"],
      ["Right, had it chosen", "num"], ["Cost", "num"], ["Cost, had it chosen", "num"]], rows, { id: "report-table" }),
    el("p", { class: "note" }, "Intervals are of 95 %, and a cost is the mean of a request. Elsewhere: requests that would have gone to another peer. ",
      "Untried: to one that served no such request, so that only its p̂ is known."),
  ];
}

const right = (each, name) => (known(each[name]) ? [percent(each[name]), under(range(each[`${name}_interval`]))] : "no label");
const cost = (each, name) => (known(each[name]) ? [money(each[name]), under(each[`${name}_interval`].map(amount).join("–"))] : "–");
