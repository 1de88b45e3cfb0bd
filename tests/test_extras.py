import json

import pytest

from sigma_mem.errors import MissingExtraError
from sigma_mem.extras import require


def test_an_installed_module_is_returned():
    assert require("json", extra="plot", purpose="a test") is json


def test_an_extra_of_another_distribution_is_named_so():
    with pytest.raises(MissingExtraError, match=r"pip install 'sigma-lab\[rivals\]'"):
        require("nowhere_to_be.found", extra="rivals", purpose="a rival", distribution="sigma-lab")


def test_a_missing_one_names_what_needs_it_and_the_pip_command():
    with pytest.raises(
        MissingExtraError, match=r"figures needs nowhere_to_be.*pip install 'sigma-mem\[plot\]'"
    ):
        require("nowhere_to_be.found", extra="plot", purpose="figures")
