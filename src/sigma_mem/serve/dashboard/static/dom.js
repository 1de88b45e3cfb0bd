// Elements made by code. Children are set as text, so nothing that a model wrote is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

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

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A table in a box that scrolls by itself; columns are [title, class], cells are nodes or text.
export function table(caption, columns, rows, attributes = {}) {
  const head = columns.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, i) => {
      if (i === 0) return el("th", { scope: "row" }, cell);
      return cell instanceof HTMLTableCellElement ? cell : el("td", { class: columns[i][1] }, cell);
    })),
  );
  const whole = el("table", attributes, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

// What a peer answered. Where texts are not kept, a decision only knows which answers were equal, by number.
export function answerOf(d, canon) {
  const kept = d.answer !== null || d.peer === null || !known(d.canons[d.peer]);
  return kept ? canon : `answer ${Number(canon) + 1}, text not kept`;
}

// A text of which two lines are shown; all of it as a tip.
export function clamped(text) {
  return el("span", { class: "clamp", title: shortened(text, 2000) }, text);
}

export function empty(...text) {
  return el("p", { class: "empty" }, ...text);
}

export function heading(title, lead) {
  return [el("h1", { tabindex: "-1" }, title), lead ? el("p", { class: "lead" }, lead) : null];
}

// A share from 0 to 1 as a bar beside its number; the number is what screen readers hear.
export function bar(share, text) {
  const width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(1);
  return el("span", { class: "bar" },
    svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "track", width: 100, height: 8 }), svg("rect", { class: "fill", width, height: 8 })),
    text);
}

// The beginning of a text that may be as long as a book.
export const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export const known = (value) => value !== null && value !== undefined;
export const percent = (value) => (known(value) ? `${(100 * value).toFixed(1)} %` : "–");
export const range = (pair) => `${(100 * pair[0]).toFixed(0)}–${(100 * pair[1]).toFixed(0)} %`;
export const number = (value, digits = 1) => (known(value) ? value.toFixed(digits) : "–");
export const signed = (value, digits = 4) => (known(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits) : "–");
export const money = (value) => (known(value) ? String(Number(value.toPrecision(4))) : "–");
export const when = (seconds) => new Date(1000 * seconds).toLocaleString();
export const verdict = (label) => (!known(label) ? "no label" : label > 0 ? "right" : label < 0 ? "wrong" : "undecided");
