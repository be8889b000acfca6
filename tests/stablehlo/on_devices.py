"""Several devices of `knapper` in one process.

    python on_devices.py            # exit status 1 and names where one differs

A process of its own: JAX looks for its devices once.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python")]

import knapper.jax  # noqa: E402

knapper.jax.install(threads=1, num_devices=3)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
DEVICES = jax.devices("knapper")


def there_are_three():
    names = [(d.id, str(d), d.local_hardware_id, d.memory("device").kind) for d in DEVICES]
    return "" if names == [(i, f"knapper:{i}", i, "device") for i in range(3)] else f"{names}"


def runs_on_each():
    function = jax.jit(lambda x: jnp.tanh(x @ x.T))
    for device in DEVICES:
        y = function(jax.device_put(X, device))
        if y.devices() != {device} or not np.allclose(np.asarray(y), np.tanh(X @ X.T), rtol=1e-5, atol=1e-6):
            return f"{device}: {y.devices()}"
        with jax.default_device(device):
            if (jnp.arange(4) + 1).devices() != {device}:
                return f"{device} as the default"
    return ""


def arrays_move():
    """A copy on another device is whole when its source is given away."""
    step = jax.jit(lambda x: x * 2, donate_argnums=0)
    x = jax.device_put(X, DEVICES[0]) + 0
    copy = jax.device_put(x, DEVICES[2])
    step(x)
    if copy.devices() != {DEVICES[2]} or not np.array_equal(np.asarray(copy), X):
        return "the copy is on another device or has changed"
    try:
        jax.jit(lambda x, y: x + y)(jax.device_put(X, DEVICES[0]), copy)
    except ValueError as error:
        return "" if "incompatible devices" in str(error) else f"another error: {error}"
    return "arguments on two devices were taken"


def memory_is_counted_by_device():
    before = [d.memory_stats()["bytes_in_use"] for d in DEVICES]
    x = jax.block_until_ready(jax.device_put(np.ones(1 << 20, np.float32), DEVICES[1]) + 1)
    held = [d.memory_stats()["bytes_in_use"] - b for d, b in zip(DEVICES, before, strict=True)]
    del x
    # What was there before may go meanwhile.
    return "" if held[1] >= 4 << 20 and held[0] <= 0 and held[2] <= 0 else f"{held}"


def queues_are_apart():
    """A long run on one device holds up none on another."""
    long = jax.jit(lambda x: lax.fori_loop(0, 3000, lambda i, y: jnp.tanh(y @ x) * 0.5, x))
    short = jax.jit(lambda x: lax.fori_loop(0, 20, lambda i, y: jnp.tanh(y @ x) * 0.5, x))
    x = [jax.device_put(np.eye(256, dtype=np.float32), d) for d in DEVICES]
    for function, device in ((long, 0), (short, 1)):
        jax.block_until_ready(function(x[device]))
    for _ in range(20):  # other work on the machine may hold up this thread until the long run has ended
        start = time.perf_counter()
        slow = long(x[0])
        jax.block_until_ready(short(x[1]))
        between, waits = time.perf_counter() - start, not slow.is_ready()
        jax.block_until_ready(slow)
        if waits:
            break
    return "" if waits else f"the short run ended after {between:.3f} s, the long one in {time.perf_counter() - start:.3f} s"


def executables_keep_their_device():
    from jax.experimental import serialize_executable

    x = jax.device_put(X, DEVICES[1])
    compiled = jax.jit(lambda x: x * 3).lower(x).compile()
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled), execution_devices=[DEVICES[1]])
    y = again(x)
    return "" if y.devices() == {DEVICES[1]} and np.array_equal(np.asarray(y), X * 3) else f"{y.devices()}"


def traces_tell_devices_apart():
    function = jax.jit(lambda x: jnp.tanh(x @ x.T))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for device in DEVICES[1:]:
                jax.block_until_ready(function(jax.device_put(X, device)))
        planes = [p for file in Path(folder).rglob("*.xplane.pb") for p in jax.profiler.ProfileData.from_file(str(file)).planes]
    found = {p.name.rpartition("knapper:")[2]: len(list(line.events)) for p in planes if "knapper" in p.name for line in p.lines}
    return "" if set(found) == {"1", "2"} and all(found.values()) else f"{[p.name for p in planes]}, {found}"


def arrays_in_parts():
    """Arrays lie in parts on several devices."""
    mesh = jax.make_mesh((3,), ("i",), axis_types=(jax.sharding.AxisType.Auto,), devices=DEVICES)
    x = jax.device_put(X, NamedSharding(mesh, PartitionSpec("i")))
    parts = [(s.device, s.data.shape) for s in x.addressable_shards]
    if parts != [(d, (2, 4)) for d in DEVICES] or not np.array_equal(np.asarray(x), X):
        return f"{parts}"
    y = jax.jit(lambda x: x + 1)(x)
    return "" if y.sharding == x.sharding and np.array_equal(y, X + 1) else f"{y.sharding}: {y}"


def main() -> int:
    checks = (
        there_are_three, runs_on_each, arrays_move, memory_is_counted_by_device,
        queues_are_apart, executables_keep_their_device, traces_tell_devices_apart, arrays_in_parts,
    )  # fmt: skip
    bad = {check.__name__: what for check in checks if (what := check())}
    for name, what in bad.items():
        print(f"{name}: {what}")
    print(f"{len(checks) - len(bad)} of {len(checks)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
