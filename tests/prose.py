"""Fail on phrases that are not plain English, in docstrings, comments, messages and docs: `make lint`."""

import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ("*.md", "docs/**/*.md", "src/**/*.py", "lab/src/**/*.py", "examples/**/*.py", "benchmarks/**/*.py")
PHRASES = {  # pattern → what to write instead
    r'(?:\A|[.;:]\s|")Who(?:ever)?\s(?=[^?]*?(?:[.;:"]|\Z))': "callers that, peers that, sources that",
    r"(?<!as\s)\bof\s(?:then|before|now)\b": "at that time, older, current",
    r"\bin\splace\sof\b": "instead of",
    r"\b[Bb]eside\b(?!`)": "compared with, next to, in addition to",
    r"\b(?:None|none|null|NaN|\w+Error|[Rr]aises?|\d)\swhere\b": "if, when",
    r"\bWhere\snot\b|\bwhere\sthere\sis\s(?:no|one)": "if, when",
    r"\bwithout\send\b|\bcalls?\sof\sthe\ssystem\b": "forever, system call",
}
RIGHT = re.compile(r"\W*(?:Who is trusted for what:|Who speaks next:)")  # headings that are questions


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, message and comment, or of Markdown without its code."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield 1, re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]*`", lambda code: "\n" * code[0].count("\n"), text)
        return
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", None)}
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type in kinds and " " in token.string:
            yield token.start[0], token.string.lstrip("# ").lstrip('rf"')


def phrases(file: Path) -> Iterator[str]:
    """Every phrase of a file that is not plain English, with its place and what to write instead."""
    for line, text in prose(file):
        for pattern, instead in PHRASES.items():
            for found in re.finditer(pattern, text):
                if not RIGHT.match(text, found.start()):
                    near = " ".join(text[max(0, found.start() - 20) : found.end() + 30].split())
                    place = line + text.count("\n", 0, found.end() - 1)
                    yield f"{file.relative_to(ROOT)}:{place}: {near!r}; write: {instead}"


if __name__ == "__main__":
    files = (file for part in READ for file in sorted(ROOT.glob(part)))
    sys.exit("\n".join(fault for file in files for fault in phrases(file)) or None)
