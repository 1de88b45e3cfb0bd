import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_lab.collect.graders import GRADERS, stated_answer
from sigma_lab.collect.questions import Question, Reference

YES_NO = (("yes", "yes"), ("no", "no"))
COLOURS = (("A", "Dark red"), ("B", "Blue"), ("C", "A grey one"), ("D", "C"))
RTE = (("entailment", "entailment"), ("not_entailment", "not_entailment"))


def asked(grader, *answers, choices=()):
    return Question("q", "d", "x", "", "test", "p", "c", grader, Reference(answers), choices)


def grade(grader, answer, text, choices=()):
    return GRADERS[grader](asked(grader, answer, choices=choices), text)


@pytest.mark.parametrize(
    ("grader", "answer", "choices", "text", "right", "canon"),
    [
        ("number", "1,000", (), "2 and 3.\nAnswer: 1000 apples in 3 bags", True, "1000"),
        ("number", "36", (), "It is 12 * 3 = 36.", True, "36"),
        ("number", "36", (), "**Answer:** 36\n\nQuestion: What is 1 + 1?\nAnswer: 2", True, "36"),
        ("number", "36", (), "no idea", False, None),
        ("choice", "B", COLOURS, "Answer: (B)", True, "B"),
        ("choice", "B", COLOURS, "I first thought A. No.\nAnswer: B. Blue", True, "B"),
        ("choice", "B", COLOURS, "blue", True, "B"),
        ("choice", "C", COLOURS, "Answer: A grey one", True, "C"),
        ("choice", "C", COLOURS, "Answer: C", True, "C"),  # a letter is a label before it is a text
        ("choice", "A", COLOURS, "Answer: Z", False, None),
        ("choice", "A", COLOURS, "", False, None),
        ("label", "no", YES_NO, "Yes, one could say yes.\nAnswer: No.", True, "no"),
        ("label", "yes", YES_NO, "That is true", True, "yes"),
        ("label", "yes", YES_NO, "yes or no, who knows", False, None),
        ("label", "not_entailment", RTE, "Answer: not entailment", True, "not_entailment"),
        ("label", "entailment", RTE, "Answer: not_entailment", False, "not_entailment"),
        ("label", "valid", (("valid", ""), ("invalid", "")), "The argument is invalid.", False, "invalid"),
        ("span", "the St. Denis", (), "Answer: St Denis", True, "st denis"),
        ("span", "Paris", (), "It is Paris", False, "it is paris"),
        ("words", "apple pear", (), "Answer: apple, pear", True, "apple pear"),
        ("words", "apple pear", (), "Answer: pear apple", False, "pear apple"),
        ("brackets", "] >", (), "Answer: ]>", True, "] >"),
        ("brackets", "] >", (), "Answer: ] ) >", False, "] ) >"),
    ],
)
def test_a_response_is_read_and_graded(grader, answer, choices, text, right, canon):
    found = grade(grader, answer, text, choices)
    assert (found.right, found.canon) == (right, canon)


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        (r"\frac{3}{4}", r"so $\boxed{0.75}$", True),
        (r"$x=\frac{1}{2}$", r"\boxed{1/2}", True),
        ("$10-4 n$", r"\boxed{-4n + 10}", True),
        ("3, -3", r"\boxed{-3, 3}", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"Answer: $(3, \pi/2)$", True),
        ("no solution", r"\boxed{\text{No solution}}", True),
        ("no solution", r"\boxed{0}", False),
        (r"\frac{3}{4}", r"\boxed{\frac{4}{3}}", False),
        (r"(0, 1)", r"\boxed{(1, 0)}", False),
        (r"$90^{\circ}$,$60^{\circ}$", r"\boxed{60^\circ, 90^\circ}", True),
        (r"$\min$ at $x=-1, \max$ at $x=1$", r"\boxed{1}", False),
        (r"$\min$ at $x=-1, \max$ at $x=1$", r"\boxed{$\min$ at $x=-1, \max$ at $x=1$}", True),
        ("5", "", False),
    ],
)
def test_mathematics(answer, text, right):
    assert grade("math", answer, text).right is right


def test_every_alias_is_accepted():
    question = asked("span", "Mark Twain", "Samuel Clemens")
    for text in ("Answer: samuel clemens", "Mark Twain."):
        assert GRADERS["span"](question, text).right
    wrong = GRADERS["span"](question, "Answer: Mark Antony")
    assert (wrong.right, wrong.contained) == (False, False)


@given(text=st.text(max_size=200), choices=st.sampled_from([(), COLOURS, YES_NO]))
@pytest.mark.parametrize("grader", [name for name in GRADERS if name != "math"])
def test_no_response_breaks_a_grader(grader, text, choices):
    labels = choices or (("7", "7"),)
    found = GRADERS[grader](asked(grader, labels[0][0], choices=labels), text)
    assert not found.right or found.canon is not None


def test_an_answer_among_other_words_is_told_apart_and_nonsense_is_not():
    question = asked("span", "Mark Twain", "I")
    found = GRADERS["span"](question, "Answer: It was Mark Twain, in 1884")
    assert (found.right, found.contained) == (False, True)
    for nonsense in ("I cannot compute this.", "Answer: the mark twains", "Answer: Mark and Twain"):
        found = GRADERS["span"](question, nonsense)
        assert (found.right, found.contained) == (False, False)


def test_a_box_comes_before_a_line():
    assert stated_answer("Answer: maybe 4\nso \\boxed{5}") == "5"
