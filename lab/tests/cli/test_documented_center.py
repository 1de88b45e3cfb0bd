"""The commands for the paper's tables need weights and a GPU; here at least their options are real."""

import re
from pathlib import Path

import pytest
from typer.main import get_group

from sigma_lab.cli.bench import app as bench
from sigma_lab.cli.train import app as train
from sigma_mem.cli.center import app as center

PAGE = Path(__file__).parents[3] / "docs" / "lab" / "center.md"
TEXT = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
BLOCKS = "".join(re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
LINES = re.findall(r"sigma-mem (bench|center|train) ([\w-]+)([^;#\n]*)", BLOCKS)
GROUPS = {"bench": get_group(bench), "center": get_group(center), "train": get_group(train)}


@pytest.mark.parametrize(("group", "command", "rest"), LINES)
def test_every_option_of_the_page_exists(group: str, command: str, rest: str) -> None:
    known = {name for option in GROUPS[group].commands[command].params for name in option.opts}
    assert set(re.findall(r"--[a-z-]+", rest)) <= known


def test_every_table_of_the_paper_has_its_command() -> None:
    asked = {command for group, command, rest in LINES if group == "bench" and "--steering" in rest}
    assert asked == {"cf", "mechanisms", "feedback"}
    for name in ("Qwen3-0.6B", "Qwen3-4B", "Qwen3-8B", "Qwen3.5-4B", "Qwen3.5-9B"):
        assert f"Qwen/{name}" in BLOCKS
