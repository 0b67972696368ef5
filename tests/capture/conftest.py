"""Faults of the compiler must fail the tests, not fall back."""

import os

os.environ["DYNAJIT_STRICT"] = "1"
