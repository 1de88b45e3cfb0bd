// What every view uses: the memory's API with the key of this tab, elements, numbers, and charts.

const KEY = "sigma-mem-key";
const SVG = "http://www.w3.org/2000/svg";
export const LEAST = 5; // labels, below which nothing is said of a peer

// --- API ----------------------------------------------------------------------------------

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(path, options = {}) {
  const headers = { accept: "application/json" };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  if (options.body) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refused(0, "the service does not answer");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error?.message ?? `status ${response.status}`);
  return body;
}

// Calls on one namespace: `get("explain", {decision: id})`, `post("feedback", body)`.
export function memory(namespace, role = "read") {
  const base = `/v1/memory/${encodeURIComponent(namespace)}`;
  return {
    namespace,
    mayWrite: role !== "read",
    mayAdmin: role === "admin",
    get(name, query = {}) {
      const given = Object.entries(query).flatMap(([field, value]) => [value].flat().map((each) => [field, each]))
        .filter(([, value]) => value !== "" && known(value));
      const search = new URLSearchParams(given).toString();
      return call(`${base}${name ? `/${name}` : ""}${search ? `?${search}` : ""}`);
    },
    post: (name, body) => call(`${base}/${name}`, { method: "POST", body: JSON.stringify(body) }),
    link: (...parts) => `#/${[namespace, ...parts].map(encodeURIComponent).join("/")}`,
  };
}

// --- elements: children are set as text, so nothing that a model wrote is ever read as markup

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A table in a box that scrolls by itself; columns are [title, class], cells are nodes or text.
export function table(caption, columns, rows, attributes = {}) {
  const head = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, i) => {
      if (i === 0) return el("th", { scope: "row" }, cell);
      return cell instanceof HTMLTableCellElement ? cell : el("td", { class: columns[i][1] }, cell);
    })),
  );
  const whole = el("table", attributes, el("caption", {}, el("span", {}, caption)), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

// A second line of a cell, for what belongs to its number: an interval.
export const under = (text) => el("small", { class: "under" }, text);
export const empty = (...content) => el("div", { class: "empty" }, ...content);
export const heading = (title, lead) => [el("h1", { tabindex: "-1" }, title), lead ? el("p", { class: "lead" }, lead) : null];

// A text of which two lines are shown; all of it as a tip.
export const clamped = (text) => el("span", { class: "clamp", title: shortened(text, 2000) }, text);

// A share from 0 to 1 as a bar beside its number; the number is what screen readers hear.
export function bar(share, text) {
  const width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(1);
  return el("span", { class: "bar" },
    svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "track", width: 100, height: 8 }), svg("rect", { class: "fill", width, height: 8 })),
    text);
}

// A form that asks for what is shown. It is in the address, so that it can be linked to: peer=ann&label=wrong.
export function filters(api, view, given, fields, more) {
  const inputs = fields.map(([name, title, options]) => {
    const id = `filter-${name}`;
    const value = given.get(name) ?? "";
    const input = options instanceof Array
      ? el("select", { id, name }, options.map(([one, text]) => el("option", { value: one, selected: one === value }, text)))
      : el("input", { id, name, type: options, value, ...(options === "number" ? { min: 0, max: 100, placeholder: "%" } : {}) });
    return el("span", { class: "field" }, el("label", { for: id }, title), input);
  });
  const form = el("form", { class: "filters", role: "search", submit: (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== "")).toString();
    form.querySelector("button").focus();
    location.hash = chosen ? api.link(view, chosen) : api.link(view);
  } }, inputs, el("button", { type: "submit" }, "Show"),
  [...given].length ? el("a", { href: api.link(view) }, "Show all") : null, more);
  return form;
}

export const choices = (first, names) => [["", first], ...names.map((name) => [name, name])];
// What a filter asks the API for: percentages as shares, local times as seconds.
export const asked = (given) => Object.fromEntries([...given].map(([name, value]) =>
  [name, name === "below" ? value / 100 : name === "since" || name === "until" ? new Date(value).getTime() / 1000 : value]));

// --- numbers and words --------------------------------------------------------------------

