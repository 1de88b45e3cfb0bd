"""Where a response states its answer: behind the reasoning, in a fenced block, after a marker.

Everything here takes time linear in the text: what a model writes may be long, repetitive and cut off.
"""

import json
import re

_THOUGHTS_END = re.compile(r"</(?:think(?:ing)?|thought|reasoning)>")
_TAG = re.compile(r"\A[\w+#.-]*+[ \t\r]*+\n")
_JSON_FIELD = re.compile(r'"(?:final[_ ])?answer\\?"\s*:\s*')
_JSON_END = re.compile(r'(?:"|(?<!\s))\s*+\}\s*+(?:`|$)|"[^\S\n]*+\n|(?:"|(?<!\s))\s*+$')
_ANSWER_WORDS = (
    "answer", "antwort", "respuesta", "réponse", "risposta", "resposta", "ответ", "答案", "答え", "정답",
)  # fmt: skip
_AFTER_ANSWER = re.compile(
    r"[*_]*+\s*+(?:(?:is|ist|es|est|è|é|은|는)\b\s*+:?|是\s*+:?|为|為|は|[:：])[\s*_]*+", re.IGNORECASE
)
_STATED_END = re.compile(r"\n|[.!?](?=\s|$|[*<])|です|입니다")
_HASHES = re.compile(r"####\s*+(.+)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # an escaped one opens or closes nothing

# Full-width ASCII and CJK punctuation; the quote and the backslash would change what JSON means.
_WIDE = {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F) if wide not in (0xFF02, 0xFF3C)}
_WIDE |= {ord("　"): " ", ord("。"): ". ", ord("！"): "! ", ord("？"): "? ", ord("、"): ", "}
_WIDE |= {ord("【"): "[", ord("】"): "]"}
_ANY_WIDE = re.compile(f"[{''.join(map(chr, _WIDE))}]")
_WIDE_OPTION = re.compile(r"\A\s*+([A-ZＡ-Ｚ])．(?=\S)")  # no blank is written after a wide full stop


def narrow(text: str) -> str:
    """Write full-width letters, digits and punctuation as ASCII.

    >>> narrow("（Ｂ）"), narrow("１，２３４．５")
    ('(B)', '1,234.5')
    """
    if text.isascii() or not _ANY_WIDE.search(text):
        return text
    return _WIDE_OPTION.sub(r"\1. ", text).translate(_WIDE)


def without_thoughts(text: str) -> str:
    """Drop the reasoning before ``</think>``, unless nothing follows it."""
    end = 0
    if "</" in text:
        for end_tag in _THOUGHTS_END.finditer(text):
            end = end_tag.end()
    rest = text[end:]
    return rest if rest.strip() else text


def fenced_blocks(text: str) -> list[str]:
    r"""The contents of all fenced blocks, without the name of their language; the last may be cut off.

    >>> fenced_blocks("So:\n```python\nx = 5\n```\nor ```7```")
    ['x = 5\n', '7']
    """
    return [_TAG.sub("", inner) or inner for inner in text.split("```")[1::2]]


def final_answer(text: str) -> str | None:
    r"""Return the stated answer of a response, or None if none is marked.

    Looked for, in this order: the last ``<answer>…</answer>``, and within it or else in the whole text the
    last JSON field ``"answer"``, the last ``\boxed{…}``, the last ``#### …``, the first ``answer is …`` or
    ``Answer: …``, in English and nine other languages. The first, because models that run on after their
    answer go on with another question.

    >>> final_answer("Half of 34 is 17. The answer is (B). Q: next …")
    '(B)'
    """
    if "</answer>" in text and (inner := text.rpartition("</answer>")[0].rpartition("<answer>"))[1]:
        return _marked(inner[2]) or inner[2].strip()
    return _marked(text)


def _marked(text: str) -> str | None:
    if '"' in text and (fields := list(_JSON_FIELD.finditer(text))):
        return _json_value(text[fields[-1].end() :])
    if "\\boxed" in text and (boxed := _last_boxed(text)) is not None:
        return boxed
    if "####" in text and (marks := _HASHES.findall(text)):
        return str(marks[-1]).strip()
    return _stated(text)


def _stated(text: str) -> str | None:
    """The rest of the first sentence with "answer is …", after the last such words in it."""
    # Lower case can differ in length from the text for a few letters, which only shifts the search.
    folded = text.lower()
    words = [word for word in _ANSWER_WORDS if word in folded]
    if not words:
        return None
    begin = end = -1
    for place in re.finditer("|".join(words), folded):
        if 0 <= end <= place.start():
            break
        said = _AFTER_ANSWER.match(text, place.end())
        if said is not None and begin < 0:
            stop = _STATED_END.search(text, said.end())
            begin, end = said.end(), stop.start() if stop else len(text)
        elif said is not None and said.end() < end:
            begin = said.end()
    return None if begin < 0 else text[begin:end].strip() or None


def _json_value(rest: str) -> str:
    """Read a JSON value, or what a model wrote in its place."""
    if rest.startswith('\\"'):  # JSON inside a JSON string
        rest = rest.replace('\\"', '"')
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(rest)
        return value.strip() if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # e.g. one backslash instead of JSON's two, or a very long number
        end = _JSON_END.search(rest)
        return (rest[: end.start()] if end else rest).removeprefix('"').strip()


def _last_boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed{")
    for brace in _BRACE.finditer(text, begin - 1):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[begin : brace.start()].strip()
    return None  # cut off inside the box


_WRAPS = (("**", "**"), ("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$"), ("`", "`"), ("*", "*"))
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
_OPENING = frozenset(left[0] for left, _ in (*_WRAPS, *_QUOTES))


def unwrap(text: str, quotes: bool = True) -> str:
    """Strip blanks, a fence, markdown and math delimiters, and quotes that enclose the whole text."""
    text = text.strip()
    if text[:1] not in _OPENING:
        return text
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        return unwrap(fenced_blocks(text)[0], quotes)
    for left, right in _WRAPS + (_QUOTES if quotes else ()):
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            if left not in inner and right not in inner:
                return unwrap(inner, quotes)
    return text
