"""An OpenAI-compatible server that answers at once: what a call costs beyond it is the proxy's.

``python benchmarks/instant_upstream.py`` prints its port and serves until it is ended.
"""

import asyncio
import json

_BODY = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "instant",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "391"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13},
    }
).encode()
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY) + _BODY
)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), b":0")
            await reader.readexactly(int(length.partition(b":")[2]))
            writer.write(_ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_instantly() -> None:
    """Listen on a free port of loopback and print it."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve_instantly())
