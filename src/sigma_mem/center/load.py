"""Load a causal LM as center: by hub name, by local path, or the small default."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigma_mem.center.errors import CenterError
from sigma_mem.center.pull import bars_on_terminals_only, pull_default
from sigma_mem.errors import InputError

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
    """Sixteen hex digits that tell one set of weights from another, whatever precision it is loaded in."""
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
