#!/usr/bin/env python3
"""Random functions of tensors through torch.compile(backend="knapper") against eager.

    bench/torch_functions.py --cases 10000 --resume rows.jsonl
    bench/torch_functions.py --seed f00 --only 17
    bench/torch_functions.py --resume rows.jsonl --minimise

Function N of a seed is drawn from `seed:N` alone (bench/random_functions): lines of
pointwise operators, views, slices, writes in place, reductions, gathers, matmuls,
pools; inputs of any dtype and layout, the same tensor twice, views of each other;
odd values; static, automatically dynamic or dynamic with a second and third size;
no_grad, inference_mode or gradients. The seed is the commit's hash unless --seed says
otherwise. Results, inputs behind the call, gradients and what shares memory are
compared with eager; what rounding explains is measured on the function itself, by
eager with every operator's result moved (function_compare.py). Each worker is a process: a
crash or a hang costs one function. Rows are appended to --resume as they come, and a
second call goes on behind them. --minimise writes the smallest function of each failure.

Exit status 1 where a function is wrong, an error of ours, a crash or a hang.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn.search import Kind, search  # noqa: E402


def main() -> int:
    from random_functions import function_draw, function_minimise
    from random_functions.functions import Function, record

    def setting(made: Any) -> str:
        return f"dynamic={made.dynamic} grad={made.grad} inference={made.inference} sizes={made.bindings}"

    process = ROOT / "bench" / "random_functions" / "function_process.py"
    kind = Kind("function", process, function_draw.function, Function.of, record, function_minimise.minimise, setting)
    return search(kind, __doc__)


if __name__ == "__main__":
    sys.exit(main())
