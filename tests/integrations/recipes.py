"""Recipes for frameworks without an adapter; `each_alone.py` runs each with its framework."""

import pytest

from integrations.contract import EXAMPLES, last_right


@pytest.mark.parametrize("name", [file.stem for file in sorted(EXAMPLES.glob("recipe_*.py"))])
def test_the_recipe_learns(name, tmp_path):
    assert last_right(EXAMPLES / f"{name}.py", tmp_path) >= 16