let currency = "";
export const setCurrency = (name) => { currency = name; };
export const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const known = (value) => value !== null && value !== undefined;
export const percent = (value) => (known(value) ? `${(100 * value).toFixed(1)} %` : "–");
export const range = (pair) => `${(100 * pair[0]).toFixed(0)}–${(100 * pair[1]).toFixed(0)} %`;
export const number = (value, digits = 1) => (known(value) ? value.toFixed(digits) : "–");
export const count = (value) => (known(value) ? value.toLocaleString("en") : "–");
export const signed = (value, digits = 4) => (known(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits) : "–");
export const amount = (value) => String(Number(value.toPrecision(4)));
export const money = (value) => (known(value) ? `${amount(value)}${currency ? ` ${currency}` : ""}` : "–");
export const seconds = (value) => (!known(value) ? "–" : value < 1 ? `${Number((1000 * value).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`);
// A moment: today's without the date.
export function when(time) {
  const date = new Date(1000 * time);
  const day = date.toDateString() === new Date().toDateString() ? "today" : date.toLocaleDateString(undefined, { dateStyle: "medium" });
  return `${day} ${date.toLocaleTimeString(undefined, { timeStyle: "medium", hourCycle: "h23" })}`;
}
const word = (label) => (!known(label) ? "no label" : label > 0 ? "right" : label < 0 ? "wrong" : "undecided");
export const verdict = (label) => el("span", { class: word(label).replace(" ", "-") }, word(label));
export const plural = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

// A time on an axis: as short as the span allows.
function clock(time, span) {
  const date = new Date(1000 * time);
  if (span > 2 * 86400) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(span < 600 ? { second: "2-digit" } : {}) });
}

// --- charts: every one has a table beside it that says the same ---------------------------

function axes({ width, height, left, right, top, bottom }, [begin, end], ticks, most, inside = false) {
  const x = (time) => left + ((width - left - right) * (time - begin)) / Math.max(end - begin, 1e-9);
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const times = end > begin ? [0, 0.5, 1].map((part) => begin + part * (end - begin)) : [begin];
  const anchors = ["start", "middle", "end"];
  return { x, y, drawn: [
    ticks.map(([value, text]) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      inside ? svg("text", { x: left, y: y(value) - 4 }, text) : svg("text", { x: left - 5, y: y(value) + 3, "text-anchor": "end" }, text)]),
    times.map((time, i) => svg("text", { x: x(time), y: height - 5, "text-anchor": anchors[i] }, clock(time, end - begin))),
  ] };
}

const PANEL = { width: 320, height: 150, left: 40, right: 10, top: 10, bottom: 22 };

// A rate from 0 to 1 over time, with its interval as a band and a mark where the record changed.
export function rateChart({ label, points, span, mark }) {
  const { x, y, drawn } = axes(PANEL, span, [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]], 1);
  const spot = (p, rate) => `${x(p.time).toFixed(1)},${y(rate).toFixed(1)}`;
  const band = [...points.map((p) => spot(p, p.interval[1])), ...points.toReversed().map((p) => spot(p, p.interval[0]))];
  const last = points.at(-1);
  return svg("svg", { viewBox: `0 0 ${PANEL.width} ${PANEL.height}`, role: "img", "aria-label": label, class: "chart" }, drawn,
    svg("polygon", { class: "band", points: band.join(" ") }),
    svg("polyline", { class: "line", points: points.map((p) => spot(p, p.right)).join(" ") }),
    svg("circle", { class: "dot", cx: x(last.time), cy: y(last.right), r: 2.5 }),
    known(mark) ? svg("line", { class: "mark", x1: x(mark), x2: x(mark), y1: y(1), y2: y(0) }) : null);
}

// Bars over time, each a stack of parts: [class, name, value of a bin].
export function barChart({ label, bins, end, parts, text }) {
  const totals = bins.map((bin) => parts.reduce((sum, [, , of]) => sum + (of(bin) ?? 0), 0));
  const most = Math.max(...totals) || 1;
  const { x, y, drawn } = axes({ ...PANEL, left: 4, right: 4, top: 20 }, [bins[0].time, end], [[0, ""], [most, text(most)]], most, true);
  const wide = Math.max((PANEL.width - 8) / bins.length - 0.6, 0.6);
  const bars = bins.flatMap((bin) => {
    let below = 0;
    return parts.map(([kind, , of]) => {
      const value = of(bin) ?? 0;
      below += value;
      return value ? svg("rect", { class: kind, x: x(bin.time), y: y(below), width: wide, height: y(below - value) - y(below) }) : null;
    });
  });
  return el("figure", {},
    el("figcaption", {}, el("strong", {}, label),
      parts.length > 1 ? parts.map(([kind, name]) => el("span", { class: "key" }, el("span", { class: `swatch ${kind}` }), name)) : null),
    svg("svg", { viewBox: `0 0 ${PANEL.width} ${PANEL.height}`, role: "img", class: "chart",
      "aria-label": `${label}: at most ${text(most)} in one of ${bins.length} parts of the time from ${when(bins[0].time)}` }, drawn, bars));
}

