"""Pictures and a page of the demo: `python docs/hooks/demo.py [FOLDER] [--tasks N]` writes them to docs/.

`demo-light.svg` and `demo-dark.svg` are the README's picture, `demo.html` plays the run in a browser: one
file that asks no server and no other host for anything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sigma_mem.demo.agents import FAULTY, PEERS
from sigma_mem.demo.run import run
from sigma_mem.demo.story import Story
from sigma_mem.demo.tasks import DOMAINS

HERE = Path(__file__).parent
WINDOW = 100  # tasks over which a share of right answers is taken
WIDTH, LEFT, RIGHT = 860, 46, 650  # of the picture, and its plots from left to right
THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1f2328", "soft": "#6e7781", "grid": "#d8dee4", "bad": "#cf222e"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "soft": "#8b949e", "grid": "#30363d", "bad": "#ff7b72"},
}
STRONG = {"light": ("#8250df", "#1a7f37", "#9a6700"), "dark": ("#d2a8ff", "#56d364", "#e3b341")}


def data(story: Story, every: int = 5) -> dict[str, Any]:
    """What picture and page show, after every fifth task."""
    best = story.best_peer()
    at = [*range(every - 1, story.tasks, every)]
    rows = {"decide": "decide", "majority": "majority", f"{best} alone": best}
    ends = [(max(0, n + 1 - WINDOW), n + 1) for n in at]
    return {
        "tasks": [number + 1 for number in at],
        "fault": story.fault_at,
        "moved": story.events if story.moved else None,
        "domain": story.fault_domain or DOMAINS[0],
        "faulty": FAULTY,
        "peers": list(PEERS),
        "domains": list(DOMAINS),
        "right": {name: [round(story.mean(row, *end), 3) for end in ends] for name, row in rows.items()},
        "overall": {name: round(story.mean(row), 3) for name, row in rows.items()},
        "trust": [
            [[None if cell != cell else round(float(cell), 3) for cell in row] for row in story.trust[n]]
            for n in at
        ],
    }


def picture(shown: Mapping[str, Any], theme: str) -> str:
    """The README's picture: how often right, and who is trusted with the faulty agent's tasks."""
    colours, last = THEMES[theme], shown["tasks"][-1]
    column = shown["domains"].index(shown["domain"])
    trust = {
        peer: [row[number][column] for row in shown["trust"]] for number, peer in enumerate(shown["peers"])
    }
    strong = dict(zip(shown["right"], STRONG[theme], strict=True))
    names = (f"Right answers, last {WINDOW} tasks", f"Trust in each agent on {shown['domain']} tasks")
    marked = {shown["faulty"]: colours["bad"], "runner": STRONG[theme][1]}
    parts = [
        *_plot(
            shown, shown["right"], strong, colours, top=44, name=names[0], note=f"{shown['faulty']} goes bad"
        ),
        *_plot(shown, trust, marked, colours, top=252, name=names[1]),
        _text((LEFT + RIGHT) / 2, 446, f"task 1 to {last}", colours["soft"], 12, "middle"),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 460" role="img"'
    title = "<title>One agent goes bad, and the memory moves away from it</title>"
    fill = f'<rect width="{WIDTH}" height="460" rx="8" fill="{colours["paper"]}"/>'
    return f'{head} font-family="system-ui, sans-serif">{title}{fill}\n' + "\n".join(parts) + "\n</svg>\n"


def _plot(
    shown: Mapping[str, Any],
    lines: Mapping[str, Sequence[float | None]],
    strong: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    top: int,
    name: str,
    note: str = "",
    height: int = 170,
) -> list[str]:
    last = shown["tasks"][-1]

    def place(task: float, share: float) -> tuple[float, float]:
        return LEFT + (RIGHT - LEFT) * task / last, top + height * (1.0 - share)

    out = [_text(LEFT, top - 14, name, colours["ink"], 15, weight=600)]
    for share in (0.0, 0.5, 1.0):
        y = place(0, share)[1]
        out.append(f'<path d="M{LEFT} {y:.0f}H{RIGHT}" stroke="{colours["grid"]}"/>')
        out.append(_text(LEFT - 6, y + 4, f"{share:.0%}", colours["soft"], 11, "end"))
    x = place(shown["fault"], 0)[0]
    out.append(f'<path d="M{x:.0f} {top}V{top + height}" stroke="{colours["bad"]}" stroke-dasharray="4 4"/>')
    out.append(_text(x + 5, place(0, 0.17)[1], note, colours["bad"], 12))
    ends: list[tuple[float, str, str, bool]] = []
    for row, shares in lines.items():
        colour = strong.get(row, colours["soft"])
        points = [
            place(t, s) for t, s in zip(shown["tasks"], shares, strict=True) if s is not None and t > 20
        ]
        path = "L".join(f"{px:.0f} {py:.0f}" for px, py in points)
        width = 2.6 if row in strong else 1.0
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        said = f"{row}: {shown['overall'][row]:.0%} in all" if row in shown["overall"] else row
        ends.append((points[-1][1], said, colour, row in strong))
    below = top - 14.0
    for y, said, colour, is_strong in sorted(ends):
        below = max(y + 4, below + 15)  # names do not overlap
        out.append(_text(RIGHT + 8, below, said, colour, 12, weight=600 if is_strong else 400))
    return out


def _text(
    x: float, y: float, words: str, fill: str, size: int, anchor: str = "start", weight: int = 400
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{words}</text>'


def page(shown: Mapping[str, Any]) -> str:
    """The page, with the run inside."""
    template = (HERE / "demo-page.html").read_text(encoding="utf-8")
    return template.replace(
        "/* the run */ null", json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    )


def write(folder: Path, tasks: int = 1500, seed: int = 0) -> list[Path]:
    """Run the demo and write the three files."""
    shown = data(run(tasks, seed))
    files = {f"demo-{theme}.svg": picture(shown, theme) for theme in THEMES} | {"demo.html": page(shown)}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, nargs="?", default=HERE.parent)
    arguments.add_argument("--tasks", type=int, default=1500)
    given = arguments.parse_args()
    for path in write(given.folder, given.tasks):
        print(path)
