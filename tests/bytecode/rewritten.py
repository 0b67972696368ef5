"""Run test modules of the standard library with every function decoded and encoded first.

    python rewritten.py PACKAGE REPORT (rewritten | identity) MODULE...

PACKAGE is the folder of dynajit; REPORT is the file that gets the result, as JSON. `identity` copies code objects
without changing them: what fails then fails because of the hook, and not because of us.
"""

import gc
import importlib
import importlib.machinery
import io
import json
import sys
import types
import unittest

dynajit = types.ModuleType("dynajit")  # no `__init__`: it would load torch
dynajit.__path__ = [sys.argv[1]]
sys.modules["dynajit"] = dynajit
bytecode = importlib.import_module("dynajit.bytecode")


def rewriter(identity):
    """The function that makes a new code object of one, and the list of those it has made."""
    made = []

    def rewrite(code):
        consts = tuple(rewrite(const) if isinstance(const, types.CodeType) else const for const in code.co_consts)
        code = code.replace(co_consts=consts)
        if code.co_flags & 1:  # CO_OPTIMIZED: a function
            made.append(code)
            code = code if identity else bytecode.encode(bytecode.decode(code))
        return code

    return rewrite, made


def install(rewrite):
    """Rewrite what is loaded, and what will be imported."""
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader, name):
        code = original(loader, name)
        return None if code is None else rewrite(code)

    importlib.machinery.SourceFileLoader.get_code = get_code
    for function in [it for it in gc.get_objects() if isinstance(it, types.FunctionType)]:
        if not (function.__module__ or "").startswith(("dynajit", "__main__")):
            function.__code__ = rewrite(function.__code__)


def run(names):
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"test.{name}" for name in names])
    return unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)


def main():
    report, mode, *names = sys.argv[2:]
    rewrite, made = rewriter(mode == "identity")
    install(rewrite)
    result = run(names)
    bad = {test.id(): text for test, text in [*result.failures, *result.errors]}
    with open(report, "w") as file:
        json.dump({"functions": len(made), "tests": result.testsRun, "bad": bad}, file)


if __name__ == "__main__":
    main()
