"""The C compiler: found at run time, run once per graph, never left running."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dynajit.caching.key import cpu, file_identity, key
from dynajit.caching.store import Store
from dynajit.errors import ToolchainError

ENVIRONMENT = "DYNAJIT_CC"

# No -ffast-math, not even when linking: its crtfastmath.o would flush denormals in the whole process.
# -ffp-contract=off: eager rounds after every operation. -fwrapv: integers wrap as they do in eager.
FLAGS = (
    *("-O3", "-std=gnu11", "-fPIC", "-shared", "-fopenmp", "-ffp-contract=off", "-fno-math-errno"),
    *("-fno-trapping-math", "-fwrapv", "-w"),
)
LIBRARIES = ("-lm", "-lgcc", "-lc")


@dataclass(frozen=True)
class Toolchain:
    """command: the compiler. identity: which build of it. flags: all but the files. run: the OpenMP library."""

    command: str
    identity: str
    flags: tuple[str, ...]
    run: str

    def build(self, source: str, store: Store, fast: bool = False) -> tuple[Path, bool]:
        """The shared library for a C file, and whether it was in the cache. fast: sums of products in one rounding."""
        flags = (*self.flags, "-ffp-contract=fast") if fast else self.flags
        name = self._key(source, flags)
        found = store.get(name, ".so")
        if found is not None:
            return found, True
        texts = {".c": source}
        return store.put(name, ".so", lambda target: self._compile(source, flags, target), texts), False

    def cached(self, source: str, store: Store, fast: bool = False) -> bool:
        flags = (*self.flags, "-ffp-contract=fast") if fast else self.flags
        return store.get(self._key(source, flags), ".so") is not None

    def _key(self, source: str, flags: Sequence[str]) -> str:
        return key(source, " ".join(flags), self.identity, cpu(), self.run)

    def _compile(self, source: str, flags: Sequence[str], target: Path) -> None:
        text = target.with_suffix(".c")
        text.write_text(source)
        # -nostdlib and the OpenMP library that this process has already loaded, whatever its file is called: with a
        # second one there would be two pools of threads.
        command = [self.command, *flags, str(text), "-o", str(target), "-nostdlib", self.run, *LIBRARIES]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            output, _ = process.communicate()
        except BaseException:  # KeyboardInterrupt as well: no compiler may outlive us
            process.kill()
            process.wait()
            raise
        if process.returncode:
            raise ToolchainError("generated C", " ".join(command), output[-4000:])


@functools.cache
def toolchain() -> Toolchain | None:
    """The compiler that `DYNAJIT_CC` names, else gcc, clang or cc; None if there is none (or DYNAJIT_CC is empty)."""
    named = os.environ.get(ENVIRONMENT)
    for command in (named,) if named is not None else ("gcc", "clang", "cc"):
        path = shutil.which(command) if command else None
        if path is not None:
            return Toolchain(path, file_identity(path), (*FLAGS, *_machine_flags()), _openmp())
    return None


def _machine_flags() -> tuple[str, ...]:
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        return ("-march=native", "-mprefer-vector-width=512")
    return ("-march=native",)


@functools.cache
def _openmp() -> str:
    """The OpenMP library that torch runs on, from the list of files mapped into this process."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        maps = ""
    for line in maps.splitlines():
        name = line.split(None, 5)[-1]
        if os.path.basename(name).startswith(("libgomp", "libiomp", "libomp")):
            return name
    return "-lgomp"
