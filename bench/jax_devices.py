"""Programs over several devices of `knapper`, beside JAX's own CPU devices.

    .venv/bin/python bench/jax_devices.py [--rounds 5]

Both platforms are in this process and run interleaved; outputs are compared first, and
the run fails where one differs. A line each: microseconds a call until its results
are there, medians, and how often knapper is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ.setdefault("JAX_PLATFORMS", "knapper,cpu")
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python")]

import knapper.jax  # noqa: E402

knapper.jax.install(num_devices=4)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec as P  # noqa: E402

CALLS = 40
PLATFORMS = ("cpu", "knapper")


def loss(weights, x):
    y = x
    for w in weights:
        y = jnp.tanh(y @ w)
    return ((y - x) ** 2).mean()


def step(weights, x):
    gradients = lax.pmean(jax.grad(loss)(weights, x), "i")
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]


def programs(platform, count):
    """By name: a jitted function and its arguments, on `count` devices of the platform."""
    mesh = jax.make_mesh((count,), ("i",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices(platform)[:count])
    random = np.random.default_rng(0)

    def put(shape, *spec):
        return jax.device_put(random.standard_normal(shape).astype(np.float32) * 0.05, NamedSharding(mesh, P(*spec)))

    def mapped(body, in_specs, out_specs):
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False))

    small, large = put((4, 16), "i"), put((count, 1 << 20), "i")
    return {
        "element by element, 64 numbers": (jax.jit(lambda x: x + 1), small),
        "psum, 64 numbers": (mapped(lambda x: lax.psum(x, "i"), P("i"), P()), small),
        "psum, 4 MiB a device": (mapped(lambda x: lax.psum(x, "i"), P("i"), P()), large),
        "all_gather, 4 MiB a device": (mapped(lambda x: lax.all_gather(x, "i"), P("i"), P()), large),
        "training step, 4 layers of 512, 256 rows": (mapped(step, (P(), P("i")), P()), [put((512, 512)) for _ in range(4)], put((256, 512), "i")),
    }


def microseconds(function, *arguments):
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for count in (2, 4):
        by_platform = {platform: programs(platform, count) for platform in PLATFORMS}
        for name in by_platform["cpu"]:
            outputs = [jax.tree.leaves(function(*given)) for function, *given in (by_platform[p][name] for p in PLATFORMS)]
            if not all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(*outputs, strict=True)):
                print(f"{name} on {count} devices: the outputs differ")
                return 1
            times = {platform: [] for platform in PLATFORMS}
            for _ in range(rounds):
                for platform in PLATFORMS:
                    function, *given = by_platform[platform][name]
                    times[platform].append(microseconds(function, *given))
            theirs, ours = (statistics.median(times[platform]) for platform in PLATFORMS)
            print(f"{count} devices, {name}: {theirs:.0f} us, knapper {ours:.0f} us, {theirs / ours:.2f}x", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
