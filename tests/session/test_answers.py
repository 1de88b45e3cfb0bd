"""How a session takes answers and questions: canon by name or function, chat messages."""

import asyncio
from functools import partial

import numpy as np
import pytest

from sigma_mem import Answer, AsyncSigmaMem, SigmaMem
from sigma_mem.answers.canon import KINDS
from sigma_mem.errors import InputError

PHI = [1.0]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 17 * 23?"}]


class Judge:
    """A center that trusts the first answer."""

    def judge(self, question, answers, readouts):
        self.question = question
        self.utility = np.arange(len(answers), 0.0, -1.0)
        self.yes_no_mass = np.ones(len(answers))
        return self


def memory(**more):
    return SigmaMem(["ann", "bob", "eve"], rank=1, **more)


def reads(mem):
    """Every method that takes answers, with the parameters that they share."""
    return (mem.vote, partial(mem.decide, read="select"), mem.decide)


@pytest.mark.parametrize("kind", KINDS)
def test_every_canon_works_by_name(kind):
    mem = memory(center=Judge())
    for read in reads(mem):
        d = read("q", {"ann": "5", "bob": " 5\n", "eve": "[6]"}, phi=PHI, canon=kind)
        assert d.canons["ann"] == d.canons["bob"]


def test_a_name_decides_what_is_equal():
    mem, answers = memory(), {"ann": '{"a": 1, "b": 2}', "bob": '{"b": 2, "a": 1}', "eve": "{}"}
    assert mem.vote("q", answers, phi=PHI, canon="json").answer == answers["ann"]
    indented = {"ann": "if x:\n  a\nb", "bob": "if x:\n  a\n  b", "eve": "if x:\n  a\n  b # and so on"}
    d = mem.decide("q", indented, phi=PHI, canon="program")
    assert d.peer == "bob"
    assert d.canons["ann"] != d.canons["bob"] == d.canons["eve"]


def test_a_function_decides_what_is_equal():
    d = memory().vote("q", {"ann": "a", "bob": "bb", "eve": "cc"}, phi=PHI, canon=lambda text: str(len(text)))
    assert d.canons == {"ann": "1", "bob": "2", "eve": "2"}
    assert d.peer == "bob"


@pytest.mark.parametrize("wrong", ["essay", None, 5, ""])
def test_another_name_is_an_error_that_lists_the_names(wrong):
    mem = memory(center=Judge())
    for read in reads(mem):
        with pytest.raises(InputError, match=f"canon is {wrong!r}; expected one of auto, .*json.*program"):
            read("q", {"ann": "5"}, phi=PHI, canon=wrong)
    assert mem.events == 0


def raises(text):
    return {}[text]


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (raises, KeyError, "5"),
        (len, InputError, "'bob' is 1; expected a str"),
        (str.encode, InputError, "b'5'"),
    ],
)
def test_if_a_function_fails_nothing_is_recorded(wrong, error, said):
    mem = memory(center=Judge())
    for read in reads(mem):
        with pytest.raises(error, match=said):
            read("q", {"ann": None, "bob": "5"}, phi=PHI, canon=wrong)
    assert mem.events == 0
    assert list(mem.store.records("default", after=1)) == []


@pytest.mark.parametrize("wrong", [5, Answer(5, "5"), Answer("5", 5)])
def test_what_is_no_answer_is_named_with_the_peer(wrong):
    with pytest.raises(InputError, match="of peer 'bob' is"):
        memory().vote("q", {"ann": "5", "bob": wrong}, phi=PHI)


def test_chat_messages_are_the_question_that_they_say():
    center = Judge()
    mem = SigmaMem(["ann", "bob"], encoder="hashed", center=center)
    text, answers = "What is 17 * 23?", {"ann": "391", "bob": "381"}
    for decision in (mem.route(CHAT), *(read(CHAT, answers) for read in reads(mem))):
        assert decision.question == text
        assert np.array_equal(decision.phi, mem.decider.encode(text))
    assert center.question == text
    assert mem.vote(CHAT, answers).features == mem.vote(text, answers).features
    with pytest.raises(InputError, match="images are not read"):
        mem.route([{"role": "user", "content": [{"type": "image"}]}])
    assert mem.events == 6


def test_all_of_it_with_await():
    async def main():
        async with AsyncSigmaMem(memory()) as mem:
            d = await mem.vote(CHAT, {"ann": "{'a': 1}", "bob": '{"a":1}'}, phi=PHI, canon="json")
            return d.question, set(d.canons.values())

    assert asyncio.run(main()) == ("What is 17 * 23?", {'{"a": 1}'})
