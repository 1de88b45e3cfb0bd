"""The local solvers: what each can and cannot, and that one is a command too."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_lab.collect.answering import open_peer
from sigma_lab.collect.local import SOLVERS, solve
from sigma_lab.collect.peers import PeerSettings
from sigma_mem.errors import InputError


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("What is 17 * 23?", "391"),
        ("((-1 + 2 + 9 * 5) - (-2 + -4 + -4 * -7)) =", "24"),
        ("What is 1 / 3 of nothing, or (2 + 3) / 4?", "1.25"),
        ("not ( ( not True ) ) or False is", "True"),
        ("Make sure that the parentheses are closed properly. Input: < [ (", ") ] >"),
        ("If you follow these instructions, do you return to the starting point? Take 2 steps. Turn around. "
         "Take 2 steps.\nOptions:\n- Yes\n- No", "Yes"),
        ("If you follow these instructions, do you return to the starting point? Always face forward. "
         "Take 2 steps left. Take 2 steps backward.", "No"),
        ("Question: Ann lies. Bob says Ann lies. Cy says Bob lies. Does Cy tell the truth?", "No"),
        ("I have a cat, three dogs, and two hens. How many animals do I have?", "6"),
        ("Simplify: $-10-4(n-5)$", "10-4*n"),
        ("Solve for x: $2x + 3 = 7$", "2"),
        ("Solve: $x^2 - 5x + 6 = 0$", "2, 3"),
        ("What is 9 ** 9 ** 9 ** 9?", "I cannot compute this."),
        ("Name the capital of France.", "I cannot compute this."),
    ],
)  # fmt: skip
def test_what_can_be_computed_is_computed(prompt, answer):
    got = solve("computing", {"prompt": prompt})
    assert got.replace(" ", "") == answer.replace(" ", "")


def test_a_result_is_matched_with_the_options():
    swapped = (
        "Three have a ball each: Ann has a red ball, Bob has a blue ball, and Cy has a green ball.\n"
        "As the game goes on, they swap. First, Ann and Bob swap balls. Then, Bob and Cy swap balls. "
        "At the end of the game, Bob has the"
    )
    choices = [["A", "red ball"], ["B", "blue ball"], ["C", "green ball"]]
    assert solve("computing", {"prompt": swapped, "choices": choices}) == "The answer is (C)."
    assert solve("computing", {"prompt": "What is 2 + 2?", "choices": ["1", "5"]}) == "I cannot compute this."


@pytest.mark.parametrize("name", ["lexical", "embedding"])
def test_the_readers_prefer_what_the_question_is_about(name):
    choices = ["a guitar string", "the mitochondria that make the energy of a living cell"]
    prompt = "Which part of a living cell makes its energy?\nA. " + "\nB. ".join(choices)
    assert solve(name, {"prompt": prompt, "choices": choices}) == "The answer is (B)."
    passage = "The capital of Bolivia is Sucre.\nTrees are green.\nWhat is the capital of Bolivia?"
    assert solve(name, {"prompt": passage}) == "Sucre"


@pytest.mark.parametrize("name", ["lexical", "embedding"])
def test_entailment_is_read_from_two_lines(name):
    choices = [["yes", "yes"], ["no", "no"]]
    same = (
        "Premise: the dog barked at the old postman.\nHypothesis: the dog barked at the postman.\nEntailed?"
    )
    other = "Premise: the dog barked at the old postman.\nHypothesis: quantum fields interact.\nSo?"
    assert [solve(name, {"prompt": prompt, "choices": choices}) for prompt in (same, other)] == ["yes", "no"]


@given(
    st.sampled_from(sorted(set(SOLVERS) - {"computing"})),
    st.text(min_size=1).filter(str.strip),
    st.lists(st.text(), max_size=4),
)
def test_a_reader_always_answers(name, prompt, choices):
    assert solve(name, {"prompt": prompt, "choices": choices}).strip()


def test_a_solver_is_a_peer_and_a_command():
    question = {"id": "q", "prompt": "What is 2 + 2?", "choices": ["3", "4"]}
    (reply,) = open_peer(PeerSettings("s", "local:computing")).ask([{"input": question}])
    command = [sys.executable, "-m", "sigma_lab.collect.local", "computing"]
    done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == reply.text == "The answer is (B)."
    wrong = subprocess.run([*command[:-1], "oracle"], input="{}", capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    with pytest.raises(InputError, match="computing"):
        open_peer(PeerSettings("s", "local:oracle"))
