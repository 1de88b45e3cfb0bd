"""A program of the demo can neither fill the memory nor raise anything but Unsupported."""

import subprocess
import sys

import pytest

from sigma_mem.demo.interpreter import Interpreter, Unsupported

BOMBS = {
    "a text that doubles": "s = 'ab'\nwhile 1 < 2:\n    s = s + s",
    "a text that doubles in place": "s = 'ab'\nwhile 1 < 2:\n    s += s",
    "a text that is replaced by more": "s = 'aa'\nwhile 1 < 2:\n    s = s.replace('a', 'aaaa')",
    "a text times a number": "s = 'ab'\nwhile 1 < 2:\n    s = s * 2",
    "an empty piece replaced": "s = 'a' * 5000\nwhile 1 < 2:\n    s = s.replace('', s)",
    "a wide number": "print(len('%999999999d' % 5))",
    "a wide number by a star": "print(len('%*d' % [999999999, 5]))",
    "many signs": "print(" + "-" * 3000 + "1)",
    "many sums": "print(" + "1+" * 3000 + "1)",
    "many brackets": "print(" + "[" * 3000 + "]" * 3000 + ")",
    "a list that doubles": "a = [1]\nwhile 1 < 2:\n    a = a + a",
    "a list of itself": "a = []\na.append(a)\nprint(str(a)[:9])",
    "a list of itself in itself": "a = [1]\nwhile 1 < 2:\n    a.append(a)",
    "lists of the same list": "a = [1, 1]\nwhile 1 < 2:\n    a = [a, a]\n    print(str(a))",
    "an attribute by a format": "print('{0.__class__}'.format(1))",
    "a number that squares": "x = 9\nwhile 1 < 2:\n    x = x * x",
    "many lines printed": "while 1 < 2:\n    print('a' * 9999)",
}
RUN = """
import re, resource, sys
from sigma_mem.demo.interpreter import Interpreter, Unsupported
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for program in sys.stdin.read().split("\\0"):
    try:
        Interpreter().run(program)
    except Unsupported:
        pass
# A process counts in ru_maxrss what its parent had when it was started; this begins with its own program.
print(int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.parametrize("program", BOMBS.values(), ids=BOMBS)
def test_a_program_that_would_grow_is_given_up(program: str) -> None:
    with pytest.raises(Unsupported):
        Interpreter().run(program)


def test_they_take_little_memory() -> None:
    said = subprocess.run(
        [sys.executable, "-c", RUN],
        input="\0".join(BOMBS.values()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(said.stdout) < 400


def test_what_was_printed_before_is_kept() -> None:
    interpreter = Interpreter()
    with pytest.raises(Unsupported):
        interpreter.run("print('first')\n" + BOMBS["a text that doubles"])
    assert interpreter.printed == ["first"]
