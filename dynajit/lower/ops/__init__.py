"""The lowerings, by theme. Importing this package fills the table."""

from dynajit.lower.ops import (
    activation,
    arithmetic,
    backward,
    comparison,
    conversion,
    creation,
    lookup,
    loss,
    normalization,
    placing,
    reduction,
    scan,
    view,
)

__all__ = [
    "activation",
    "arithmetic",
    "backward",
    "comparison",
    "conversion",
    "creation",
    "lookup",
    "loss",
    "normalization",
    "placing",
    "reduction",
    "scan",
    "view",
]
