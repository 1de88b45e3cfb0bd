"""The command line: ``sigma-mem``, one file per command.

`app` mounts the commands and turns errors into exit codes; a command's file, and all that it
needs, is imported when that command is run.
"""

from sigma_mem.cli.app import main

__all__ = ["main"]
