"""The process around a program that nobody trusts: new namespaces, a throw-away root, limits.

`sandbox` runs it as a script that imports nothing of ours: ``python -I -S jail.py SETTINGS``, once for every
program. It joins a control group if there is one, makes user, mount, pid, network, ipc, uts and cgroup
namespaces, becomes process 1 of them, and moves to a small tmpfs that holds a read-only Python, ``/proc`` and
an empty folder. Then it reads a request (JSON) from standard input, runs the program in it without any
capability, and answers one line. When process 1 ends, the kernel ends everything inside.
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import struct
import sys
import time
from typing import Any, NoReturn

_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_MS_BIND_REC, _MS_PRIVATE_REC, _MS_SAFE = 4096 | 16384, 16384 | (1 << 18), 2 | 4 | 8  # nosuid, nodev, noexec
_MOUNT_SETATTR, _AT_RECURSIVE, _READ_ONLY_NOSUID = 442, 0x8000, 1 | 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_SET_SECCOMP, _MNT_DETACH = 22, 2
# memfd_create, memfd_secret, shmget, msgget, add_key, request_key, keyctl, ptrace, bpf, perf_event_open,
# userfaultfd, io_uring_setup
_DENIED = {
    "x86_64": (0xC000003E, (319, 447, 29, 68, 248, 249, 250, 101, 321, 298, 323, 425)),
    "aarch64": (0xC00000B7, (279, 447, 194, 186, 217, 218, 219, 117, 280, 241, 282, 425)),
}
_MMAP = {"x86_64": 9, "aarch64": 222}
_SHARED_ANONYMOUS = 0x01 | 0x20
_INSIDE = 1000  # the program's user, inside
_HOME = "/home/answer"
_ERRORS = 2000  # bytes of standard error that are kept, the last ones
_TICK = 0.05  # seconds between two checks of the memory

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    """Call libc and raise OSError with the function's name if it fails."""
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    names = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _call("mount", names[0], names[1], names[2], ctypes.c_ulong(flags), names[3])


# --- namespaces ---


def main(settings: dict[str, Any]) -> None:
    """Fork into new namespaces and wait; errors of the setup are reported as one line."""
    if settings["group"] is not None:
        with open(settings["group"], "w", encoding="ascii") as file:
            file.write("0")  # this process, and with it what it starts
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            _call("unshare", _NAMESPACES)
            os.write(ready[1], b"x")
            os.close(go[1])
            if os.read(go[0], 1) != b"x":
                os._exit(1)
            _enter(settings)
        except OSError as error:
            _fail(error)
    os.close(ready[1])
    if os.read(ready[0], 1) == b"x":
        try:
            _map_users(child)
            os.write(go[1], b"x")
        except OSError as error:
            _fail(error)
    os.waitpid(child, 0)


