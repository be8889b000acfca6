"""A campaign of damaged programs: bytecode and text of five functions, one of them for
four devices, damaged each in so many ways and compiled up to the import.

    python tests/stablehlo/damage.py [--first SEED] [--count N]

`mutate.py` does it, a thousand at a time in a process of its own; a crash or a hang is
counted, its seed printed, and the rest goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE)]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax_models import program  # noqa: E402

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def function(x, i):
    taken = jnp.take(x, i, axis=0), x.at[i].add(1.0), jnp.argmax(x, 1)
    last, all = lax.scan(lambda c, t: (c + t, c * t), jnp.zeros(5), x)
    chosen = lax.cond(x[0, 0] > 0, lambda: jax.nn.softmax(x), lambda: lax.sort(x))
    return taken, last, all, chosen, jnp.cumsum(x, 1) @ jnp.ones((5, 3))


def convolved(x, w):
    y = lax.conv(x, w, (1, 1), "SAME")
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "SAME")


def larger(a, b):
    return lax.select(jnp.where(a.real == b.real, a.imag > b.imag, a.real > b.real), a, b)


def complexes(z):
    return lax.reduce(z, np.complex64(-1), larger, (1,)), z.prod(0)


def mixed_region(z, x):
    """A region that takes and gives complex and real numbers, and a window of real ones."""
    def both(a, b):
        return a[0] * b[0] + lax.complex(b[1], a[1]), a[1] + abs(b[0])

    taken = lax.reduce((z, x), (np.complex64(1), np.float32(0)), both, (1,))
    return taken, lax.reduce_window(x, np.float32(0), lambda a, b: a + lax.complex(a, b).imag, (1, 5), (1, 1), ((0, 0), (4, 0)))


FOR_DEVICES = """
import jax, jax.export, sys, numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

def part(x, w):
    y = lax.scan(lambda c, _: (lax.psum(c, "a") + lax.ppermute(c, "b", [(0, 1), (1, 0)]), None), x @ w, None, length=2)[0]
    return lax.psum_scatter(y, "a", tiled=True), lax.all_gather(y, "b"), lax.all_to_all(x, ("a", "b"), 0, 0, tiled=True)

def function(x, w):
    inner = jax.shard_map(part, mesh=mesh, in_specs=(P("a"), P()), out_specs=(P("a"), P(), P(("a", "b"))), check_vma=False)
    y, z, t = inner(jax.numpy.tanh(x) * 2, w)
    return lax.with_sharding_constraint(y + 1, NamedSharding(mesh, P("b"))), z, t

x = jax.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(mesh, P("a")))
exported = jax.export.export(jax.jit(function))(x, np.ones((4, 4), np.float32))
open(sys.argv[1], "wb").write(exported.mlir_module_serialized)
"""


def write_programs(folder: Path) -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-c", FOR_DEVICES, str(folder / "devices")], check=True, env=os.environ | flags)
    i = np.array([1, 2, 0, 3], np.int32)
    x, w = np.ones((1, 3, 6, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    for name, exported in (
        ("mixed", program(function, X, i)),
        ("complexes", program(complexes, X.astype(np.complex64))),
        ("regions", program(mixed_region, X.astype(np.complex64), X)),
        ("convolved", program(jax.grad(lambda x, w: convolved(x, w).sum()), x, w)),
    ):
        (folder / name).write_bytes(exported.mlir_module_serialized)
        (folder / f"{name}.mlir").write_text(exported.mlir_module())


def batch(folder: Path, first: int, count: int) -> tuple[int, str]:
    """How many of `count` ran, and how the process ended where it did so before the last."""
    command = [sys.executable, str(HERE / "mutate.py"), str(folder), str(first), str(count)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "python")}
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment, check=False)
        output, ended = run.stdout, f"ended with {run.returncode}"
    except subprocess.TimeoutExpired as hung:
        output, ended = (hung.stdout or b"").decode(), "hangs"
    if "\nrefused " in output:
        return count, ""
    last = output.splitlines()[-1].rpartition(" ")[2]
    if last == "undamaged":
        sys.exit(f"{output}\nends on a program as it is")
    return int(last) + 1 - first, ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000, help="of each of the nine programs")
    arguments = parser.parse_args()
    broken, ran = 0, 0
    with tempfile.TemporaryDirectory() as name:
        write_programs(Path(name))
        for path in sorted(Path(name).iterdir()):
            folder = Path(name) / f"only {path.name}"
            folder.mkdir()
            path.rename(folder / path.name)
            at, end = arguments.first, arguments.first + arguments.count
            while at < end:
                done, ended = batch(folder, at, min(1000, end - at))
                at, ran = at + done, ran + done
                if ended:
                    broken += 1
                    print(f"{path.name}: seed {at - 1} {ended}", flush=True)
            print(f"{path.name}: {arguments.count} from {arguments.first} on", flush=True)
    print(f"{ran} damaged programs: {broken} crashes or hangs")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
