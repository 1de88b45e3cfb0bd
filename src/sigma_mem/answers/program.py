"""Source code: comments, trailing white space and blank lines do not matter, indentation does."""

import re
from textwrap import dedent

from sigma_mem.answers.stated import fenced_blocks

# A string that does not end counts to the end of the text or line, so that every match succeeds at once.
# Groups are not possessive, (?:…)*+: Python below 3.11.5 matches such groups wrongly.
STRING = (
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*(?:"""|\\?\Z)'
    r"|'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*(?:'''|\\?\Z)"
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
)


def _scanner(comment: str) -> re.Pattern[str]:
    """Finds strings, and the ends of lines: blanks, a comment, blank lines and lines of comments alone."""
    return re.compile(
        rf"(?P<string>{STRING})|(?<![ \t])(?:[ \t]*+(?:{comment})?\n)+|(?:{comment})[ \t]*+", re.DOTALL
    )


_HASH = _scanner(r"(?<!\S)#[^\n]*+")
_SLASH = _scanner(r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)")
_PYTHON = re.compile(
    r"^[ \t]*+(?:def|class|for|while|if|elif|else|with|try)\b[^\n]*:[ \t]*+(?:#|$)", re.MULTILINE
)
_BRACES = re.compile(r";[ \t]*+(?://|/\*|$)|[)>][ \t]*+\{|^[ \t]*+(?:#include|//|/\*)", re.MULTILINE)
_STARTS = re.compile(
    r"^(?:(?:async )?def \w+\(|class \w+[:({ ]|(?:for|while|if|with) [^\n]*:\n[ \t]"
    r"|from [\w.]+ import |import [\w.]+$|#include|function \w*\(|fn \w+|public (?:static|class) "
    r"|(?:const|let|var) \w+ =)",
    re.MULTILINE,
)


def canonical_program(text: str) -> str | None:
    r"""Return the source code of a response, from its longest fenced block or else the whole text.

    Comments are those of Python and the shell, or of C and its relatives where the code looks like them.

    >>> canonical_program("```python\nx = 1  # one\n\n\nif x:\n    y = 2 \n```")
    'x = 1\nif x:\n    y = 2'
    """
    code = max(fenced_blocks(text), key=len, default=text)
    code = code.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    slashes = _PYTHON.search(code) is None and _BRACES.search(code) is not None
    bare = (_SLASH if slashes else _HASH).sub(_without_comment, code)
    return dedent(bare.strip("\n")).rstrip() or None


def _without_comment(found: re.Match[str]) -> str:
    return found["string"] or ("\n" if found[0].endswith("\n") else "")


def starts_program(text: str) -> bool:
    """Whether some line of a text with several lines begins a function, a class, a loop or an import."""
    return "\n" in text and _STARTS.search(text) is not None
