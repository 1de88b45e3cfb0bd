"""A local solver as a command: ``python -m sigma_lab.collect.local NAME`` reads JSON, prints an answer."""

import json
import sys

from sigma_lab.collect.local.solvers import SOLVERS, solve


def main(arguments: list[str]) -> int:
    """Answer the question on standard input; 2 where the arguments or the question are wrong."""
    if len(arguments) != 1 or arguments[0] not in SOLVERS:
        print(f"expected one of {', '.join(SOLVERS)}; got {arguments}", file=sys.stderr)
        return 2
    try:
        print(solve(arguments[0], json.loads(sys.stdin.readline())))
    except ValueError as error:
        print(f"expected a JSON line with prompt and maybe choices: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
