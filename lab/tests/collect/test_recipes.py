import json
from collections import Counter

import pytest

from sigma_lab.collect.question_sets import RECIPES, build_questions
from sigma_lab.collect.releases import RELEASES
from sigma_mem.errors import InputError


def totals(recipe):
    counts = Counter()
    for part in RECIPES[recipe]:
        counts[RELEASES[part.dataset].domain] += part.size
    return counts


def test_recipes_have_the_sizes_of_the_paper():
    assert {name: totals(name).total() for name in RECIPES} == {
        "paper-train": 2963,
        "paper-cf": 2685,
        "paper-ood": 17403,
    }
    assert totals("paper-cf") == {"mathematics": 1216, "rag": 1075, "code": 394}


def test_recipes_from_the_original_files_name_what_is_missing(raw):
    sizes = {
        name: (len((built := build_questions([name], raw)).questions), built.missing) for name in RECIPES
    }
    assert sizes == {
        "paper-train": (2000, ("apps",)),
        "paper-cf": (2554, ("livecodebench",)),
        "paper-ood": (17403, ()),
    }


@pytest.fixture
def folder(tmp_path):
    """GSM8K with 1,010 records of our own."""
    (tmp_path / "gsm8k").mkdir()
    rows = [{"question": f"{n} + {n}?", "answer": f"#### {2 * n}"} for n in range(1010)]
    (tmp_path / "gsm8k" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_a_draw_depends_on_the_seed_alone(folder):
    first, again, other = (build_questions(["paper-train"], folder, seed).questions for seed in (0, 0, 1))
    assert first == again
    assert len(first) == len({question.id for question in first}) == 1000
    assert {question.id for question in first} != {question.id for question in other}
    assert [question.id for question in first] != sorted(question.id for question in first)


def test_a_release_that_is_too_small_is_refused(folder):
    file = folder / "gsm8k" / "train.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:7]))
    with pytest.raises(InputError, match="paper-train draws 1000 questions of gsm8k, which has 7 here"):
        build_questions(["paper-train"], folder)


def test_fewer_can_be_drawn_of_a_dataset_or_a_part_of_one(raw):
    sizes = {"piqa": 30, "superglue/wic": 20, "superglue/multirc": 0, "bbh": 50}
    all_of = build_questions(["paper-ood"], raw).questions
    some = build_questions(["paper-ood"], raw, sizes=sizes).questions
    counts = Counter(q.id.rsplit("/", 1)[0] if q.dataset == "superglue" else q.dataset for q in some)
    assert counts["piqa"] == 30
    assert counts["superglue/wic"] == 20
    assert "superglue/multirc" not in counts
    assert counts["bbh"] == 50
    assert counts["sciq"] == 1000
    kept = {q.id for q in some}
    assert [q for q in all_of if q.id in kept] == list(some)
    with pytest.raises(InputError, match="--size piqa=5000; expected at most 1838"):
        build_questions(["paper-ood"], raw, sizes={"piqa": 5000})
