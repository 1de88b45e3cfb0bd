"""Hostile programs harm nothing: each is run, and then a good one must still run."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sigma_lab.collect import sandbox as module
from sigma_lab.collect.sandbox import Limits, SandboxError, check_isolation, run_isolated

pytestmark = pytest.mark.usefixtures("isolated")
SMALL = Limits(cpu=1, wall=5, memory=256 << 20, processes=8, files=8 << 20, output=1 << 20)


def run(code, stdin="", limits=SMALL):
    return run_isolated({"main.py": code}, "main.py", stdin, limits)


def test_a_program_reads_and_writes():
    result = run("print(input() + '!'); open('own', 'w').write('x'); open('/tmp/own', 'w').write('y')", "hé")
    assert (result.status, result.code, result.stdout, result.failure) == ("ended", 0, "hé!\n", "")


def test_an_error_is_told():
    result = run("print('a'); 1 / 0")
    assert (result.code, result.stdout, result.failure) == (1, "a\n", "ZeroDivisionError: division by zero")


BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"


@pytest.mark.parametrize("code", [BOMB, "while True: pass", "import time; time.sleep(1000)"])
def test_what_never_ends_is_ended(code):
    assert run(code).failure == "over its limit of time"


def test_threads_count_too():
    start = "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    code = f"import threading, time\nfor _ in range(50): {start}"
    assert "can't start new thread" in run(code).stderr


def test_endless_output():
    result = run("while True: print('x' * 1000)")
    assert (result.status, len(result.stdout)) == ("output", SMALL.output)


def test_endless_errors_are_not_kept():
    assert len(run("import sys\nfor _ in range(9999): sys.stderr.write('x' * 1000)").stderr) <= 2000


SLOW = replace(SMALL, cpu=20, wall=60)  # a busy machine may take more than a second to fill the memory


def test_memory_of_one_process():
    assert "MemoryError" in run("x = [bytearray(10**7) for _ in range(100)]", limits=SLOW).stderr


MANY = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(b'x' * (100 << 20)); time.sleep(60)"


@pytest.fixture(params=[True, False])
def group(request, monkeypatch):
    """Whether control groups may be used."""
    if not request.param:
        monkeypatch.setattr(module, "_VERSIONS", {})
    return request.param


def test_memory_of_many_processes_with_and_without_a_control_group(group):
    assert run(MANY, limits=SLOW).failure == "over its limit of memory"
    assert ("by a control group" in check_isolation(SMALL)) <= group


# Each process fills shared pages and drops its own view of them: they stay, in nobody's resident size.
HIDDEN = """
import mmap, os, time
def hold(flags):
    m = mmap.mmap(-1, 60 << 20, flags=flags)
    for i in range(60):
        m[i << 20:(i + 1) << 20] = b"x" * (1 << 20)
        m.madvise(mmap.MADV_DONTNEED, i << 20, 1 << 20)
    return m
