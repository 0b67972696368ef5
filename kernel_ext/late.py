"""What is imported when it is first needed: torch takes seconds, and an armed card needs none of it."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def compiler() -> Any:
    """The package `dynajit`."""
    return importlib.import_module("dynajit")


def torch() -> Any:
    return importlib.import_module("torch")


def events() -> Any:
    return importlib.import_module("dynajit.events")


def errors() -> Any:
    return importlib.import_module("dynajit.errors")


def is_module(value: Any) -> bool:
    """Whether a value is an `nn.Module`; if torch is not loaded, it cannot be one."""
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return nn is not None and isinstance(value, nn.Module)


def is_module_class(value: Any) -> bool:
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return nn is not None and isinstance(value, type) and issubclass(value, nn.Module)
