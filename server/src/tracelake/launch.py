"""A launcher for child programs: it arranges to die with the parent, drops privileges if required, and executes the program.

Run by path, without site packages: `python -I -S launch.py PARENT_PID SIGNAL as-is|untracing|powerless|unprivileged PROGRAM ARGUMENT…`.
It works where `setpriv` and `unshare` are missing or old, and needs no code between fork and exec.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Rights = Literal["as-is", "untracing", "powerless", "unprivileged"]

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
# A process with one of these can read the memory of every process: kernel modules, raw devices, tracing, administration, profiling, BPF.
LOOKS_INTO_OTHERS = (16, 17, 19, 21, 38, 39)
CAPABILITIES = range(64)  # more than any kernel has; it refuses to drop those it does not have
CLONE_NEWUSER = 0x10000000
NOBODY = 65534


def command_that_dies_with_us(command: Sequence[str | Path], *, death: int, rights: Rights = "as-is") -> list[str]:
    """The command, run through this file. The signal is sent when the *thread* that starts it ends: start it from a long-lived one."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(death)), rights, *(str(part) for part in command)]


def hide_memory() -> None:
    """Hide this process's memory and environment from processes that may not trace the whole machine."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _leave_root(libc: ctypes.CDLL) -> None:
    """Become nobody in a user namespace with one user: file ownership does not change, and no capability survives exec."""
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1")


def main(parent: str, signal: str, rights: str, *command: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if rights == "unprivileged":
        try:
            _leave_root(libc)
        except OSError as error:
            sys.exit(f"could not create a user namespace: {error}")
    if rights in ("untracing", "powerless"):
        # Root would get them back with exec. A process that may not drop them never had them.
        for capability in CAPABILITIES if rights == "powerless" else LOOKS_INTO_OTHERS:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    # After the change of privileges, which would clear it; it survives exec.
    libc.prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the parent ended before its child started")
    os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
