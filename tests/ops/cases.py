"""The one list of op cases.

Every case is a tensor function, sizes for its symbols, and how its inputs are made. The same list
drives correctness on every target, speed, and the support matrix:

    python3 cases.py OUT.json                  writes the list for the runner
    op_cases OUT.json                          runs the reference evaluator
    op_cases OUT.json --isa x86-64-v4          and the compiled code against it
    python3 check_numpy.py OUT.json DUMP       compares the reference with NumPy

To add an op, add a call to the file of its family. `numpy` is what NumPy says the result is (a function
of the inputs and, if it names them, the sizes); leave it out where NumPy has no such function.
"""

import json
import sys

# Each adds its cases to the list, in this order.
import elementwise_cases  # noqa: F401
import movement_cases  # noqa: F401
import short_row_cases  # noqa: F401
import reduction_cases  # noqa: F401
import shared_column_cases  # noqa: F401
import block_column_cases  # noqa: F401
import matmul_cases  # noqa: F401
import conv_cases  # noqa: F401
import composite_cases  # noqa: F401
import widened_attention_cases  # noqa: F401
import head_width_cases  # noqa: F401
import grouped_cases  # noqa: F401
import recurrence_cases  # noqa: F401
import fourier_cases  # noqa: F401
import selection_cases  # noqa: F401
from case_list import CASES, apply_numpy  # noqa: F401

names = [c["name"] for c in CASES]
assert len(names) == len(set(names)), "two cases of one name: " + str(sorted({n for n in names if names.count(n) > 1}))


def write(path):
    with open(path, "w") as out:
        json.dump([{k: v for k, v in c.items() if k != "numpy"} for c in CASES], out, indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    write(sys.argv[1])
    print(f"{len(CASES)} cases", file=sys.stderr)
