// Charts as SVG. Every one has a table beside it that says the same.

import { known, money, percent, shortened, svg } from "./dom.js";

// A rate from 0 to 1 over places, with its interval as a band and marks where the record changed.
export function rateChart({ label, points, places, marks = [] }) {
  const [width, height, left, right, top, bottom] = [320, 150, 34, 8, 8, 20];
  const x = (place) => left + ((width - left - right) * place) / Math.max(places - 1, 1);
  const y = (rate) => top + (height - top - bottom) * (1 - rate);
  const spot = (p, rate) => `${x(p.place).toFixed(1)},${y(rate).toFixed(1)}`;
  const band = [...points.map((p) => spot(p, p.interval[1])), ...points.toReversed().map((p) => spot(p, p.interval[0]))];
  const last = points.at(-1);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" },
    [0, 0.5, 1].map((rate) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(rate), y2: y(rate) }),
      svg("text", { x: left - 4, y: y(rate) + 3, "text-anchor": "end" }, `${100 * rate} %`),
    ]),
    svg("text", { x: left, y: height - 5 }, "first event"),
    svg("text", { x: width - right, y: height - 5, "text-anchor": "end" }, `event ${places}`),
    svg("polygon", { class: "band", points: band.join(" ") }),
    svg("polyline", { class: "line", points: points.map((p) => spot(p, p.right)).join(" ") }),
    last ? svg("circle", { class: "dot", cx: x(last.place), cy: y(last.right), r: 2.5 }) : null,
    marks.map((place) => svg("line", { class: "mark", x1: x(place), x2: x(place), y1: top, y2: height - bottom })),
  );
}

// Peers by what a call costs and how often they are right.
export function costChart(spots) {
  const [width, height, left, right, top, bottom] = [640, 320, 44, 20, 12, 34];
  const most = Math.max(...spots.map((s) => s.cost)) || 1;
  const x = (cost) => left + ((width - left - right) * cost) / most;
  const y = (rate) => top + (height - top - bottom) * (1 - rate);
  const names = placedNames(spots.map((s) => ({ text: shortened(s.peer, 24), x: x(s.cost), y: y(s.prob) + 4, left: x(s.cost) > width / 2 })));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "chart wide",
    "aria-label": "Cost of a call against probability of being right; the table below says the same." },
    [0, 0.25, 0.5, 0.75, 1].map((rate) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(rate), y2: y(rate) }),
      svg("text", { x: left - 6, y: y(rate) + 4, "text-anchor": "end" }, `${100 * rate} %`),
    ]),
    [0, 0.5, 1].map((part) => svg("text", { x: x(part * most), y: height - 14, "text-anchor": "middle" }, money(part * most))),
    svg("text", { x: (left + width - right) / 2, y: height - 1, "text-anchor": "middle" }, "cost of a call"),
    spots.map((s) => [
      svg("line", { class: "whisker", x1: x(s.cost), x2: x(s.cost), y1: y(s.interval[0]), y2: y(s.interval[1]) }),
      svg("circle", { class: "dot", cx: x(s.cost), cy: y(s.prob), r: 4 }),
    ]),
    names.map((n) => svg("text", { class: "name", x: n.x + (n.left ? -8 : 8), y: n.y, "text-anchor": n.left ? "end" : "start" }, n.text)),
  );
}

// Names beside their points, from top to bottom, moved down where one would lie on a point or on another name.
function placedNames(names) {
  const [perLetter, line] = [7, 14];
  const taken = names.map(({ x, y }) => ({ from: x - 5, to: x + 5, y }));
  return names.toSorted((a, b) => a.y - b.y).map((name) => {
    const width = perLetter * name.text.length;
    const place = { from: name.left ? name.x - 8 - width : name.x + 6, to: name.left ? name.x - 6 : name.x + 8 + width, y: name.y };
    const inTheWay = () => taken.find((other) => place.from < other.to && other.from < place.to && Math.abs(place.y - other.y) < line);
    for (let other = inTheWay(); other; other = inTheWay()) place.y = other.y + line;
    taken.push(place);
    return { ...name, y: place.y };
  });
}

// G as a graph: who is right and wrong together (solid), or apart (dashed).
export function relationGraph(peers, matrix, most) {
  const [width, size] = [540, 420];
  const at = peers.map((_, i) => {
    const angle = (2 * Math.PI * i) / peers.length - Math.PI / 2;
    return [width / 2 + 125 * Math.cos(angle), size / 2 + 125 * Math.sin(angle), Math.cos(angle), Math.sin(angle)];
  });
  const lines = [];
  for (let i = 0; i < peers.length; i += 1) {
    for (let j = 0; j < i; j += 1) {
      const share = most ? Math.abs(matrix[i][j]) / most : 0;
      if (share < 0.1) continue;
      lines.push(svg("line", { class: matrix[i][j] > 0 ? "together" : "apart", x1: at[i][0], y1: at[i][1],
        x2: at[j][0], y2: at[j][1], "stroke-width": (4 * share).toFixed(2), "stroke-opacity": (0.25 + 0.75 * share).toFixed(2) }));
    }
  }
  return svg("svg", { viewBox: `0 0 ${width} ${size}`, role: "img", class: "chart graph",
    "aria-label": "G as a graph: solid lines join peers that are right and wrong together, dashed lines those that are not." },
    lines,
    at.map(([x, y, dx, dy], i) => [
      svg("circle", { class: "dot", cx: x, cy: y, r: 5 }),
      svg("text", { class: "name", x: x + 12 * dx, y: y + 14 * dy + 4,
        "text-anchor": Math.abs(dx) < 0.3 ? "middle" : dx > 0 ? "start" : "end" },
      shortened(peers[i], 18)),
    ]),
  );
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
