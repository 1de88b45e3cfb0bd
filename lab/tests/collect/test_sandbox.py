"""Hostile programs harm nothing: each is run, and then the same sandbox must still run a good one."""

import os
import sys
import time
from dataclasses import replace

import pytest

from sigma_lab.collect import sandbox as module
from sigma_lab.collect.sandbox import Limits, Sandbox, SandboxError, check_isolation

pytestmark = pytest.mark.usefixtures("isolated")
SMALL = Limits(cpu=1, wall=5, memory=256 << 20, processes=8, files=8 << 20, output=1 << 20)


@pytest.fixture
def run(request):
    with Sandbox(getattr(request, "param", SMALL)) as sandbox:

        def run_program(code, stdin=""):
            result = sandbox.run({"main.py": code}, "main.py", stdin)
            after = sandbox.run({"main.py": LOOK}, "main.py", "still here")
            assert after.stdout.splitlines() == ["still here", "['main.py']", "2"], after
            return result

        yield run_program


# prints what it reads, the files of its folder, and how many processes there are
LOOK = (
    "import os; print(input()); print(os.listdir('.')); print(sum(n.isdigit() for n in os.listdir('/proc')))"
)


def test_a_program_reads_and_writes(run):
    result = run("print(input() + '!'); open('own', 'w').write('x'); open('/tmp/own', 'w').write('y')", "hé")
    assert (result.status, result.code, result.stdout, result.failure) == ("ended", 0, "hé!\n", "")


def test_an_error_is_told(run):
    result = run("print('a'); 1 / 0")
    assert (result.code, result.stdout, result.failure) == (1, "a\n", "ZeroDivisionError: division by zero")


def test_a_fork_bomb(run):
    code = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    assert run(code).failure == "over its limit of time"


def test_threads_count_too(run):
    start = "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    code = f"import threading, time\nfor _ in range(50): {start}"
    assert "can't start new thread" in run(code).stderr


def test_endless_output(run):
    result = run("while True: print('x' * 1000)")
    assert (result.status, len(result.stdout)) == ("output", SMALL.output)


def test_endless_errors_are_not_kept(run):
    assert len(run("import sys\nfor _ in range(9999): sys.stderr.write('x' * 1000)").stderr) <= 2000


def test_endless_computing_and_endless_sleep(run):
    assert run("while True: pass").failure == "over its limit of time"
    assert run("import time; time.sleep(1000)").failure == "over its limit of time"


# A busy machine may take more than a second to fill the memory.
@pytest.mark.parametrize("run", [replace(SMALL, cpu=20, wall=60)], indirect=True, ids=["slow"])
def test_memory_of_one_process(run):
    assert "MemoryError" in run("x = [bytearray(10**7) for _ in range(100)]").stderr


def test_memory_of_many_processes(run):
    code = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(b'x' * (100 << 20)); time.sleep(60)"
    assert run(code).failure == "over its limit of memory"


@pytest.mark.parametrize("name", ["memfd_create", "shmget", "msgget"])
def test_memory_that_no_process_holds(run, name):
    arguments = "b'x', 0" if name == "memfd_create" else "0, 4096, 0o1666"
    called = f"ctypes.CDLL(None, use_errno=True).{name}({arguments})"
    code = f"import ctypes; print({called}, ctypes.get_errno())"
    assert run(code).stdout == "-1 1\n"


def test_a_full_disk_is_its_own(run):
    assert "No space left" in run("f = open('big', 'wb')\nwhile True: f.write(bytes(10**6))").stderr
    assert "No space left" in run("for n in range(99): open(f'{n}', 'wb').write(bytes(10**6))").stderr
    assert "No space left" in run("for n in range(9999): open(f'{n}', 'w').close()").stderr


def test_the_home_directory_and_all_other_files(run, tmp_path):
    (tmp_path / "secret").write_text("secret")
    for path in (
        tmp_path / "secret",
        os.path.expanduser("~/.bashrc"),
        "/etc/passwd",
        __file__,
        module.__file__,
    ):
        assert "FileNotFoundError" in run(f"open({str(path)!r})").stderr
    assert run("import os; print(len(os.environ))").stdout == "4\n"  # none of ours


