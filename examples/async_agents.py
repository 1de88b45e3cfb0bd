"""Several tasks at once with asyncio: answers come when they come, feedback comes later still."""

import asyncio

from sigma_mem import AsyncSigmaMem, SigmaMem


async def ask(peer: str, number: int) -> str:
    """A stand-in for a call to a model: the careless one forgets to carry."""
    await asyncio.sleep(0.001)
    return str(number * 7 if peer == "careful" else number * 7 % 10)


async def solve(mem: AsyncSigmaMem, number: int) -> bool:
    peers = ("careful", "careless")
    answers = dict(zip(peers, await asyncio.gather(*(ask(peer, number) for peer in peers)), strict=True))
    d = await mem.decide(f"What is {number} times 7?", answers)
    await mem.feedback(d.id, {peer: answers[peer] == str(number * 7) for peer in peers})
    return d.answer == str(number * 7)


async def main() -> None:
    async with AsyncSigmaMem(SigmaMem(peers=["careless", "careful"])) as mem:
        results = []
        for start in range(0, 60, 10):
            results += await asyncio.gather(*(solve(mem, n) for n in range(start, start + 10)))
        print(f"{sum(results)} of {len(results)} right; the last 30: {sum(results[-30:])}")


asyncio.run(main())
