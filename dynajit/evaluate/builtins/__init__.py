"""What calls of builtins and of known library functions do, in themed files. Importing fills the table."""

from dynajit.evaluate.builtins import containers, inspection, iteration, numbers, strings, torch_state

__all__ = ["containers", "inspection", "iteration", "numbers", "strings", "torch_state"]