def _map_users(child: int) -> None:
    """Root gets a user of its own for this program, which limits hold for; others stay who they are."""
    user, group, root = os.getuid(), os.getgid(), os.geteuid() == 0
    own = 2_000_000 + child
    maps = {"uid_map": f"{_INSIDE} {user} 1\n", "gid_map": f"{_INSIDE} {group} 1\n"}
    if root:
        maps = dict.fromkeys(maps, f"0 0 1\n{_INSIDE} {own} 1\n")
    else:
        maps = {"setgroups": "deny", **maps}
    for name, text in maps.items():
        with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _enter(settings: dict[str, Any]) -> NoReturn:
    """Fork once more: only a child is in the new pid namespace. This one waits for it."""
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        os._exit(0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_DUMPABLE, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 gets no signal that it does not handle
    try:
        if os.uname().machine not in _DENIED:
            raise OSError(f"the processor is {os.uname().machine}; known are {', '.join(_DENIED)}")
        _new_root(settings["readable"])
    except OSError as error:
        _fail(error)
    _say(_run(json.load(sys.stdin), settings))
    os._exit(0)


def _new_root(readable: list[str]) -> None:
    """Replace / by a read-only tmpfs with ``readable``, /proc, /dev/null and /dev/urandom."""
    devices = ["/dev/null", "/dev/urandom"]
    sources = {path: os.open(path, os.O_PATH) for path in [*readable, *devices]}
    _mount("none", "/", None, _MS_PRIVATE_REC)
    _mount("none", "/tmp", "tmpfs", _MS_SAFE, "size=1m,nr_inodes=512,mode=755")
    for path, source in sources.items():
        target = f"/tmp{path}"
        os.makedirs(target if path in readable else os.path.dirname(target), exist_ok=True)
        if path in devices:
            os.close(os.open(target, os.O_CREAT, 0o600))
        _mount(f"/proc/self/fd/{source}", target, None, _MS_BIND_REC)
        _make_read_only(target)
        os.close(source)
    for folder in ("/tmp/proc", f"/tmp{_HOME}", "/tmp/old"):
        os.makedirs(folder)
    _mount("none", "/tmp/proc", "proc", _MS_SAFE)
    links = {"dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1"}
    for name, target in (links | {"tmp": _HOME}).items():
        os.symlink(target, f"/tmp/{name}")
    os.chdir("/tmp")
    _call("pivot_root", b".", b"old")
    _call("umount2", b"/old", _MNT_DETACH)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")  # no capabilities in a namespace of the program's own
    _make_read_only("/")


def _make_read_only(target: str) -> None:
    attributes = struct.pack("QQQQ", _READ_ONLY_NOSUID, 0, 0, 0)
    flags = 0 if target == "/" else _AT_RECURSIVE
    _call("syscall", _MOUNT_SETATTR, -100, target.encode(), flags, attributes, len(attributes))


# --- one program ---


def _run(request: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Run the program to its end or its limits."""
    _mount("none", _HOME, "tmpfs", _MS_SAFE, f"size={settings['files']},nr_inodes=4096,mode=777")
    for name, text in request["files"].items():
        with open(f"{_HOME}/{name}", "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        os.chmod(f"{_HOME}/{name}", 0o644)
    pipes = [os.pipe() for _ in range(3)]
    child = os.fork()
    if child == 0:
        _become(pipes, request, settings)
    for end in (pipes[0][0], pipes[1][1], pipes[2][1]):
        os.close(end)
    return _watch(child, (pipes[0][1], pipes[1][0], pipes[2][0]), request, settings)


def _become(pipes: list[tuple[int, int]], request: dict[str, Any], settings: dict[str, Any]) -> NoReturn:
    """Give up everything and turn into the program."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # if memory runs out, it is killed first
        for number, end in enumerate((pipes[0][0], pipes[1][1], pipes[2][1])):
            os.dup2(end, number)
        os.closerange(3, 256)
        os.setsid()
        cpu, memory, file = settings["cpu"], settings["memory"], settings["files"]
        limits = {"CPU": cpu, "AS": memory, "FSIZE": file, "NPROC": settings["processes"], "NOFILE": 64}
        for name, limit in (limits | {"CORE": 0, "MSGQUEUE": 0, "MEMLOCK": 0}).items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        for capability in range(64):
            if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
                break
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(_INSIDE, _INSIDE, _INSIDE)
            os.setresuid(_INSIDE, _INSIDE, _INSIDE)
        _call("capset", struct.pack("II", 0x20080522, 0), bytes(24))
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _deny_calls()
        os.chdir(_HOME)
        environment = {"PYTHONHASHSEED": "0", "HOME": _HOME, "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        os.execve(settings["python"], ["python", "-I", "-S", "-B", request["main"]], environment)
    except OSError as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(127)


def _deny_calls() -> None:
    """Refuse the system calls that hold memory which no limit counts, or that reach deep into the kernel.

    Shared pages without a file are among them: they stay while no process maps them.
    """
    machine = os.uname().machine
    architecture, denied = _DENIED[machine]
    load, equal, above, masked, give = 0x20, 0x15, 0x35, 0x54, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000
    code = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    code += [(above, 0, 1, 0x40000000), (give, 0, 0, refuse)]  # another calling convention of x86-64
    code += [step for number in denied for step in ((equal, 0, 1, number), (give, 0, 0, refuse))]
    code += [(equal, 0, 4, _MMAP[machine]), (load, 0, 0, 40), (masked, 0, 0, _SHARED_ANONYMOUS)]
    code += [(equal, 0, 1, _SHARED_ANONYMOUS), (give, 0, 0, refuse)]
    packed = b"".join(struct.pack("HBBI", *step) for step in [*code, (give, 0, 0, allow)])
    kept = ctypes.create_string_buffer(packed)
    program = struct.pack("HxxxxxxQ", len(packed) // 8, ctypes.addressof(kept))
    _call("prctl", _PR_SET_SECCOMP, ctypes.c_ulong(2), program, ctypes.c_ulong(0), ctypes.c_ulong(0))


def _watch(
    child: int, ends: tuple[int, int, int], request: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Feed and read the program until it ends, or uses up its time, memory or output."""
    stdin, stdout, stderr = ends
    waiting = memoryview(request["stdin"].encode(errors="surrogatepass"))
    read = {stdout: bytearray(), stderr: bytearray()}
    status, code = "", -1
    deadline = time.monotonic() + settings["wall"]
    with selectors.DefaultSelector() as selector:
        for end in ends:
            os.set_blocking(end, False)
            selector.register(end, selectors.EVENT_WRITE if end == stdin else selectors.EVENT_READ)
        while not status:
            for key, _ in selector.select(_TICK):
                if key.fd == stdin:
                    try:
                        waiting = waiting[os.write(stdin, waiting) :] if waiting else waiting
                    except BrokenPipeError:
                        waiting = waiting[:0]
                    done = not waiting
                else:
                    part = os.read(key.fd, 65536)
                    done = not part
                    read[key.fd] += part
                if done:
                    selector.unregister(key.fd)
                    os.close(key.fd)
            ended, state = os.waitpid(child, os.WNOHANG)
            if ended:
                status, code = "ended", os.waitstatus_to_exitcode(state)
            elif len(read[stdout]) > settings["output"]:
                status = "output"
            elif _resident() > settings["memory"]:
                status = "memory"
            elif time.monotonic() > deadline:
                status = "time"
            del read[stderr][:-_ERRORS]
        for still_open in list(selector.get_map().values()):
            if still_open.fd in read and status == "ended":
                read[still_open.fd] += _rest(still_open.fd, settings["output"])
            os.close(still_open.fd)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        status = "time"
    output = bytes(read[stdout][: settings["output"]]).decode("utf-8", "replace")
    return {
        "status": status,
        "code": code,
        "stdout": output,
        "stderr": bytes(read[stderr][-_ERRORS:]).decode("utf-8", "replace"),
    }


def _rest(end: int, most: int) -> bytes:
    """What a pipe still holds of a program that has ended."""
    parts = bytearray()
    try:
        while len(parts) <= most and (part := os.read(end, 65536)):
            parts += part
    except BlockingIOError:  # something that it left running holds the pipe open
        pass
    return bytes(parts)


def _resident() -> int:
    """Bytes of memory that all processes inside hold, except this one; too many if we may not read it."""
    total = 0
    try:
        names = os.listdir("/proc")
    except OSError:  # the program has taken our open files away: it is ended
        return sys.maxsize
    for name in names:
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/statm", encoding="ascii") as file:
                    total += int(file.read().split()[1])
            except (OSError, IndexError):  # it has ended meanwhile
                continue
    return total * resource.getpagesize()


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def _fail(error: OSError) -> NoReturn:
    _say({"status": "refused", "why": str(error)})
    os._exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
