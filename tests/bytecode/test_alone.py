"""The package stands alone."""

import subprocess
import sys

from bodies import ROOT

PROGRAM = """
import sys, types
package = types.ModuleType("dynajit")
package.__path__ = [sys.argv[1]]
sys.modules["dynajit"] = package
import dynajit.bytecode
strange = [name for name in sys.modules if name.startswith("dynajit.") and not name.startswith("dynajit.bytecode")]
assert not strange, strange
assert "torch" not in sys.modules
"""


def test_it_imports_neither_torch_nor_the_rest():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "dynajit")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