def test_nothing_outside_its_folder_can_be_written(run):
    for path in ("/x", f"{sys.base_prefix}/x", "/dev/x", "/proc/sys/user/max_user_namespaces"):
        assert run(f"open({path!r}, 'w')").code == 1
    assert run(f"import os; os.unlink({os.path.realpath(sys.executable)!r})").code == 1


def test_the_network(run):
    assert "unreachable" in run("import socket; socket.create_connection(('127.0.0.1', 9), 2)").stderr
    assert run("import socket; print(socket.if_nameindex())").stdout == "[(1, 'lo')]\n"


def test_the_parent_cannot_be_killed_traced_or_written_to(run):
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


def test_namespaces_of_its_own_are_refused(run):
    flags = "(0x10000000, 0x20000, 0x40000000)"
    code = f"import ctypes; print([ctypes.CDLL(None).unshare(flag) for flag in {flags}])"
    assert run(code).stdout == "[-1, -1, -1]\n"


def test_what_it_leaves_running_ends_with_it(run):
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(100)
    os._exit(0)
"""
    assert run(code).failure == ""


def test_files_in_the_way_of_the_next_program(run):
    deep = "os.makedirs('main.py/' + '/'.join('d' * 200)); os.chmod('main.py', 0)"
    run(f"import os; os.unlink('main.py'); {deep}")
    run("import os; os.unlink('main.py'); os.symlink('/proc/self/mem', 'main.py')")


def test_a_sandbox_that_is_killed_takes_its_program_along_and_starts_again():
    with Sandbox(SMALL) as sandbox:
        assert sandbox.run({"main.py": "print(1)"}, "main.py").stdout == "1\n"
        sandbox._process.kill()
        assert sandbox.run({"main.py": "print(1)"}, "main.py").failure == "over its limit of time"
        assert sandbox.run({"main.py": "print(1)"}, "main.py").stdout == "1\n"


def test_closing_ends_everything_inside():
    with Sandbox(SMALL) as sandbox:
        sandbox.run({"main.py": "print(1)"}, "main.py")
        (child,) = children(sandbox._process.pid)
        (first,) = children(child)  # process 1 of the namespace
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in (child, first)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{child}")
    assert not os.path.exists(f"/proc/{first}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(number) for number in file.read().split()]


def refused(monkeypatch, tmp_path, script):
    (tmp_path / "jail.py").write_text(script)
    monkeypatch.setattr(module, "_JAIL", tmp_path / "jail.py")
    with pytest.raises(SandboxError) as caught:
        check_isolation(SMALL)
    assert "\n" not in str(caught.value)
    assert "code is graded only where it can be isolated" in str(caught.value)
    return str(caught.value)


def test_a_machine_that_refuses_namespaces_is_told_in_one_line(monkeypatch, tmp_path):
    say = 'print(\'{"status": "refused", "why": "unshare: Operation not permitted"}\')'
    assert "cannot isolate a program (unshare: Operation not permitted)" in refused(
        monkeypatch, tmp_path, say
    )
    assert "ended without a word" in refused(monkeypatch, tmp_path, "")


def test_a_jail_with_open_doors_is_told_apart(monkeypatch, tmp_path):
    """A jail that isolates nothing: the probe must name what it could do."""
    naive = """
import json, os, subprocess, sys
print('{"status": "ready"}', flush=True)
for line in sys.stdin:
    code = json.loads(line)["files"]["main.py"].replace("time.sleep(5)", "")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    print(json.dumps({"status": "ended", "code": 0, "stdout": out, "stderr": ""}), flush=True)
"""
    told = refused(monkeypatch, tmp_path, naive)
    for door in ("files", "system-calls", "forking"):
        assert door in told


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="this is darwin; code is graded only"):
        Sandbox().run({"main.py": ""}, "main.py")
