"""What each traced object contains now.

Contents are immutable (tuples, mapping proxies treated as read-only): a change stores new contents. A journal makes
rolling back to an earlier moment cheap, so a graph break keeps exactly what held before the instruction.
"""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Heap:
    """Contents by the key of the handle, and the moments between which they changed."""

    def __init__(self) -> None:
        self._now: dict[int, Any] = {}
        self._journal: list[tuple[int, Any, Any]] = []  # (key, contents before, what it began with before `learn`)
        self._initial: dict[int, Any] = {}

    def new(self, key: int, contents: Any, *, existing: bool) -> None:
        """Make an object known. `existing`: it was there before the frame, so a change must be replayed on it."""
        self._journal.append((key, _ABSENT, _ABSENT))
        self._now[key] = contents
        if existing:
            self._initial[key] = contents

    def __getitem__(self, key: int) -> Any:
        return self._now[key]

    def __contains__(self, key: int) -> bool:
        return key in self._now

    def put(self, key: int, contents: Any) -> None:
        self._journal.append((key, self._now[key], _ABSENT))
        self._now[key] = contents

    def learn(self, key: int, initial: Any, contents: Any) -> None:
        """More is known of an existing object: what it contained at first, and does now. That is no change."""
        self._journal.append((key, self._now[key], self._initial[key]))
        self._now[key], self._initial[key] = contents, initial

    @property
    def mark(self) -> int:
        return len(self._journal)

    def roll_back(self, mark: int) -> None:
        while len(self._journal) > mark:
            key, contents, initial = self._journal.pop()
            if contents is _ABSENT:
                del self._now[key]
                self._initial.pop(key, None)
            else:
                self._now[key] = contents
                if initial is not _ABSENT:
                    self._initial[key] = initial

    def changed_since(self, mark: int) -> bool:
        """Whether an object that existed at `mark` has changed."""
        since = self._journal[mark:]
        made = {key for key, old, _ in since if old is _ABSENT and key not in self._initial}
        return any(key not in made for key, old, learned in since if old is not _ABSENT and learned is _ABSENT)

    def initial(self, key: int) -> Any:
        """What an existing object contained when it was first seen."""
        return self._initial[key]

    def is_existing(self, key: int) -> bool:
        return key in self._initial

    def changed(self) -> list[int]:
        """Keys of existing objects whose contents differ from the beginning, in the order of their first change."""
        order = dict.fromkeys(key for key, old, _ in self._journal if old is not _ABSENT and key in self._initial)
        return [key for key in order if self._now[key] is not self._initial[key]]
