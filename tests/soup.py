"""Texts as bad as a peer can write them: markers, brackets, numbers, code and Unicode, mixed and repeated."""

import random
from collections.abc import Iterator

PIECES = [
    # what marks an answer, reasoning or a block
    "the answer is ", "The final answer is: ", "Answer: ", "answer", "**Answer**: ", '"answer": ',
    '"answer": "', '{"answer": ', '\\"answer\\": \\"', "\\boxed{", "\\boxed", "#### ", "####",
    "<think>", "</think>", "<answer>", "</answer>", "```", "```json\n", "```python\n", "~~~", "option ",
    "**", "*", "_", "$", "$$", "\\(", "\\)", "\\[", "\\]", "`",
    # brackets, quotes and separators
    "[", "]", "{", "}", "(", ")", "[[", "}}", '"', "'", '"""', "'''", "“", "”", "\\", "\\\\", "\\q",
    "\\u", "\\ud800", '\\"', ",", ":", ";", ".", "!", "?", "-", "−", "+", "/", "//", "/*", "*/", "#",
    "# ", "%", "^", "~", "|", "=", "<", ">",
    # blanks
    " ", "  ", "\t", "\n", "\r", "\r\n", "\n    ", "\f", "\u00a0", "\u2028", "\u3000", "\x0b", "\x85",
    # numbers
    "0", "1", "9", "12,345", ",678", ".5", "1.0", "1e9", "1e9999", "-1", "1/3", "/7", "0x", "0xff",
    "1_0", "1j", "10**10**6", "9" * 5000, "0x" + "f" * 5000, "1" * 300 + "." + "3" * 300, "NaN",
    "Infinity", "１２", "٣", "½", "²", "⁻¹", "Ⅷ", "१",
    # JSON, Python, other code
    '{"a": ', '"b": [', "true", "null", "None", "True", "[1, ", "{1, ", "(1,", "b'", "f'", "r'\\d'",
    "1if ", "lambda: ", "-" * 9, "def f(x):\n", "    return x\n", "import os\n", "class A:\n",
    "for i in x:\n", "int main() {\n", "x = 1;\n", "// c\n", "not ", "+1", "if x:\n", "#include <a>\n",
    "function f(", "let x =", "SELECT * FROM t;\n",
    # LaTeX
    "\\frac", "\\frac{1}{2}", "\\frac12", "\\text", "\\text{", "\\mathrm{a}", "\\sqrt{", "\\left(",
    "\\right)", "\\,", "^{", "_{", "\\pi", "√", "√(", "π", "×", "∞", "x=", "sin", "\\begin{matrix}",
    "&", "\\cdot ",
    # words and letters
    "a", "an ", "the ", "B", "B. ", "(B) ", "B. Paris", "E. coli", "x", "Paris", "is ", "İ", "ß", "ſ",
    "ﬁ", "答案", "。", "：", "（Ｂ）",
    # Unicode that grows, combines or is not allowed alone
    "\ufdfa", "\u0301", "\u0301\u0327", "e\u0301", "\u200d", "\u202e", "\ufeff", "\ufffe", "\U0010ffff",
    "\ud800", "\udfff", "😀", "👨‍👩‍👧", "\u1100\u1161", "가", "\U000e0001", "\x00", "\x1b[31m",
    "\x7f",
]  # fmt: skip


def attacks(size: int) -> Iterator[str]:
    """One piece repeated to a size, between every other piece and an end: what makes a parser start over."""
    for piece in PIECES:
        run = piece * max(1, size // len(piece))
        for start in ("", *PIECES):
            yield start + run + "x"
            yield run + start


def soups(rng: random.Random, count: int, longest: int) -> Iterator[str]:
    """Random mixtures, most of them short."""
    for _ in range(count):
        size = int(longest ** rng.random())
        kind = rng.randrange(5)
        few = rng.sample(PIECES, rng.randint(1, 6))
        if kind == 0:  # of everything
            text = "".join(rng.choice(PIECES) for _ in range(size // 3 + 1))
        elif kind == 1:  # of a few pieces
            text = "".join(rng.choice(few) for _ in range(size // 3 + 1))
        elif kind == 2:  # nested
            depth = size // (2 * len("".join(few))) + 1
            text = "".join(few) * depth + rng.choice(PIECES) + "".join(reversed(few)) * depth
        elif kind == 3:  # code points of every plane
            text = "".join(chr(rng.randrange(0x110000)) for _ in range(size))
        else:  # runs
            text = "".join(piece * rng.randint(1, max(1, size // len(piece))) for piece in few)
        yield text[:longest]
