"""What a command imports before its first step, which its user waits for."""

import subprocess
import sys


def test_packages_that_few_runs_need_are_imported_by_those():
    heavy = {"pandas", "xarray", "scipy.stats", "scipy.optimize", "scipy.interpolate", "matplotlib"}
    code = f"import sys, piop.run; print(sorted({heavy!r} & {{*sys.modules}}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
