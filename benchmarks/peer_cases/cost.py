"""What one estimate costs: processor seconds, and the memory it takes on top of what was there (Linux)."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROCESS = Path("/proc/self")
C_LIBRARY = ctypes.CDLL(None)


def _megabytes(field: str) -> float | None:
    status = PROCESS / "status"
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def measured(run: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """What `run` returns, and its cost. The kernel forgets the peak so far before `run` begins.

    Memory that earlier estimates have freed goes back to the kernel first: one that fits into it would cost nothing.
    """
    if hasattr(C_LIBRARY, "malloc_trim"):
        C_LIBRARY.malloc_trim(0)
    if (PROCESS / "clear_refs").exists():
        (PROCESS / "clear_refs").write_text("5")
    before, begun = _megabytes("VmRSS"), time.process_time()
    made = run()
    seconds, peak = time.process_time() - begun, _megabytes("VmHWM")
    taken = None if peak is None or before is None else max(peak - before, 0.0)
    return made, {"seconds": seconds, "megabytes": taken}
