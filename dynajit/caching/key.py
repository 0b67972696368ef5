"""What a cached result depends on, as one hash."""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path

VERSION = "1"  # of what we write into the cache: raise it when the same source would give another entry


def key(*parts: str) -> str:
    """A name for the content: equal for equal parts only."""
    digest = hashlib.sha256()
    for part in (VERSION, *parts):
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode())
        digest.update(encoded)
    return digest.hexdigest()[:40]


@functools.cache
def cpu() -> str:
    """What this processor can do. Images move between hosts, and -march=native code of one may trap on another."""
    wanted = ("flags", "features", "model name", "cpu family", "model\t")  # x86 says flags, ARM says Features
    try:
        with Path("/proc/cpuinfo").open() as lines:
            first: list[str] = []
            for line in lines:
                if not line.strip():
                    break
                if line.lower().startswith(wanted):
                    first.append(line.strip())
        return "\n".join(first)
    except OSError:
        return f"{platform.machine()} {platform.processor()}"


def file_identity(path: str) -> str:
    """A program as it is installed now; cheaper than asking it for its version."""
    real = Path(path).resolve()
    status = real.stat()
    return f"{real} {status.st_size} {status.st_mtime_ns}"