// Peers by what a call costs and how often they are right.
export function costChart(spots) {
  const box = { width: Math.min(800, document.getElementById("main").clientWidth - 20), height: 340, left: 48, right: 24, top: 12, bottom: 40 };
  const most = roundedUp(Math.max(...spots.map((s) => s.cost)) || 1);
  const x = (cost) => box.left + ((box.width - box.left - box.right) * cost) / most;
  const y = (rate) => box.top + (box.height - box.top - box.bottom) * (1 - rate);
  const names = placedNames(spots.map((s) => ({ text: shortened(s.peer, 30), x: x(s.cost), y: y(s.prob) + 4, top: y(s.interval[1]), bottom: y(s.interval[0]) })), box);
  const anchors = ["start", "middle", "end"];
  return svg("svg", { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", class: "chart wide",
    "aria-label": "Cost of a call against probability of being right; the table below says the same." },
    [0, 0.25, 0.5, 0.75, 1].map((rate) => [
      svg("line", { class: "grid", x1: box.left, x2: box.width - box.right, y1: y(rate), y2: y(rate) }),
      svg("text", { x: box.left - 6, y: y(rate) + 4, "text-anchor": "end" }, `${100 * rate} %`),
    ]),
    [0, 0.5, 1].map((part, i) => svg("text", { x: x(part * most), y: box.height - 22, "text-anchor": anchors[i] }, money(part * most))),
    svg("text", { x: (box.left + box.width - box.right) / 2, y: box.height - 5, "text-anchor": "middle" }, "cost of a call"),
    spots.map((s) => [
      svg("line", { class: "whisker", x1: x(s.cost), x2: x(s.cost), y1: y(s.interval[0]), y2: y(s.interval[1]) }),
      svg("circle", { class: "dot", cx: x(s.cost), cy: y(s.prob), r: 4 }),
    ]),
    names.map((n) => svg("text", { class: "name", x: n.x, y: n.y, "text-anchor": n.anchor }, n.text)),
  );
}

// The next of 1, 2, 2.5, 5 and 10 times a power of ten: a number that can be read at the end of an axis.
function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 2.5, 5, 10].find((each) => each * power >= value * 0.999);
}

// Names next to their points: right, left, above or below, wherever no point, interval or other name is; else lower down.
function placedNames(names, box) {
  const [perLetter, line] = [7, 14];
  const taken = names.map(({ x, top, bottom }) => ({ from: x - 5, to: x + 5, top, bottom }));
  return names.toSorted((a, b) => a.y - b.y).map((name) => {
    const width = perLetter * name.text.length;
    const at = (x, y, anchor) => ({ x, y, anchor, from: anchor === "end" ? x - width : x, to: anchor === "end" ? x : x + width, top: y - line + 3, bottom: y + 3 });
    const inTheWay = (place) => taken.find((other) => place.from < other.to && other.from < place.to && place.top < other.bottom && other.top < place.bottom);
    const spots = [[8, name.y, "start"], [-8, name.y, "end"], [-5, name.top - 5, "start"], [5, name.top - 5, "end"], [-5, name.bottom + line, "start"], [5, name.bottom + line, "end"]]
      .map(([aside, y, anchor]) => at(name.x + aside, y, anchor)).filter(({ from, to }) => from >= box.left && to <= box.width);
    let place = spots.find((spot) => !inTheWay(spot)) ?? spots.at(-1) ?? at(box.left, name.y, "start");
    for (let other = inTheWay(place); other; other = inTheWay(place)) place = at(place.x, other.bottom + line, place.anchor);
    taken.push(place);
    return { ...place, text: name.text };
  });
}

// A table cell tinted between low (0) and high (1); grey where nothing is known.
export function tinted(cell, share) {
  if (!known(share)) cell.classList.add("nothing");
  else {
    cell.classList.add("tinted");
    cell.style.setProperty("--share", percent(Math.min(Math.max(share, 0), 1)).replace(" ", ""));
  }
  return cell;
}
