#!/usr/bin/env python3
"""Random programs of JAX on `knapper` beside JAX's own CPU.

    bench/jax_programs.py --cases 5000 --resume rows.jsonl
    bench/jax_programs.py --seed f00 --only 17
    bench/jax_programs.py --resume rows.jsonl --minimise

Program N of a seed is drawn from `seed:N` alone (bench/random_programs): 2 to 12 lines of
jnp, lax, jax.nn, jax.random, jax.scipy and jnp.linalg; inputs of any dtype and of sizes 0, 1
and primes; odd values; plain, or under grad, vmap, jvp, vmap of grad, checkpoint; some with
64 bits enabled. The seed is the commit's hash unless --seed says otherwise. Both platforms run in
one process; where they differ, float64 decides (program_compare.py). Each worker is a process: a
crash or a hang costs one program. Rows are appended to --resume as they come, and a second call
goes on behind them. --minimise writes the smallest program of each failure.

Exit status 1 where a program is wrong, an error of ours, a crash or a hang. What is refused is counted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "python")]

from drawn.search import Kind, search  # noqa: E402


def main() -> int:
    from random_programs import program_draw, program_minimise
    from random_programs.program_data import Program, record

    def setting(made: Any) -> str:
        return f"transform={made.transform} x64={made.x64} whole={made.whole}"

    process = ROOT / "bench" / "random_programs" / "program_process.py"
    kind = Kind("program", process, program_draw.program, Program.of, record, program_minimise.minimise, setting)
    return search(kind, __doc__)


if __name__ == "__main__":
    sys.exit(main())
