"""The disk cache: named by content, written by atomic rename, read only when its checksum is right."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ENVIRONMENT = "DYNAJIT_CACHE_DIR"


class Store:
    """A folder of entries. An entry is one binary file, its checksum, and text files for readers.

    Where the folder cannot be written, entries go to a temporary folder of this process; where that fails too, building
    raises OSError.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def get(self, key: str, suffix: str) -> Path | None:
        """The entry's file, if it is there and whole."""
        for root in self._roots():
            path = self._path(root, key, suffix)
            try:
                if self._checksum(path).read_text() == _digest(path) and _is_ours(path):
                    return path
            except (OSError, UnicodeDecodeError):
                continue
        return None

    def put(self, key: str, suffix: str, build: Callable[[Path], None], texts: Mapping[str, str]) -> Path:
        """Build an entry: `build` writes the file it is given. texts: suffix -> text, kept beside it.

        Whatever interrupts the build leaves no entry behind. Two processes may build the same entry: both rename the
        same content into place.
        """
        try:
            return self._put(self.root, key, suffix, build, texts)
        except OSError:
            return self._put(temporary_root(), key, suffix, build, texts)

    def _put(self, root: Path, key: str, suffix: str, build: Callable[[Path], None], texts: Mapping[str, str]) -> Path:
        final = self._path(root, key, suffix)
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=final.parent) as folder:
            made = Path(folder) / final.name
            build(made)
            made.with_suffix(suffix + ".sum").write_text(_digest(made))
            for extra, text in texts.items():
                part = made.with_suffix(extra)
                part.write_text(text)
                os.replace(part, final.with_suffix(extra))
            # The checksum goes last: without it the entry does not count.
            os.replace(made, final)
            os.replace(made.with_suffix(suffix + ".sum"), self._checksum(final))
        return final

    def clear(self) -> int:
        """Remove every entry; returns how many files there were. What is loaded stays loaded."""
        files = [path for path in self.root.glob("??/*") if path.is_file() and len(path.name.partition(".")[0]) == 40]
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)

    def _roots(self) -> list[Path]:
        return [self.root, *([temporary_root()] if temporary_root.cache_info().currsize else [])]

    @staticmethod
    def _path(root: Path, key: str, suffix: str) -> Path:
        return root / key[:2] / (key + suffix)

    @staticmethod
    def _checksum(path: Path) -> Path:
        return path.with_suffix(path.suffix + ".sum")


@functools.cache
def temporary_root() -> Path:
    """A folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="dynajit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def default_root() -> Path:
    """`$DYNAJIT_CACHE_DIR`, else ~/.cache/dynajit."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home directory
        return (Path(base) if base else Path.home() / ".cache") / "dynajit"
    return Path(tempfile.gettempdir()) / "dynajit"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_ours(path: Path) -> bool:
    """Binary code is only loaded from files that this user or root wrote."""
    return not hasattr(os, "getuid") or path.stat().st_uid in (os.getuid(), 0)
