"""What calls of builtins and of known library functions do, in themed files. Importing fills the table."""

from dynajit.evaluate.builtins import (
    autograd,
    checkpointing,
    checks,
    containers,
    control_flow,
    copying,
    inspection,
    iteration,
    itertools_,
    numbers,
    numpy_scalars,
    optimizers,
    strings,
    torch_objects,
    torch_state,
    transforms,
)

__all__ = [
    "autograd",
    "checkpointing",
    "checks",
    "containers",
    "control_flow",
    "copying",
    "inspection",
    "iteration",
    "itertools_",
    "numbers",
    "numpy_scalars",
    "optimizers",
    "strings",
    "torch_objects",
    "torch_state",
    "transforms",
]