for _ in range(6):
    if os.fork() == 0:
        m = hold(mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        time.sleep(3)
        os._exit(m[0] != 120)
print(sum(os.wait()[1] == 0 for _ in range(6)), "held 60 MB")
"""


@pytest.mark.usefixtures("group")
def test_memory_that_nobody_maps_is_bounded_too():
    found = run(HIDDEN, limits=replace(SLOW, memory=96 << 20))
    assert found.stdout in ("", "0 held 60 MB\n")


def test_a_control_group_bounds_what_no_look_sees(monkeypatch, tmp_path):
    """Without the refused system call the group alone ends the program; skipped if we may not make one."""
    if "by a control group" not in check_isolation(SMALL):
        pytest.skip("this process may not make a control group")
    script = module._JAIL.read_text(encoding="utf-8")
    assert script.count("        _deny_calls()\n") == 1
    (tmp_path / "jail.py").write_text(script.replace("        _deny_calls()\n", ""), encoding="utf-8")
    monkeypatch.setattr(module, "_JAIL", tmp_path / "jail.py")
    found = run(HIDDEN, limits=replace(SLOW, memory=96 << 20, files=1 << 20))
    assert found.status == "memory" or "6 held" not in found.stdout


SPOILERS = [
    "import resource; resource.prlimit(1, resource.RLIMIT_AS, (700 << 20, 700 << 20))",
    "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))",
    "import os, signal; os.kill(1, signal.SIGINT)",
]


@pytest.mark.parametrize("code", SPOILERS)
def test_one_program_cannot_touch_the_next(code):
    """As an ordinary user, who is the same inside and outside, it spoiled the verdicts of all later ones."""
    script = (
        "from sigma_lab.collect.sandbox import run_isolated\n"
        f"run_isolated({{'main.py': {code!r}}}, 'main.py')\n"
        "print([run_isolated({'main.py': 'print(input())'}, 'main.py', 'right').stdout for _ in range(2)])"
    )
    words = [sys.executable, "-c", script]
    if os.geteuid() == 0:
        words = ["unshare", "--user", "--map-user=1000", "--map-group=1000", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "['right\\n', 'right\\n']\n", done.stderr


@pytest.mark.parametrize("name", ["memfd_create", "shmget", "msgget"])
def test_memory_that_no_process_holds(name):
    arguments = "b'x', 0" if name == "memfd_create" else "0, 4096, 0o1666"
    called = f"ctypes.CDLL(None, use_errno=True).{name}({arguments})"
    code = f"import ctypes; print({called}, ctypes.get_errno())"
    assert run(code).stdout == "-1 1\n"


def test_a_full_disk_is_its_own():
    assert "No space left" in run("f = open('big', 'wb')\nwhile True: f.write(bytes(10**6))").stderr
    assert "No space left" in run("for n in range(99): open(f'{n}', 'wb').write(bytes(10**6))").stderr
    assert "No space left" in run("for n in range(9999): open(f'{n}', 'w').close()").stderr


def test_the_home_directory_and_all_other_files(tmp_path):
    (tmp_path / "secret").write_text("secret")
    home = os.path.expanduser("~/.bashrc")
    for path in (tmp_path / "secret", home, "/etc/passwd", __file__, module.__file__):
        assert "FileNotFoundError" in run(f"open({str(path)!r})").stderr
    assert run("import os; print(len(os.environ))").stdout == "4\n"  # none of ours


def test_nothing_outside_its_folder_can_be_written():
    for path in ("/x", f"{sys.base_prefix}/x", "/dev/x", "/proc/sys/user/max_user_namespaces"):
        assert run(f"open({path!r}, 'w')").code == 1
    assert run(f"import os; os.unlink({os.path.realpath(sys.executable)!r})").code == 1


def test_the_network():
    assert "unreachable" in run("import socket; socket.create_connection(('127.0.0.1', 9), 2)").stderr
    assert run("import socket; print(socket.if_nameindex())").stdout == "[(1, 'lo')]\n"


def test_the_parent_cannot_be_killed_traced_or_written_to():
    code = """
import os, signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
    try: os.kill(os.getppid(), number)
    except OSError: pass
for path in ("/proc/1/mem", "/proc/1/fd/1", "/proc/1/fd/0"):
    try: open(path, "r+b"); print("opened", path)
    except OSError: pass
print(os.getppid())
"""
    assert run(code).stdout == "1\n"


def test_namespaces_of_its_own_are_refused():
    flags = "(0x10000000, 0x20000, 0x40000000)"
    code = f"import ctypes; print([ctypes.CDLL(None).unshare(flag) for flag in {flags}])"
    assert run(code).stdout == "[-1, -1, -1]\n"


def test_what_it_leaves_running_ends_with_it():
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(100)
    os._exit(0)
"""
    assert run(code).failure == ""


def test_a_jail_that_is_killed_takes_its_program_along():
    ended = []
    thread = threading.Thread(target=lambda: ended.append(run("import time; time.sleep(60)", limits=SLOW)))
    thread.start()
    jail, deadline = None, time.monotonic() + 30
    while jail is None and time.monotonic() < deadline:
        found = [pid for pid in children(os.getpid()) if "jail.py" in _command(pid)]
        inside = [child for pid in found for child in children(pid)]
        jail = found[0] if inside and children(inside[0]) else None
    (child,) = children(jail)
    (first,) = children(child)  # process 1 of the namespace
    os.kill(jail, 9)
    thread.join(60)
    assert ended[0].failure == "over its limit of time"
    while any(os.path.exists(f"/proc/{pid}") for pid in (child, first)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{first}")


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(number) for number in (task / "children").read_text().split()]
    return found


def refused(monkeypatch, tmp_path, script):
    (tmp_path / "jail.py").write_text(script)
    monkeypatch.setattr(module, "_JAIL", tmp_path / "jail.py")
    with pytest.raises(SandboxError) as caught:
        check_isolation(SMALL)
    assert "\n" not in str(caught.value)
    assert "code is graded only if it can be isolated" in str(caught.value)
    return str(caught.value)


def test_a_machine_that_refuses_namespaces_is_told_in_one_line(monkeypatch, tmp_path):
    say = 'print(\'{"status": "refused", "why": "unshare: Operation not permitted"}\')'
    assert "cannot isolate a program (unshare: Operation not permitted)" in refused(
        monkeypatch, tmp_path, say
    )
    assert "does not keep a program from: everything" in refused(monkeypatch, tmp_path, "")


def test_a_jail_with_open_doors_is_told_apart(monkeypatch, tmp_path):
    """A jail that isolates nothing: the probe must name what it could do."""
    naive = """
import json, os, subprocess, sys
code = json.load(sys.stdin)["files"]["main.py"].replace("time.sleep(5)", "")
out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
print(json.dumps({"status": "ended", "code": 0, "stdout": out, "stderr": ""}), flush=True)
"""
    told = refused(monkeypatch, tmp_path, naive)
    for door in ("files", "system-calls", "memory-that-nobody-counts", "forking"):
        assert door in told


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="this is darwin; code is graded only"):
        run("")
