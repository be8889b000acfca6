"""Models in plain JAX, on `knapper` beside JAX's own platform: forward and a step of training.

    .venv/bin/python bench/jax_speed.py [NAME... | --functions | --compiling] [--rounds 7]
    JAX_PLATFORMS=knapper,cuda,cpu python bench/jax_speed.py --peer cuda [--large]

Both platforms are in this process and run interleaved; outputs are compared first, and
the run fails where one differs. A line each: milliseconds, how often knapper is
faster, seconds of compilation (`lowered.compile()`). Last a few functions of large
arrays, and the time of a call of a small function. `--compiling` measures compilation
alone, by processor time, which other work on the machine moves little. `--peer cuda` is JAX's CUDA plugin,
with Knapper on the same GPU and float32 matmuls in float32 on both; `--large` are
models of a GPU's size in bf16, compared with both platforms' own results in float32.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
os.environ.setdefault("JAX_PLATFORMS", "knapper,cpu")
os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp())  # compiles are timed

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax_networks import LARGE, MODELS, random  # noqa: E402

import knapper.jax  # noqa: E402

TOLERANCE = 2e-4
PEER = "cpu"


def functions():
    """Of large arrays: a function and its arguments each."""
    places = random.integers(0, 100_000, 1_000_000).astype(np.int32)
    return {
        "threefry 2^24": (lambda seed: jax.random.bits(jax.random.wrap_key_data(seed), (1 << 24,)), np.array([0, 7], np.uint32)),
        "cumsum 4096 x 16384": (lambda x: jnp.cumsum(x, 1), random.standard_normal((4096, 16384)).astype(np.float32)),
        "sort 2^22": (jnp.sort, random.standard_normal(1 << 22).astype(np.float32)),
        "add 10^6 into 10^5": (lambda x, i, u: x.at[i].add(u), np.zeros(100_000, np.float32), places, random.standard_normal(1_000_000).astype(np.float32)),
    }  # fmt: skip


def training(forward):
    def loss(p, x):
        return (forward(p, x).astype(jnp.float32) ** 2).mean()

    def step(p, x):
        value, slopes = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, p, slopes)

    return step


def in_f32(forward, p, x):
    """What the forward function gives in float32, on the host."""
    wide = jax.tree.map(lambda each: np.asarray(each, np.float32) if each.dtype == jnp.bfloat16 else each, (p, x))
    with jax.default_device(jax.devices(PEER)[0]):
        return np.asarray(jax.jit(forward)(*wide))


def error(given, exact):
    """Of the norm."""
    given = np.asarray(given, np.float32)
    return float(np.linalg.norm(given - exact) / np.linalg.norm(exact))


def large(names, rounds):
    """Whether each is right: its error is at most 1.2 times the peer's, by the norm."""
    right = True
    for name in names or LARGE:
        forward, p, x = LARGE[name]()
        exact = in_f32(forward, p, x)
        times, first, outputs = measure(forward, (p, x), rounds)
        ours, theirs = (error(outputs[each], exact) for each in ("knapper", PEER))
        print(
            f"{name:20} knapper {times['knapper']:8.3f} ms, JAX {times[PEER]:8.3f} ms, {times[PEER] / times['knapper']:5.2f}x; "
            f"compiled in {first['knapper']:5.2f} s and {first[PEER]:5.2f} s; errors {ours:.2e} and {theirs:.2e}",
            flush=True,
        )
        right &= ours <= 1.2 * theirs
    return right


def difference(ours, theirs):
    most = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        scale = max(float(np.abs(b).max(initial=0)), 1e-6)
        most = max(most, float(np.abs(a - b).max(initial=0)) / scale)
    return most


def measure(function, arguments, rounds, calls=None):
    """Median milliseconds of a call, seconds of compiling, and the outputs, by platform."""
    times, first, outputs, ready = {}, {}, {}, {}
    for name in ("knapper", PEER):
        device = jax.devices(name)[0]
        placed = jax.device_put(arguments, device)
        jitted = jax.jit(function)
        lowered = jitted.lower(*placed)
        start = time.perf_counter()
        lowered.compile()
        first[name] = time.perf_counter() - start
        outputs[name] = jax.block_until_ready(jitted(*placed))
        ready[name] = (jitted, placed)
        times[name] = []
    for _ in range(rounds):
        for name, (jitted, placed) in ready.items():
            start = time.perf_counter()
            jax.block_until_ready(jitted(*placed))
            once = time.perf_counter() - start
            repeats = calls or max(1, min(200, int(0.05 / max(once, 1e-6))))
            start = time.perf_counter()
            for _ in range(repeats):
                result = jitted(*placed)
            jax.block_until_ready(result)
            times[name].append((time.perf_counter() - start) / repeats * 1e3)
    return {n: statistics.median(t) for n, t in times.items()}, first, outputs


