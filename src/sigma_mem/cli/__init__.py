"""The command line: ``sigma-mem``, one file per command or group of commands.

`app` puts the commands together and turns errors into exit codes. Commands on a memory follow from the table
of operations (`options.takes`). The service, the demo and the center are imported when their commands run.
"""

from sigma_mem.cli.app import main

__all__ = ["main"]
