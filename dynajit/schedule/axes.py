"""Loop axes: dimensions of different values that are walked by one loop.

A dimension of a value is a row-major product of axes. Unifying two products splits axes where needed, so that a reshape
such as (batch, heads * width) -> (batch, heads, width) costs nothing: every access stays affine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Dim = tuple[int, ...]  # axes, outermost first; empty: one element, or no dependence on this dimension


class Axes:
    """All axes of a program. Changes are written to a trail, so that a failed attempt can be undone."""

    def __init__(self) -> None:
        self.size: list[int] = []
        self._link: list[int | Dim | None] = []
        self._trail: list[int] = []

    def new(self, size: int) -> int:
        self.size.append(size)
        self._link.append(None)
        return len(self.size) - 1

    def mark(self) -> int:
        return len(self._trail)

    def rollback(self, mark: int) -> None:
        """Undo every change since `mark`."""
        while len(self._trail) > mark:
            self._link[self._trail.pop()] = None

    def resolve(self, axes: Iterable[int]) -> Dim:
        """The axes as they are now: followed through what they were unified with and split into."""
        found: list[int] = []
        for axis in axes:
            link = self._link[axis]
            if link is None:
                found.append(axis)
            else:
                found.extend(self.resolve((link,) if isinstance(link, int) else link))
        return tuple(found)

    def unify(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Make two products of axes the same loops. False, with some changes done, if their sizes do not interleave."""
        a, b = list(self.resolve(left)), list(self.resolve(right))
        while a and b:
            x, y = a[0], b[0]
            if x == y:
                a.pop(0), b.pop(0)
            elif self.size[x] == self.size[y]:
                self._set(y, x)
                a, b = list(self.resolve(a[1:])), list(self.resolve(b[1:]))
            elif self.size[x] > self.size[y]:
                if not self._split(x, y):
                    return False
                a = list(self.resolve(a))
            else:
                if not self._split(y, x):
                    return False
                b = list(self.resolve(b))
        return not a and not b

    def _split(self, axis: int, outer: int) -> bool:
        """Let `axis` be `outer` times something."""
        if not self.size[outer] or not self.size[axis]:
            return False  # nothing to walk: no product says where it ends
        inner, rest = divmod(self.size[axis], self.size[outer])
        if rest or inner < 2:
            return False
        self._set(axis, (outer, self.new(inner)))
        return True

    def _set(self, axis: int, link: int | Dim) -> None:
        self._link[axis] = link
        self._trail.append(axis)
