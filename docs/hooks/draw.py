"""Draw the pictures of `docs/memory.md`: `python docs/hooks/draw.py` writes them to `docs/pictures/`.

Curves and cells are read from a real `SigmaState` of rank 2, so the pictures show what the code computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sigma_mem import Settings, SigmaState

FOLDER = Path(__file__).parent.parent / "pictures"
INK, SOFT, RIGHT, WRONG, SEEN = "#34495e", "#8a97a5", "#2a7f62", "#b5483a", "#c58b1b"
PEERS = ("ann", "bob", "cat", "dan")
LAW, CODE = 12.0, 84.0  # where the two kinds of question lie, in degrees


def direction(degrees: float) -> np.ndarray:
    """The unit vector at an angle."""
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def text(x: float, y: float, words: str, size: int = 14, color: str = INK, anchor: str = "middle") -> str:
    """Words at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{color}">{words}</text>'


def line(points: Sequence[tuple[float, float]], color: str, width: float = 1.5, more: str = "") -> str:
    """A line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="{width}" {more}/>'


def arrow(x: float, y: float, to_x: float, to_y: float, color: str = INK) -> str:
    """An arrow from one point to another."""
    return line([(x, y), (to_x, to_y)], color, more='marker-end="url(#head)"')


def box(x: float, y: float, width: float, name: str, below: str, dashed: bool = False) -> str:
    """A box with a name and a word below it."""
    dash = 'stroke-dasharray="5 3"' if dashed else ""
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="54" rx="6" fill="#f4f6fa" stroke="{INK}" {dash}/>'
    return shape + text(x + width / 2, y + 24, name) + text(x + width / 2, y + 42, below, 12, SOFT)


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """The whole file."""
    head = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif"><title>{title}</title>{head}'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def taught() -> SigmaState:
    """Sixty questions of law and code: ann knows law, bob and cat know code, dan knows half of both."""
    state = SigmaState(PEERS, rank=2, settings=Settings(gamma=0.99))
    rng = np.random.default_rng(7)
    for event in range(60):
        law = event % 2 == 0
        c = np.array(
            [1.0 if law else -1.0, -1.0 if law else 1.0, -1.0 if law else 1.0, (-1.0) ** (event // 2)]
        )
        tick = state.begin_event()
        state.write(direction((LAW if law else CODE) + rng.normal(0, 8)), c, tick)
    return state


def phi() -> str:
    """Questions as directions."""
    rng = np.random.default_rng(7)
    parts = [f'<circle cx="200" cy="250" r="180" fill="none" stroke="{SOFT}" stroke-dasharray="3 4"/>']
    for middle, color in ((LAW, SEEN), (CODE, RIGHT)):
        for angle in middle + rng.normal(0, 8, 6):
            x, y = direction(angle) * 176
            parts.append(arrow(200, 250, 200 + x, 250 - y, color))
    parts += [text(446, 200, "questions of law", 14, SEEN), text(225, 55, "questions of code", 14, RIGHT)]
    parts += [
        text(400, 262, "A question becomes φ, an arrow of length 1.", 14, INK, "start"),
        text(400, 284, "A past event counts with (φ·φ′)²:", 14, INK, "start"),
        text(400, 306, "1 in the same direction, 0 at a right angle.", 14, INK, "start"),
    ]
    half = '<clipPath id="half"><rect width="740" height="330"/></clipPath><g clip-path="url(#half)">'
    return picture(740, 330, "Questions as directions on a circle", [half, *parts, "</g>"])


def lobes(state: SigmaState, peer: int, x: float, y: float, name: str) -> list[str]:
    """φᵀMφ and φᵀNφ of a peer around the circle: right outside in green, wrong in red."""
    angles = np.arange(0, 361, 3.0)
    scale = 115 / max(float(d @ state.N[0] @ d) for d in map(direction, angles))
    rim = [
        (x + d[0] * r, y - d[1] * r)
        for d in map(direction, angles)
        for r in [scale * float(d @ state.N[peer] @ d)]
    ]
    parts = [line(rim, SEEN, 1.5, 'stroke-dasharray="5 3"'), text(x, y + 150, name)]
    for sign, color in ((1, RIGHT), (-1, WRONG)):
        sizes = [max(0.0, sign * float(d @ state.M[peer] @ d)) * scale for d in map(direction, angles)]
        lobe = " ".join(
            f"{x + d[0] * r:.1f},{y - d[1] * r:.1f}"
            for d, r in zip(map(direction, angles), sizes, strict=True)
        )
        parts.append(f'<polygon points="{lobe}" fill="{color}" fill-opacity="0.55" stroke="{color}"/>')
    return parts


def competence() -> str:
    """M and N of three peers."""
    state = taught()
    parts = [
        part
        for peer, name in ((0, "ann: law"), (1, "bob: code"), (3, "dan: half of both"))
        for part in lobes(state, peer, 140 + 245 * min(peer, 2), 140, name)
    ]
    legend = "green: φᵀMφ above 0, right there · red: below 0, wrong there · dashed: φᵀNφ, how much was seen"
    return picture(
        770,
        330,
        "Competence and evidence of three peers by direction",
        [*parts, text(385, 318, legend, 13, SOFT)],
    )


def relation() -> str:
    """G of four peers."""
    G = taught().G
    parts = []
    for row, name in enumerate(PEERS):
        parts += [text(90, 75 + 50 * row, name, 14, INK, "end"), text(125 + 50 * row, 34, name)]
        for column in range(len(PEERS)):
            value = float(G[row, column])
            shade = (
                f'fill="{RIGHT if value > 0 else WRONG}" fill-opacity="{min(1.0, abs(value) * 2) * 0.8:.2f}"'
            )
            parts.append(
                f'<rect x="{100 + 50 * column}" y="{45 + 50 * row}" width="48" height="48" {shade}/>'
            )
            parts.append(text(124 + 50 * column, 74 + 50 * row, f"{value:.2f}", 13))
    words = (
        "Green: right and wrong together.",
        "Red: one is right where the other errs.",
        "bob and cat are right on the same questions.",
    )
    parts += [text(340, 110 + 26 * n, sentence, 14, INK, "start") for n, sentence in enumerate(words)]
    return picture(700, 260, "The relation matrix of four peers", parts)


def decay() -> str:
    """What an event weighs by its age."""
    parts = [
        arrow(60, 220, 690, 220),
        arrow(60, 220, 60, 25),
        text(640, 250, "events ago", 13),
        text(30, 40, "weight", 13),
    ]
    for rate, color in ((0.95, WRONG), (0.99, SEEN), (0.998, RIGHT), (0.9995, INK)):
        points = [(60 + age * 1.5, 220 - 180 * rate**age) for age in range(0, 401, 4)]
        x, y = points[{0.95: 9, 0.99: 30}.get(rate, -1)]
        parts += [line(points, color, 2), text(x + 8, y - 4, f"γ = {rate}", 12, color, "start")]
    parts += [text(60 + 150 * n, 236, str(100 * n), 12, SOFT) for n in range(1, 4)]
    return picture(750, 265, "What an event weighs by its age, at four rates of decay", parts)


def loop() -> str:
    """One pass through the memory."""
    parts = [
        box(15, 40, 120, "question", "text", True),
        box(185, 40, 120, "φ", "encode"),
        box(355, 40, 140, "M, N, G", "read at φ"),
        box(545, 40, 120, "choice", "route, vote …"),
        box(715, 40, 130, "Decision", "id, φ, p̂", True),
        arrow(135, 67, 183, 67),
        arrow(305, 67, 353, 67),
        arrow(495, 67, 543, 67),
        arrow(665, 67, 713, 67),
        box(715, 180, 130, "feedback", "who was right", True),
        box(545, 180, 120, "ledger", "on disk"),
        box(355, 180, 140, "write", "M += η·c·φφᵀ"),
        arrow(780, 94, 780, 178),
        arrow(715, 207, 667, 207),
        arrow(545, 207, 497, 207),
        arrow(425, 180, 425, 96),
        text(800, 142, "later", 13, SOFT, "start"),
        text(445, 142, "at the age of the event", 13, SOFT, "start"),
    ]
    return picture(
        860, 260, "One pass: question, direction, read, choice; later feedback, ledger, write", parts
    )


def steering() -> str:
    """How the memory steers the center."""
    parts = [
        box(15, 30, 150, "question, answer", "of peer p", True),
        box(215, 30, 150, "lower blocks", "frozen"),
        box(415, 30, 150, "upper blocks", "frozen, shifted by δ"),
        box(615, 30, 170, "U = log Yes − log No", "trust this answer?"),
        arrow(165, 57, 213, 57),
        arrow(365, 57, 413, 57),
        arrow(565, 57, 613, 57),
        box(215, 160, 150, "readout M_pφ", "what is known of p"),
        box(415, 160, 150, "δ = g·P·M_pφ", "P and g are trained"),
        box(615, 160, 170, "posterior", "U of all peers, and G"),
        arrow(365, 187, 413, 187),
        arrow(490, 160, 490, 86),
        arrow(700, 84, 700, 158),
    ]
    return picture(800, 240, "The memory steers a frozen model that judges the answers", parts)


PICTURES: dict[str, Callable[[], str]] = {
    draw.__name__: draw for draw in (phi, competence, relation, decay, loop, steering)
}


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
