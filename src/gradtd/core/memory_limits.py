"""The available memory, and the message for requests that exceed it, raised before allocation.

A system that overcommits memory kills a process that uses too much, without a message. Sizes that depend on user input
are therefore estimated first.
"""

from __future__ import annotations

from pathlib import Path

from gradtd.core.checks import InputError

_SMALL = 2**26
"""Requests below this size are not checked: the check takes longer than the allocation."""


class BeyondMemory(InputError):
    """Raised if a request does not fit into memory. Reading stops at once."""


def refuse_beyond_memory(needed: float, what: str, advice: str) -> None:
    """Refuse a request for more bytes than are available."""
    if needed <= _SMALL:
        return
    left = available()
    if left is not None and needed > left:
        raise BeyondMemory(f"{what} would take {_shown(needed)} of memory, and {_shown(left)} are left: {advice}.")


def available() -> int | None:
    """The bytes that are available to this process. None if the system does not say."""
    found = [left for left in (_of_machine(), _of_group(), _of_process()) if left is not None]
    return min(found) if found else None


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def _of_group(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory left under the container's limit. Cached files can be released, so they do not count."""
    for limit, used, stat, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        try:
            most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
            told = dict(line.split() for line in (folder / stat).read_text().splitlines())
        except (OSError, ValueError):  # no such group, or no limit ("max")
            continue
        return max(0, most - taken + int(told.get(cached, 0)))
    return None


def _of_process() -> int | None:
    """Memory left under the limit on this process's address space."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        return max(0, most - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        return None


def _shown(count: float) -> str:
    return f"{count / 2**30:.3g} GB"
