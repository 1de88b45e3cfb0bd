"""AsyncSigmaMem has every public name of SigmaMem, with the same parameters."""

import asyncio
import inspect

import numpy as np
import pytest

from sigma_mem import AsyncSigmaMem, SigmaMem
from sigma_mem.errors import InputError

PUBLIC = [name for name in dir(SigmaMem) if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_with_the_same_parameters(name):
    mine, theirs = getattr(AsyncSigmaMem, name), getattr(SigmaMem, name)
    assert mine.__doc__ == theirs.__doc__
    if isinstance(theirs, property):
        assert isinstance(mine, property)
    else:
        assert inspect.iscoroutinefunction(mine)
        assert inspect.signature(mine).parameters == inspect.signature(theirs).parameters


def test_no_signature_hides_its_parameters():
    for owner in (SigmaMem, AsyncSigmaMem):
        for name in PUBLIC:
            if callable(member := getattr(owner, name)):
                kinds = {p.kind for p in inspect.signature(member).parameters.values()}
                assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}, name


def test_calls_reach_the_memory():
    async def main():
        async with AsyncSigmaMem(SigmaMem(["a", "b"], rank=2)) as mem:
            decisions = await asyncio.gather(*(mem.route(phi=np.eye(2)[0]) for _ in range(8)))
            assert len({d.id for d in decisions}) == mem.events == 8
            other = await mem.namespace("other", ["c"], rank=3)
            assert isinstance(other, AsyncSigmaMem)
            return mem.peers, other.peers, other.rank, mem.settings == other.settings

    assert asyncio.run(main()) == (("a", "b"), ("c",), 3, True)


def test_what_is_no_memory_is_refused():
    with pytest.raises(InputError, match=r"expected AsyncSigmaMem\(SigmaMem"):
        AsyncSigmaMem(["a", "b"])
