"""Services that run until they are killed.

One process imports everything once, then forks a service for every configuration that it reads, a JSON object
a line. It prints the service's address as soon as requests are taken; the next line that it reads has the
service killed.
"""

import json
import os
import signal
import sys
import traceback

from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.server import serve


def run(options: str, to: int) -> None:
    """Serve a memory, and tell its address."""
    config = ServerConfig(port=0, log="off", **json.loads(options))
    serve(config, lambda address: os.write(to, address.encode() + b"\n") and None)


def main() -> None:
    while options := sys.stdin.readline().strip():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                run(options, writing)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            print(pipe.readline().strip(), flush=True)
        sys.stdin.readline()
        os.kill(child, signal.SIGKILL)  # not reaped yet, so its pid is still its own
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)


if __name__ == "__main__":
    main()
