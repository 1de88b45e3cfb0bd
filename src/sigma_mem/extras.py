"""Optional dependencies: the one place that imports them."""

from importlib import import_module
from typing import Any

from sigma_mem.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str, distribution: str = "sigma-mem") -> Any:
    """Import and return an optional dependency.

    Parameters
    ----------
    module : str
        What to import, such as ``"matplotlib.figure"``.
    extra : str
        The extra that installs it.
    purpose : str
        What it is needed for; the subject of the error message.
    distribution : str
        The distribution that has this extra.

    Raises
    ------
    MissingExtraError
        If it is not installed; the message names the pip command.

    Examples
    --------
    >>> require("json", extra="plot", purpose="this example").loads("[1]")
    [1]
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package}, which cannot be imported here ({error}); "
            f"run: pip install '{distribution}[{extra}]'"
        ) from error
