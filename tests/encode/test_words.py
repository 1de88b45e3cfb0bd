"""Words as features: rows of norm 1 over stems that were seen, without keeping any text."""

from __future__ import annotations

import numpy as np
import pytest

from sigma_mem.encode.words import Words, stems

TEXTS = ["The court ruled on the contract.", "A court of law", "An integral over 3 and 14", "integrals, 7"]


def test_inflections_numbers_and_signs_share_stems() -> None:
    assert stems("Integrals INTEGRATED") == ["integr", "integr"]
    assert stems("17 * 2300") == ["0", "*", "0"]
    assert stems("naïve_x $\\frac{1}{2}$")[:3] == ["naïve", "_", "x"]
    assert stems("") == []
    assert len(stems("word " * 10_000)) < 2_000  # a long text is cut


def test_rows_have_norm_one_and_rare_stems_weigh_more() -> None:
    words = Words.of(TEXTS, least=1)
    places, values = words.row("court ruled")
    assert np.linalg.norm(values) == pytest.approx(1.0)
    weight = dict(zip(words.keys[places].tolist(), values.tolist(), strict=True))
    court, ruled = (float(Words.of([name], least=1).keys[0]) for name in ("court", "ruled"))
    assert weight[ruled] > weight[court]


def test_stems_seen_once_or_never_count_nothing() -> None:
    words = Words.of(TEXTS, least=2)
    table = np.ones((len(words.keys), 3))
    assert not words.dot(["contract zebra", ""], table).any()
    assert words.dot(["the court"], table).all()


def test_a_table_is_its_arrays() -> None:
    words = Words.of(TEXTS, least=1)
    again = Words(words.keys, words.idf)
    table = np.random.default_rng(0).normal(size=(len(words.keys), 4))
    assert np.array_equal(again.dot(TEXTS, table), words.dot(TEXTS, table))
    assert np.array_equal(words.dot(TEXTS[:1], table), words.dot(TEXTS, table)[:1])
