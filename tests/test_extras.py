import json

import pytest

from sigma_mem.errors import MissingExtraError
from sigma_mem.extras import require


def test_an_installed_module_is_returned():
    assert require("json", extra="plot", purpose="a test") is json


@pytest.mark.parametrize("of", ["sigma-mem", "sigma-lab"])
def test_a_missing_one_names_what_needs_it_and_the_pip_command(of):
    given = {} if of == "sigma-mem" else {"distribution": of}
    with pytest.raises(MissingExtraError, match=rf"figures needs nowhere_to_be.*pip install '{of}\[plot\]'"):
        require("nowhere_to_be.found", extra="plot", purpose="figures", **given)
