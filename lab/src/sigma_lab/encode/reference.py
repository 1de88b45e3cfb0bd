"""The reference prompts on which the default encoder is fitted: our own, labelled by subject.

Sixty subjects, each a list of phrases in ``data/subjects.txt``, are put into the forms that questions take
(multiple choice, open, numeric, a passage, a case, a chat request), and three kinds of tasks are generated
as well (word problems, competition mathematics, code). No benchmark's questions are among them. The
same seed gives the same prompts.
"""

import random
from functools import cache
from importlib import resources

_QUANTITATIVE = (
    "mechan", "electro", "optics", "thermo", "modern ph", "chemistry", "finance", "account",
    "electrical", "statis", "astron", "economics", "econometrics",
)  # fmt: skip


def subjects() -> dict[str, list[str]]:
    """Every subject with its phrases."""
    text = resources.files(__package__).joinpath("data/subjects.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ", 1) for line in text.splitlines() if line)
    return {name: [phrase.strip() for phrase in phrases.split(";")] for name, phrases in pairs}


def prompts(per_subject: int = 250, seed: int = 1) -> tuple[list[str], list[str]]:
    """Texts, and the subject of each."""
    rng = random.Random(seed)
    known = subjects()
    everything = [phrase for phrases in known.values() for phrase in phrases]
    texts: list[str] = []
    labels: list[str] = []
    for subject, phrases in known.items():
        texts += [_prompt(rng, subject, phrases, everything, i) for i in range(per_subject)]
        labels += [subject] * per_subject
    for kind, make in (("word problem", word_problem), ("competition", competition), ("code", code_task)):
        texts += [make(rng) for _ in range(2 * per_subject)]
        labels += [kind] * (2 * per_subject)
    return texts, labels


def _prompt(rng: random.Random, subject: str, phrases: list[str], everything: list[str], i: int) -> str:
    if subject == "word problems":
        return word_problem(rng)
    if subject in ("algebra", "geometry", "number theory"):
        return competition(rng) if i % 2 else numeric(rng, subject, phrases)
    if subject == "python programming":
        return code_task(rng)
    if subject == "chat requests":
        return chat(rng, phrases, everything)
    counts = any(part in subject for part in _QUANTITATIVE)
    return rng.choice([*_FORMS, *[numeric] * 4] if counts else _FORMS)(rng, subject, phrases)


@cache
def templates(section: str) -> tuple[str, ...]:
    """The entries of one section of ``data/templates.txt``: "=== name", then entries parted by "--"."""
    text = resources.files(__package__).joinpath("data/templates.txt").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in text.removeprefix("=== ").split("\n=== "))
    return tuple(sections[section].removesuffix("\n").split("\n--\n"))


# --- forms: phrases of a subject to a text ---


def _number(rng: random.Random) -> str:
    whole = [str(rng.randint(2, 99)), str(rng.randint(100, 5000))]
    decimal = [f"{rng.uniform(0, 10):.2f}", f"{rng.uniform(0, 100):.1f}"]
    return rng.choice([*whole, *decimal, f"{rng.uniform(1, 9):.1f} x 10^{rng.randint(-9, 9)}"])


def _lettered(choices: list[str]) -> str:
    return "\n" + "\n".join(f"{chr(65 + i)}. {choice}" for i, choice in enumerate(choices))


def _three(rng: random.Random, phrases: list[str]) -> dict[str, str]:
    return dict(zip("abc", rng.sample(phrases, 3), strict=True))


def open_question(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A question to be answered in words."""
    return rng.choice(templates("stem")).format(s=subject, **_three(rng, phrases))


def multiple_choice(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A question with four to ten lettered choices."""
    n = rng.choice([4, 4, 5, 10, 10])
    if rng.random() < 0.3:
        unit = rng.choice(templates("unit"))
        choices = [f"{_number(rng)} {unit}" for _ in range(n)]
    else:
        choices = [rng.choice(templates("choice")).format(**_three(rng, phrases)) for _ in range(n)]
    return open_question(rng, subject, phrases) + _lettered(choices)


def numeric(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A calculation with units."""
    u, v = rng.sample(templates("unit"), 2)
    text = rng.choice(templates("numeric")).format(
        n=_number(rng), m=_number(rng), u=u, v=v, k=rng.randint(2, 60), **_three(rng, phrases)
    )
    if rng.random() < 0.6:
        text += _lettered([f"{_number(rng)} {u}" for _ in range(rng.choice([4, 5, 10]))])
    return text


def passage(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A short passage, then a question about it."""
    sentences = (
        rng.choice(templates("sentence")).format(s=subject, y=rng.randint(1700, 2020), **_three(rng, phrases))
        for _ in range(rng.randint(2, 5))
    )
    text = " ".join(sentences)
    if rng.random() < 0.6:
        return f"{text}\n\nQuestion: {open_question(rng, subject, phrases)}"
    asked = multiple_choice(rng, subject, phrases)
    return f'This question refers to the following information.\n"{text}"\n{asked}'


def case(rng: random.Random, subject: str, phrases: list[str]) -> str:
    """A case to be judged, as in law or medicine."""
    n, m = rng.sample(templates("name"), 2)
    text = rng.choice(templates("case")).format(n=n, m=m, k=rng.randint(5, 80), **_three(rng, phrases))
    if rng.random() < 0.6:
        verdicts = ("No, because {} is required.", "Yes, because of {}.")
        k = rng.choice([4, 8, 10])
        text += _lettered([verdicts[i % 2].format(rng.choice(phrases)) for i in range(k)])
    return text


def chat(rng: random.Random, phrases: list[str], everything: list[str]) -> str:
    """A request to an assistant, about anything."""
    sources = templates("chat"), phrases, everything, templates("name")
    text, a, b, n = (rng.choice(source) for source in sources)
    return text.format(a=a, b=b, n=n, k=rng.randint(2, 200), l=rng.choice(templates("language")))


_FORMS = (multiple_choice, multiple_choice, open_question, passage, case)


# --- tasks that phrases cannot imitate ---


def _numbers(rng: random.Random, high: int) -> dict[str, int]:
    out = {letter: rng.randint(2, high) for letter in "abcd"}
    return out | {"p": out["a"] * out["b"]}


def word_problem(rng: random.Random) -> str:
    """Arithmetic told as a story."""
    (n, m), (t, u) = rng.sample(templates("name"), 2), rng.sample(templates("thing"), 2)
    return rng.choice(templates("word problem")).format(n=n, m=m, t=t, u=u, **_numbers(rng, 60))


def competition(rng: random.Random) -> str:
    """Competition mathematics in LaTeX."""
    return rng.choice(templates("competition")).format(**_numbers(rng, 30))


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(2, 7)))


def code_body(rng: random.Random) -> str:
    """A small Python function."""
    name = rng.choice(["text", "nums", "items", "data", "s", "values", "array", "string", "d"])
    body = rng.choice(templates("code body"))
    body = body.format(v=name, w=_word(rng), a=rng.randint(0, 9), b=rng.randint(2, 9))
    return f"def f({name}):\n{body}"


def code_task(rng: random.Random) -> str:
    """A small Python function, and what to do with it."""
    function = code_body(rng)
    arguments = [
        f"'{_word(rng)} {_word(rng)}'",
        str([rng.randint(-9, 99) for _ in range(rng.randint(3, 8))]),
        str({_word(rng): rng.randint(0, 20) for _ in range(3)}),
        f"'{_word(rng)}', {rng.randint(0, 9)}",
    ]
    argument = rng.choice(arguments)
    return rng.choice(templates("code")).format(f=function, x=argument)
