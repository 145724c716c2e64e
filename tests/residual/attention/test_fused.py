"""The Triton kernels: run without a GPU by the interpreter, and compiled for one offline."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


def test_kernels_equal_their_twin():
    asked = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("interpreted.py"))],
        env=os.environ | asked,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", ["sum_sensors", "slope_queries", "slope_sensors"])
def test_kernels_compile_for_a_gpu_that_is_not_here(name, tmp_path, monkeypatch):
    """What the interpreter lets pass, the compiler need not: it types what a loop carries."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from piop.residual.attention import fused_kernels
    from piop.residual.attention.kernel import ScoreMonomial, ScorePolynomials

    program = ScorePolynomials(3, (ScoreMonomial(2, 1, 0, -0.01, (1,)),))
    kernel = getattr(fused_kernels, name)
    known = {
        "S": 3,
        "SLOTS": 1,
        "TERMS": tuple(p.flat() for p in program.terms),
        "SLOPES": tuple(p.flat() for p in program.slopes),
        "MASKED": True,
        **dict.fromkeys(("BN", "BM", "BD", "BE"), 16),
        "PRECISION": "tf32",
    }
    known = {k: v for k, v in known.items() if k in kernel.arg_names}
    strides = {
        "query": 5,
        "key": 4,
        "value": 4,
        "bias": 3,
        "coefficients": 4,
        "totals": 1,
        "out": 1,
    }
    pointers = {"shift", "key_out", "value_out"}
    signature = {
        argument: "constexpr"
        if argument in known
        else ("*fp32", *("i32",) * strides[argument])
        if argument in strides
        else "*fp32"
        if argument in pointers
        else "i32"
        for argument in kernel.arg_names
    }
    places = {(kernel.arg_names.index(k),): v for k, v in known.items()}
    source = ASTSource(kernel, signature, constexprs=places)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_stages": 1})
    assert made.asm["cubin"]
