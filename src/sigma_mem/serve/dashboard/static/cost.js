import { costChart } from "./charts.js";
import { empty, heading, money, number, percent, range, table } from "./dom.js";

export const title = "Cost";
const TOKENS = 250; // of a question, where a price is by token

export async function load(api) {
  const [now, spent] = await Promise.all([api.post("trust", {}), api.get("spent")]);
  return { overall: now.peers, prices: spent.prices, spent };
}

export function render({ overall, prices, spent }) {
  const priced = Object.keys(overall).filter((peer) => prices[peer]);
  const spots = priced.map((peer) => ({ peer, cost: perCall(prices[peer]), ...overall[peer] }));
  const rows = Object.keys(overall).map((peer) => {
    const cost = prices[peer] ? perCall(prices[peer]) : null;
    const { prob, interval } = overall[peer];
    return [peer, money(cost), money(cost === null ? null : cost / Math.max(prob, 1e-9)), percent(prob), range(interval),
      number(prices[peer]?.latency, 2), money(spent.by_peer[peer] ?? 0)];
  });
  return [
    heading("Cost", `What peers cost, and how often they are right. Spent so far: ${money(spent.total)}.`),
    spots.length ? costChart(spots) : empty("No peer has a price yet. An admin sets one: POST /v1/memory/NAMESPACE/prices."),
    table(`Cost and accuracy (a call: a question of ${TOKENS} tokens)`, [["Peer"], ["Cost of a call", "num"],
      ["Cost of a right answer", "num"], ["Right with p", "num"], ["95 % interval", "num"], ["Latency, s", "num"],
      ["Spent", "num"]], rows, { id: "cost-table" }),
  ];
}

const perCall = (price) => price.per_call + TOKENS * price.per_input_token + price.output_tokens * price.per_output_token;
