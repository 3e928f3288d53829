"""Processes that end with this one, however it ends, and that leave nothing behind."""

import ctypes
import os
import shutil
import signal
import subprocess
import time

# Processes of a job inherit it, whichever process group or session they move to. So do those that clear their
# environment and pass it on (RunClusterTests).
MARK = "TEST_RUN_MARK"

# An inner make would take the outer one's variables for its own.
_OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")

# How long, in seconds, processes may still end after the job that started them.
GRACE = 5.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(what):
    """Asks the kernel for this signal when the process that started this one ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, what, 0, 0, 0)


def start(command, mark, log, environment, niceness=0):
    """Starts a command in a session of its own, with its output in a file."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**inherited, **environment, MARK: mark},
        start_new_session=True,
        preexec_fn=lambda: os.nice(niceness),
    )


class Guardian:
    """A process that ends all others with a mark, and removes a folder, once this one has ended, however it did."""

    def __init__(self, mark, folder):
        ear, self._mouth = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self._mouth)
                os.setsid()
                # A reader of this run's output must not wait for the guardian.
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                os.read(ear, 1)  # Returns when no process has the other end any more.
                end(mark)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os._exit(0)
        os.close(ear)

    def finish(self):
        os.close(self._mouth)
        os.waitpid(self._process, 0)


def marked(mark):
    """The ids and names of living processes whose mark begins with this one."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            if not any(variable.startswith(wanted) for variable in variables):
                continue
            with open(f"/proc/{entry}/comm") as file:
                found[int(entry)] = file.read().strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # It has ended meanwhile, or is another user's.
    return found


def end(mark, grace=0.0):
    """Ends every process with this mark. Returns the names of those that had not ended within the grace, in seconds."""
    deadline = time.monotonic() + grace
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    names = sorted(left.values())
    while left:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.05)
        left = marked(mark)
    return names
