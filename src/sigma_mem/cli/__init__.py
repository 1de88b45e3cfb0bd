"""The command line: ``sigma-mem``, one file per command or group of commands.

`app` puts the commands together and turns errors into exit codes; a command imports what it needs when it
runs.
"""

from sigma_mem.cli.app import main

__all__ = ["main"]
