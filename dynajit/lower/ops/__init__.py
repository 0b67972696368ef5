"""The lowerings, by theme. Importing this package fills the table."""

from dynajit.lower.ops import creation, normalization, pointwise, reduction, view

__all__ = ["creation", "normalization", "pointwise", "reduction", "view"]
