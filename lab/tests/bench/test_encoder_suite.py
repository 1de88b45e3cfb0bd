"""The everyday prompts, and what is measured on them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from sigma_lab.bench.experiments.encoder import RAW, encoder_table, measured
from sigma_lab.bench.prompts import LANGUAGES, Prompt, everyday_prompts
from sigma_mem.cli.app import run
from sigma_mem.encode import open_encoder

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