def processor_times(names, rounds):
    """Prints the processor seconds of `lowered.compile()` on both, the median of fresh compilations in turns."""
    ratios, sums = [], {"knapper": 0.0, PEER: 0.0}
    for name in names or MODELS:
        forward, p, x = MODELS[name]()
        for kind, function in (("forward", forward), ("training", training(forward))):
            taken = {"knapper": [], PEER: []}
            for turn in range(rounds):
                for platform, each in taken.items():
                    # A constant of its own: neither side has this program in a cache.
                    changed = lambda p, x, by=turn: (function(p, x), jnp.float32(by))  # noqa: E731, B023
                    lowered = jax.jit(changed).lower(*jax.device_put((p, x), jax.devices(platform)[0]))
                    start = time.process_time()
                    lowered.compile()
                    each.append(time.process_time() - start)
            middle = {platform: statistics.median(each) for platform, each in taken.items()}
            ratios.append(middle["knapper"] / middle[PEER])
            sums = {platform: sums[platform] + middle[platform] for platform in sums}
            print(f"{name:18} {kind:9} knapper {middle['knapper']:6.3f} s, JAX {middle[PEER]:6.3f} s of the processor, {ratios[-1]:5.2f}", flush=True)
    print(
        f"compiling: {sums['knapper']:.2f} s and {sums[PEER]:.2f} s of the processor, geometric mean of the ratios "
        f"{statistics.geometric_mean(ratios):.2f}, {sum(r <= 0.5 for r in ratios)} of {len(ratios)} at most 0.5"
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS, *LARGE])
    parser.add_argument("--peer", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--large", action="store_true", help="models of a GPU's size alone")
    parser.add_argument("--functions", action="store_true", help="those of large arrays alone")
    parser.add_argument("--compiling", action="store_true", help="processor time of compilation alone")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    global PEER
    PEER = arguments.peer
    knapper.jax.install(device="cuda" if PEER == "cuda" else "cpu")
    if PEER == "cuda":
        jax.config.update("jax_default_matmul_precision", "highest")
    if arguments.large:
        return 0 if large(arguments.names, arguments.rounds) else 1
    if arguments.compiling:
        return processor_times(arguments.names, arguments.rounds)
    wrong, ratios = [], {"forward": [], "training": []}
    compiling = {"knapper": 0.0, PEER: 0.0}
    for name in () if arguments.functions else arguments.names or MODELS:
        forward, p, x = MODELS[name]()
        for kind, function in (("forward", forward), ("training", training(forward))):
            times, first, outputs = measure(function, (p, x), arguments.rounds)
            apart = difference(outputs["knapper"], outputs[PEER])
            ratio = times[PEER] / times["knapper"]
            ratios[kind].append(ratio)
            compiling["knapper"] += first["knapper"]
            compiling[PEER] += first[PEER]
            print(
                f"{name:18} {kind:9} knapper {times['knapper']:9.3f} ms, JAX {times[PEER]:9.3f} ms, {ratio:6.2f}x; "
                f"compiled in {first['knapper']:5.2f} s and {first[PEER]:5.2f} s; difference {apart:.1e}",
                flush=True,
            )
            if not apart <= TOLERANCE:
                wrong.append(f"{name} {kind}")
    for kind, each in () if arguments.functions else ratios.items():
        print(f"{kind}: geometric mean {statistics.geometric_mean(each):.2f}x, least {min(each):.2f}x")
    print(f"compiling: knapper {compiling['knapper']:.2f} s, JAX {compiling[PEER]:.2f} s")
    for name, (function, *given) in {} if arguments.names else functions().items():
        times, _, outputs = measure(function, given, arguments.rounds)
        apart = difference(outputs["knapper"], outputs[PEER])
        print(f"{name:20} knapper {times['knapper']:8.3f} ms, JAX {times[PEER]:9.3f} ms, {times[PEER] / times['knapper']:6.2f}x; difference {apart:.1e}", flush=True)
        if not apart <= TOLERANCE:
            wrong.append(name)
    small, _, _ = measure(lambda *x: sum(x), [np.ones(8, np.float32)] * 10, arguments.rounds, calls=2000)
    print(f"a call with ten arrays: knapper {small['knapper'] * 1e3:.1f} us, JAX {small[PEER] * 1e3:.1f} us")
    if wrong:
        print("outputs differ: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
