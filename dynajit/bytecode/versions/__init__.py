"""The only folder that knows which Python is running. Exactly one of the modules `py3xx` is imported."""

import importlib
import sys

from dynajit.bytecode.versions.common import Version

SUPPORTED = ((3, 11), (3, 12), (3, 13))

if sys.version_info[:2] not in SUPPORTED:
    known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    raise ImportError(f"Python {sys.version_info[0]}.{sys.version_info[1]} is not supported; use one of {known}")

python: Version = importlib.import_module(f"{__name__}.py{sys.version_info[0]}{sys.version_info[1]}").VERSION
"""The version that is running."""
