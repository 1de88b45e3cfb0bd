"""The everyday prompts, and what is measured on them."""

import json
from collections import Counter

import numpy as np
import pytest

from sigma_lab.bench.experiments.encoder import (
    LANGUAGES,
    RAW,
    Prompt,
    encoder_table,
    everyday_prompts,
    kept_routes,
    measured,
)
from sigma_mem.cli.app import run
from sigma_mem.encode import open_encoder
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, save_stream

PARTS = ("English", "European", "Asian", "English, later", "European, later", "Asian, later")


def test_every_kind_has_prompts_in_every_language() -> None:
    prompts = everyday_prompts()
    assert len({(p.language, p.text) for p in prompts}) == len(prompts) >= 400
    first = Counter((p.kind, p.language) for p in prompts if not p.later)
    kinds, languages = {p.kind for p in prompts}, sum(LANGUAGES.values(), ())
    assert all(first[kind, language] >= 1 for kind in kinds for language in languages)
    assert all(p.translates is not None for p in prompts if p.language != "en" and not p.later)


def test_shares_are_those_that_a_hand_counts() -> None:
    prompts = [
        Prompt(kind, language, "", later)
        for later in (False, True)
        for language in ("en", "de", "zh")
        for kind in ("a", "a", "b", "b")
    ]
    perfect = np.array([[1.0, 0.0] if p.kind == "a" else [0.0, 1.0] for p in prompts])
    found = measured(perfect, prompts)
    assert tuple(found) == PARTS
    assert all((s.nearer, s.first, s.nearest) == (1.0, 1.0, 1.0) for s in found.values())
    swapped = perfect.copy()
    german = [i for i, p in enumerate(prompts) if p.language == "de" and not p.later]
    swapped[german] = 1.0 - swapped[german]
    found = measured(swapped, prompts)
    assert (found["European"].nearer, found["European"].first, found["European"].nearest) == (0.0, 0.0, 0.0)
    assert found["Asian"].first == 1.0


def test_the_default_is_above_the_raw_vectors_in_every_part() -> None:
    pytest.importorskip("wordllama")
    shares = encoder_table({"static": open_encoder("static")}).values["encoders"]
    for part in PARTS:
        ours, raw = shares["static"][part], shares[RAW][part]
        assert all(ours[share] > raw[share] for share in ("nearer", "first", "nearest"))


def test_the_command_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "encoder", "--encoders", "hashed", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert set(values["encoders"]) == {RAW, "hashed"}
    assert values["encoders"]["hashed"]["English"]["prompts"] == 176


def two_kinds() -> Stream:
    """One peer knows sums, the other one capitals."""
    events = []
    for i in range(60):
        capital = i % 2 == 1
        question = f"What is the capital of country {i}?" if capital else f"Add the numbers {i} and {i + 7}."
        correct = {"sums": -1.0 if capital else 1.0, "capitals": 1.0 if capital else -1.0}
        events.append(Event(str(i), question, {peer: Answer("", None) for peer in correct}, correct))
    return Stream("kinds", ("sums", "capitals"), tuple(events))


def test_a_question_in_other_words_goes_to_the_same_peer() -> None:
    encoder = open_encoder("static")
    pairs = [
        ("Add the numbers 4 and 9.", "Numbers to add: 4, 9"),
        ("What is the capital of Peru?", "Peru's capital?"),
    ]
    kept = kept_routes(encoder, pairs, two_kinds())
    assert (kept.same, kept.by_chance, kept.peers, kept.differ) == (1.0, 0.5, 2, 1.0)
    swapped = kept_routes(encoder, [(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1])], two_kinds())
    assert swapped.same == 0.0


def test_paraphrases_on_the_command_line(tmp_path, capsys) -> None:
    stream, pairs = tmp_path / "kinds.jsonl", tmp_path / "pairs.jsonl"
    save_stream(two_kinds(), stream)
    pairs.write_text(json.dumps({"original": "Add 1 and 2.", "paraphrase": "Sum of 1 and 2"}))
    command = ["bench", "encoder", "--encoders", "static", "--paraphrases", str(pairs)]
    assert run([*command, "--learn", str(stream), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["encoders"]["static"]["pairs"] == 1
    assert run(command) == 2
    assert "both or neither" in capsys.readouterr().err
