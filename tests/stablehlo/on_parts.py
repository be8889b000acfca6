"""Programs that run on several devices of `knapper` together, beside JAX's CPU.

    python on_parts.py            # exit status 1 and names where one differs

A process of its own: JAX looks for its devices once.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from functools import partial
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python")]

import knapper.jax  # noqa: E402

knapper.jax.install(threads=1, num_devices=4)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 12)).astype(np.float32)
W = RNG.standard_normal((12, 8)).astype(np.float32)
BIG = RNG.standard_normal((8, 30011)).astype(np.float32)  # more than is gathered at once, and no multiple of 4


def mesh_of(platform, shape, names):
    count = int(np.prod(shape))
    axis_types = (jax.sharding.AxisType.Auto,) * len(shape)
    return jax.make_mesh(shape, names, axis_types=axis_types, devices=jax.devices(platform)[:count])


def mapped(body, shape, names, in_specs, out_specs, **options):
    """By platform: the body over parts."""

    def on(platform):
        mesh = mesh_of(platform, shape, names)
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False), **options)

    return on


def differs(given, wanted, rtol=1e-5, atol=1e-5):
    given, wanted = jax.tree.leaves(given), jax.tree.leaves(wanted)
    for i, (g, w) in enumerate(zip(given, wanted, strict=True)):
        if g.shape != w.shape or g.dtype != w.dtype or len(g.devices()) != len(w.devices()):
            return f"result {i}: {g.dtype}{g.shape} on {len(g.devices())}, wanted {w.dtype}{w.shape} on {len(w.devices())}"
        if {s.index for s in map(Shard, g.addressable_shards)} != {s.index for s in map(Shard, w.addressable_shards)}:
            return f"result {i} lies in other parts: {g.sharding}, wanted {w.sharding}"
        if not np.allclose(np.asarray(g, np.complex128), np.asarray(w, np.complex128), rtol=rtol, atol=atol, equal_nan=True):
            return f"result {i}: {np.asarray(g)}, wanted {np.asarray(w)}"
    return ""


class Shard:
    def __init__(self, shard):
        self.index = str(shard.index)


def same(on, *arguments):
    """Both platforms give the same."""
    return differs(on("knapper")(*arguments), on("cpu")(*arguments))


ROW = P("i")
RING = [(i, (i + 1) % 4) for i in range(4)]
#: name: (body, in_specs, out_specs, arguments), on 4 and on 2 devices in a row
COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), ROW, P(), (X,)),
    "psum of a large tensor": (lambda x: lax.psum(x, "i"), ROW, P(), (BIG,)),
    "psum of integers": (lambda x: lax.psum(x, "i"), ROW, P(), ((X * 10).astype(np.int32),)),
    "psum of small integers": (lambda x: lax.psum(x, "i"), ROW, P(), ((X * 40).astype(np.int8),)),
    "psum of unsigned numbers": (lambda x: lax.psum(x, "i"), ROW, P(), ((X * 1e9).astype(np.int64).astype(np.uint32),)),
    "psum of a large tensor of f16": (lambda x: lax.psum(x, "i").astype(jnp.float32), ROW, P(), (np.round(BIG * 4).astype(np.float16),)),
    "psum of bf16": (lambda x: lax.psum(x, "i").astype(jnp.float32), ROW, P(), (np.round(X * 4).astype(jnp.bfloat16),)),
    "psum of complex numbers": (lambda x: lax.psum(x, "i"), ROW, P(), (X + 2j * X[::-1],)),
    "psum of a tree": (lambda x, y: lax.psum({"x": x, "y": (y, 1)}, "i"), (ROW, ROW), P(), (X, X[:, 0])),
    "pmean": (lambda x: lax.pmean(x, "i"), ROW, P(), (X,)),
    "pmax": (lambda x: lax.pmax(x, "i"), ROW, P(), (X,)),
    "pmin": (lambda x: lax.pmin(x, "i"), ROW, P(), (X,)),
    "pmax of a large tensor": (lambda x: lax.pmax(x, "i"), ROW, P(), (BIG,)),
    "all_gather": (lambda x: lax.all_gather(x, "i"), ROW, P(), (X,)),
    "all_gather along dim 1": (lambda x: lax.all_gather(x, "i", axis=1), ROW, P(), (X,)),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), ROW, P(), (X,)),
    "all_gather tiled along dim 1": (lambda x: lax.all_gather(x, "i", axis=1, tiled=True), P(None, "i"), P(), (X,)),
    "all_gather of booleans": (lambda x: lax.all_gather(x, "i"), ROW, P(), (X > 0,)),
    "all_gather of float8": (lambda x: lax.all_gather(x, "i").astype(jnp.float32), ROW, P(), (X.astype(jnp.float8_e4m3fn),)),
    "psum of float8_e5m2": (lambda x: lax.psum(x.astype(jnp.float32), "i"), ROW, P(), (X.astype(jnp.float8_e5m2),)),
    "ppermute of int4": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]).astype(jnp.int32), ROW, ROW, (np.clip(X * 3, -7, 7).astype(jnp.int4),)),
    "psum by groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[i, i + 1] for i in range(0, lax.axis_size("i"), 2)]), ROW, ROW, (X,)),
    "pmax of booleans": (lambda x: lax.pmax(x, "i"), ROW, P(), (X > 0.5,)),
    "an empty psum": (lambda x: lax.psum(x[:0], "i"), ROW, P(), (X,)),
    "random numbers of each device": (lambda x: x + jax.random.normal(jax.random.fold_in(jax.random.key(3), lax.axis_index("i")), x.shape), ROW, ROW, (X,)),
    "vmap over a named axis too": (lambda x: jax.vmap(lambda r: lax.psum(r, ("i", "v")), axis_name="v")(x), ROW, P(), (X,)),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]), ROW, ROW, (X,)),
    "ppermute to a ring": (lambda x: lax.ppermute(x, "i", [(i, (i + 1) % lax.axis_size("i")) for i in range(lax.axis_size("i"))]), ROW, ROW, (X,)),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", list(reversed(range(lax.axis_size("i"))))), ROW, ROW, (X,)),
    "all_to_all": (lambda x: lax.all_to_all(x.reshape(-1, 4, 3), "i", 1, 0, tiled=True), ROW, ROW, (X,)),
    "all_to_all of whole dims": (lambda x: lax.all_to_all(x.reshape(lax.axis_size("i"), -1), "i", 0, 0), ROW, ROW, (X,)),
    "all_to_all along dim 1": (lambda x: lax.all_to_all(x, "i", 1, 1, tiled=True), ROW, ROW, (X,)),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True), ROW, P(None, "i"), (X,)),
    "psum_scatter of whole dims": (lambda x: lax.psum_scatter(x[:, : lax.axis_size("i")], "i", scatter_dimension=1), ROW, ROW, (X,)),
    "axis_index": (lambda x: x + 10 * lax.axis_index("i"), ROW, ROW, (X,)),
    "logsumexp over devices": (lambda x: jnp.log(lax.psum(jnp.exp(x - lax.pmax(x.max(), "i")).sum(), "i")), ROW, P(), (X,)),
    "a matmul in parts": (lambda x, w: lax.psum(x @ w, "i"), (P(None, "i"), P("i")), P(), (X, W)),
    "a ring of matmuls": (
        lambda x: lax.fori_loop(0, 3, lambda _, c: (lax.ppermute(c[0], "i", [(0, 1), (1, 0)]), c[1] + c[0] @ c[0].T), (x, x @ x.T))[1],
        ROW, ROW, (X,),
    ),
    "scan with psum": (lambda x: lax.scan(lambda c, r: (c + lax.psum(r.sum(), "i"), c), jnp.float32(0), x)[1], ROW, ROW, (X,)),
    "cond with psum": (lambda x: lax.cond(lax.psum(x.sum(), "i") > 0, lambda y: lax.psum(y, "i"), lambda y: -y, x), ROW, ROW, (X,)),
    "parts given back as they are": (lambda x: x, ROW, ROW, (X,)),
    "whole arguments, results in parts": (lambda x: x * (1 + lax.axis_index("i")), P(), ROW, (X,)),
}  # fmt: skip


def collectives():
    bad = []
    for count in (4, 2):
        for name, (body, in_specs, out_specs, arguments) in COLLECTIVES.items():
            if what := same(mapped(body, (count,), ("i",), in_specs, out_specs), *arguments):
                bad.append(f"{name} on {count}: {what}")
    return "\n  ".join(bad)


def two_axes():
    def body(x, w):
        return (
            lax.psum(x, "a"), lax.all_gather(x, "b"), lax.psum_scatter(w, "b", tiled=True), lax.pmax(x, ("a", "b")),
            lax.ppermute(x, "b", [(0, 1), (1, 0)]), lax.axis_index("a") * 10 + lax.axis_index("b") + w * 0,
            lax.axis_index(("b", "a")) + w * 0, lax.all_to_all(x, ("a", "b"), 0, 0, tiled=True) if x.shape[0] % 4 == 0 else x,
        )  # fmt: skip

    out = (P(None, "b"), P(None, "a"), P(("a", "b")), P(), P("a", "b"), P("a", "b"), P("a", "b"), P("a", "b"))
    return same(mapped(body, (2, 2), ("a", "b"), (P("a", "b"), P("a")), out), X, W)


def parts_by_two_axes():
    on = mapped(lambda x: x + lax.axis_index(("a", "b")), (2, 2), ("a", "b"), P(("b", "a")), P(("a", "b")))
    return same(on, X)


def other_orders_of_devices():
    def on(platform):
        devices = np.array(jax.devices(platform))[[2, 0, 3, 1]].reshape(2, 2)
        mesh = jax.sharding.Mesh(devices, ("a", "b"))
        return jax.jit(jax.shard_map(lambda x: lax.ppermute(x, "b", [(0, 1)]) + lax.axis_index("a"), mesh=mesh, in_specs=P("a", "b"), out_specs=P("b", "a")))

    what = same(on, X[:, :8])
    shards = {s.device.id: str(s.index) for s in on("knapper")(X[:, :8]).addressable_shards}
    wanted = {s.device.id: str(s.index) for s in on("cpu")(X[:, :8]).addressable_shards}
    return what or ("" if shards == wanted else f"{shards}, wanted {wanted}")


def subset_of_devices():
    devices = jax.devices("knapper")
    mesh = jax.sharding.Mesh(np.array([devices[3], devices[1]]), ("i",))
    y = jax.jit(jax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))(X)
    good = y.devices() == {devices[1], devices[3]} and np.allclose(y, X[:4] + X[4:], atol=1e-6)
    return "" if good else f"{y.devices()}: {y}"


def pmaps():
    def on(platform, **options):
        devices = jax.devices(platform)
        return jax.pmap(lambda x, y: (lax.psum(x * y, "i"), lax.axis_index("i"), x - lax.pmean(x, "i")), axis_name="i", devices=devices, **options)

    x = X[:4]
    bad = [
        differs(on("knapper")(x, x + 1), on("cpu")(x, x + 1)),
        differs(on("knapper", in_axes=(0, None))(x, np.float32(3)), on("cpu", in_axes=(0, None))(x, np.float32(3))),
        differs(on("knapper", in_axes=(1, 1), out_axes=(None, 0, 1))(W[:, :4], W[:, 4:]), on("cpu", in_axes=(1, 1), out_axes=(None, 0, 1))(W[:, :4], W[:, 4:])),
    ]
    return "; ".join(filter(None, bad))


def network(parameters, x):
    for w, b in parameters[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def start():
    rng = np.random.default_rng(1)
    sizes = (12, 32, 32, 5)
    return [(rng.standard_normal((m, n)).astype(np.float32) * 0.3, np.zeros(n, np.float32)) for m, n in zip(sizes, sizes[1:], strict=False)]


def batches():
    rng = np.random.default_rng(2)
    return [(rng.standard_normal((16, 12)).astype(np.float32), rng.standard_normal((16, 5)).astype(np.float32)) for _ in range(4)]


def loss(parameters, x, y):
    return ((network(parameters, x) - y) ** 2).mean()


def momentum(parameters, moments, gradients):
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradients)
    return jax.tree.map(lambda p, m: p - 0.05 * m, parameters, moments), moments


def trains_by_shard_map():
    def step(parameters, moments, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        value, gradients = lax.pmean((value, gradients), "i")
        return *momentum(parameters, moments, gradients), value

    bad = []
    for count in (2, 4):
        ends = {}
        for platform in ("knapper", "cpu"):
            run = mapped(step, (count,), ("i",), (P(), P(), P("i"), P("i")), (P(), P(), P()), donate_argnums=(0, 1))(platform)
            parameters, losses = start(), []
            moments = jax.tree.map(np.zeros_like, parameters)
            for x, y in batches():
                parameters, moments, value = run(parameters, moments, x, y)
                losses.append(float(value))
            ends[platform] = (parameters, losses)
        bad.append(differs(ends["knapper"][0], ends["cpu"][0], 1e-4, 1e-5))
        bad.append("" if np.allclose(*[ends[p][1] for p in ends], rtol=1e-4) else f"{ends['knapper'][1]}, wanted {ends['cpu'][1]}")
    return "; ".join(filter(None, bad))


def trains_through_shard_map():
    """The gradient is taken outside: the map's own gradient communicates."""

    def on(platform):
        mesh = mesh_of(platform, (4,), ("i",))
        mapped_loss = jax.shard_map(lambda p, x, y: lax.pmean(loss(p, x, y), "i"), mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=P())

        def step(parameters, moments, x, y):
            value, gradients = jax.value_and_grad(mapped_loss)(parameters, x, y)
            return *momentum(parameters, moments, gradients), value

        return jax.jit(step)

    zeros = jax.tree.map(np.zeros_like, start())
    return same(on, start(), zeros, *batches()[0])


def trains_by_pmap():
    def on(platform):
        devices = jax.devices(platform)

        @partial(jax.pmap, axis_name="i", devices=devices, in_axes=(None, 0, 0))
        def step(parameters, x, y):
            gradients = lax.pmean(jax.grad(loss)(parameters, x, y), "i")
            return jax.tree.map(lambda p, g: p - 0.05 * g, parameters, gradients)

        return step

    x, y = batches()[0]
    return same(on, start(), x.reshape(4, 4, 12), y.reshape(4, 4, 5))


def layers_in_parts():
    """Tensor parallelism: columns of the first matrix, rows of the second."""

    def body(x, w, v):
        return lax.psum(jax.nn.relu(x @ w) @ v, "b")

    on = mapped(body, (2, 2), ("a", "b"), (P("a"), P(None, "b"), P("b")), P("a"))
    return same(on, X, W, np.ascontiguousarray(W.T))


def outside_of_maps():
    """Ops of whole tensors, and of tensors in the same parts."""

    def on(platform):
        mesh = mesh_of(platform, (2, 2), ("a", "b"))
        first = jax.shard_map(lambda x: lax.psum(x, "a"), mesh=mesh, in_specs=P("a"), out_specs=P())
        second = jax.shard_map(lambda x: lax.pmean(x, "b"), mesh=mesh, in_specs=P(None, "b"), out_specs=P(None))

        def function(x, w):
            y = second(jnp.tanh(first(x * 2 + 1)) @ w)
            return y.sum(), y, jnp.sin(x) * x + x.T.T, jnp.where(x > 0, x, 0)

        def call(x, w):
            return jax.jit(function)(jax.device_put(x, NamedSharding(mesh, P("a"))), w)

        return call

    return same(on, X, W)


def shardings_change():
    """Constraints of the program and of jit move parts."""

    def on(platform):
        mesh = mesh_of(platform, (2, 2), ("a", "b"))
        to = [NamedSharding(mesh, s) for s in (P("b", "a"), P(), P(("b", "a")), P(None, "a"))]

        def function(x):
            y = lax.with_sharding_constraint(x + 1, to[0])
            return y, y, lax.with_sharding_constraint(y * 2, to[2]), x

        jitted = jax.jit(function, out_shardings=tuple(to))
        return lambda x: jitted(jax.device_put(x, NamedSharding(mesh, P("a", "b"))))

    return same(on, X)


def whole_arrays():
    """What lies on every device whole is computed there, whatever it is."""

    def on(platform):
        whole = NamedSharding(mesh_of(platform, (4,), ("i",)), P())
        function = jax.jit(lambda x, w: ((x @ w).sum(), jnp.sort(x, 0), x[2], jnp.linalg.inv(x[:, :8])))
        return lambda x, w: function(jax.device_put(x, whole), jax.device_put(w, whole))

    return same(on, X, W)


def maps_are_transformed():
    def on(platform):
        mesh = mesh_of(platform, (4,), ("i",))
        f = jax.shard_map(lambda x, w: lax.psum(jnp.tanh(x @ w), "i"), mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P())
        gradient = jax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))
        return jax.jit(lambda x, w: (jax.jvp(f, (x, w), (x, w)), gradient(x, w), jax.vmap(lambda x: f(x[None], w)[0])(x)))

    return same(on, X, W)


def elementwise():
    """Without a map: arrays in parts, element by element."""

    def on(platform):
        sharding = NamedSharding(mesh_of(platform, (4,), ("i",)), P("i"))

        def call(x):
            x = jax.device_put(x, sharding)
            return x + 1, -x * x, jnp.maximum(x, 0).astype(jnp.bfloat16).astype(jnp.float32), jnp.exp(x) / 2

        return call

    return same(on, X)


def loops_around_maps():
    def on(platform):
        mesh = mesh_of(platform, (4,), ("i",))
        row = jax.shard_map(lambda x: x - lax.pmean(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P("i"))

        @jax.jit
        def function(x):
            x, _ = lax.scan(lambda c, _: (row(jnp.tanh(c) + 1), None), x, None, length=3)
            return lax.cond(True, row, lambda y: y, x) if platform == "cpu" else row(x)

        return lambda x: function(jax.device_put(x, NamedSharding(mesh, P("i"))))

    return same(on, X)


def maps_in_maps():
    """Of one axis in another, and one after the other."""

    def on(platform):
        mesh = mesh_of(platform, (2, 2), ("a", "b"))

        def inner(y):
            return lax.psum(y, "b") + lax.axis_index("b")

        def outer(x):
            part = jax.shard_map(inner, in_specs=P(None, "b"), out_specs=P(), axis_names={"b"}, check_vma=False)
            return part(x * 2) + lax.psum(x.sum(), "a") * (1 + lax.axis_index("a"))

        nested = jax.shard_map(outer, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False)
        first = jax.shard_map(lambda x: x * (1 + lax.axis_index("a")), mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
        then = jax.shard_map(lambda x: lax.psum(x, "b"), mesh=mesh, in_specs=P(None, "b"), out_specs=P(), axis_names={"b"})
        to = NamedSharding(mesh, P("a"))
        return jax.jit(lambda x: (nested(x), then(first(x))), out_shardings=(to, to))

    return same(on, X)


def explicit_axes():
    """Of meshes whose shardings are part of types in JAX."""

    def on(platform):
        mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,), devices=jax.devices(platform))
        function = jax.jit(jax.shard_map(lambda x: (lax.psum(x, "i"), x * 2), mesh=mesh, in_specs=P("i"), out_specs=(P(), P("i"))))
        scaled = jax.jit(lambda x: jnp.tanh(x) * 3 - x)

        def call(x):
            total, twice = function(jax.device_put(x, NamedSharding(mesh, P("i"))))
            return total, scaled(twice)

        return call

    return same(on, X)


def needs_the_partitioner():
    mesh = mesh_of("knapper", (4,), ("i",))
    x = jax.device_put(X, NamedSharding(mesh, P("i")))
    for function, op in ((lambda x: x.sum(), "reduce"), (lambda x: x @ W, "dot_general"), (lambda x: jnp.sort(x, axis=0), "sort")):
        try:
            jax.jit(function)(x)
        except Exception as error:
            text = str(error)
            if not all(part in text for part in ("partitioner for automatic shardings", f"{op}(tensor<2x12xf32> in parts 4x1", "jax.shard_map", "on_parts.py:")):
                return f"{op}: another error: {text}"
        else:
            return f"{op}: a program that needs a partitioner was taken"
    return ""


def errors_reach_all():
    """A device that fails ends the run of all, and the next run is whole."""
    calls = []

    def fails(x, device):
        calls.append(int(device))
        if device == 2 and x.sum() > 100:
            raise ValueError("device two gives up")
        return x

    def body(x):
        y = jax.pure_callback(fails, jax.ShapeDtypeStruct(x.shape, x.dtype), x, lax.axis_index("i"))
        return lax.psum(y, "i"), y

    run = mapped(body, (4,), ("i",), P("i"), (P(), P("i")))("knapper")
    if what := differs(run(X), mapped(lambda x: (lax.psum(x, "i"), x), (4,), ("i",), P("i"), (P(), P("i")))("cpu")(X)):
        return what
    found = []
    try:
        total, rows = run(X + 100)
        for shard in [*total.addressable_shards, *rows.addressable_shards]:
            try:
                np.asarray(shard.data)
            except Exception as error:
                found.append(str(error))
    except Exception as error:
        found = [str(error)] * 8
    if len(found) != 8 or not all("device two gives up" in text for text in found):
        return f"{len(found)} of 8 shards fail: {found[:2]}"
    again, _ = run(X)
    return "" if np.allclose(again, X.reshape(4, 2, 12).sum(0), atol=1e-5) else "the next run is wrong"


def ways_that_part():
    """Devices that do not come to a meeting are told, not waited for."""
    body = lambda x: lax.while_loop(lambda c: c[0] < lax.axis_index("i"), lambda c: (c[0] + 1, lax.psum(c[1], "i")), (0, x))[1]  # noqa: E731
    run = mapped(body, (4,), ("i",), P("i"), P("i"))("knapper")
    try:
        jax.block_until_ready(run(X))
    except Exception as error:
        return "" if "the devices of the run wait for each other" in str(error) else f"another error: {error}"
    return "no error"


def gives_away():
    step = mapped(lambda x, y: (x + lax.ppermute(y, "i", RING), y), (4,), ("i",), (P("i"), P("i")), (P("i"), P("i")), donate_argnums=0)("knapper")
    mesh = mesh_of("knapper", (4,), ("i",))
    x, y = (jax.device_put(a, NamedSharding(mesh, P("i"))) + 0 for a in (X, X))
    jax.block_until_ready((x, y))
    before = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
    z, _ = step(x, y)
    after = [s.data.unsafe_buffer_pointer() for s in z.addressable_shards]
    if not x.is_deleted() or before != after:
        return f"deleted: {x.is_deleted()}, the same memory: {before == after}"
    return "" if np.allclose(z, X + np.roll(X, 2, axis=0), atol=1e-6) else "wrong"


def gives_away_what_others_read():
    """Memory that is given away is not written while others read it."""
    bodies = {
        "ppermute": lambda x: lax.ppermute(x, "i", RING),
        "psum": lambda x: lax.psum(x, "i"),
        "all_to_all": lambda x: lax.all_to_all(x.reshape(4, -1), "i", 0, 0, tiled=True).reshape(x.shape),
        "psum_scatter": lambda x: lax.all_gather(lax.psum_scatter(x.reshape(-1), "i", tiled=True), "i", tiled=True).reshape(x.shape),
    }
    given_away = BIG[:, :30008]
    for name, body in bodies.items():
        given, wanted = (mapped(body, (4,), ("i",), P("i"), P("i"), donate_argnums=donated)(platform) for platform, donated in (("knapper", 0), ("cpu", ())))
        y = wanted(given_away)
        for _ in range(5):
            x = jax.device_put(given_away, NamedSharding(mesh_of("knapper", (4,), ("i",)), P("i"))) + 0
            if what := differs(given(x), y, 1e-4, 1e-4):
                return f"{name}: {what}"
    return ""


def many_at_once():
    """Threads that run programs of several devices beside each other."""
    run = mapped(lambda x: lax.psum(jnp.tanh(x), "i"), (4,), ("i",), P("i"), P())("knapper")
    other = mapped(lambda x: lax.all_gather(x, "i", tiled=True), (2,), ("i",), P("i"), P())("knapper")
    wanted, bad = np.asarray(run(X)), []
    other(X)

    def work():
        for _ in range(25):
            a, b = run(X), other(X)
            if not np.array_equal(a, wanted) or not np.array_equal(b, X):
                bad.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{len(bad)} wrong" if bad else ""


def memory_is_flat():
    run = mapped(lambda x: x - 0.1 * lax.pmean(x, "i"), (4,), ("i",), P("i"), P("i"), donate_argnums=0)("knapper")
    x = run(BIG)
    for _ in range(20):
        x = run(x)
    jax.block_until_ready(x)
    used = [d.memory_stats()["bytes_in_use"] for d in jax.devices("knapper")]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        x = run(x)
    jax.block_until_ready(x)
    grown = [d.memory_stats()["bytes_in_use"] - u for d, u in zip(jax.devices("knapper"), used, strict=True)]
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    return "" if grown == [0] * 4 and more < 4096 else f"{grown} bytes more, {more} KiB of the process"


def executables_are_kept():
    from jax.experimental import serialize_executable

    mesh = mesh_of("knapper", (4,), ("i",))
    x = jax.device_put(X, NamedSharding(mesh, P("i")))
    compiled = jax.jit(jax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())).lower(x).compile()
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled), execution_devices=jax.devices("knapper"))
    y = again(x)
    return "" if len(y.devices()) == 4 and np.array_equal(y, compiled(x)) else f"{y}"


def callbacks_of_each():
    seen = []

    def body(x):
        jax.debug.callback(lambda i, s: seen.append((int(i), float(s))), lax.axis_index("i"), x.sum())
        return x + 1

    y = mapped(body, (4,), ("i",), P("i"), P("i"))("knapper")(X)
    jax.block_until_ready(y)
    jax.effects_barrier()
    wanted = [(i, float(part.sum())) for i, part in enumerate(X.reshape(4, 2, 12))]
    return "" if np.allclose(sorted(seen), wanted, atol=1e-4) and np.allclose(y, X + 1) else f"{sorted(seen)}, wanted {wanted}"


def broadcasts():
    """One device's part to all; JAX's CPU has none."""
    run = mapped(lambda x: lax.pbroadcast(x, "i", 2), (4,), ("i",), P("i"), P("i"))("knapper")
    groups = mapped(lambda x: lax.pbroadcast(x, "b", 1), (2, 2), ("a", "b"), P(("a", "b")), P(("a", "b")))("knapper")
    good = np.array_equal(run(X), np.tile(X[4:6], (4, 1))) and np.array_equal(groups(X), np.concatenate([X[2:4], X[2:4], X[6:], X[6:]]))
    return "" if good else f"{run(X)}"


def one_device():
    """A map over one device is a program of one."""
    return same(mapped(lambda x: lax.psum(x, "i") + lax.axis_index("i"), (1,), ("i",), P("i"), P()), X)


CHECKS = (
    collectives, two_axes, parts_by_two_axes, other_orders_of_devices, subset_of_devices, pmaps, trains_by_shard_map,
    trains_through_shard_map, trains_by_pmap, layers_in_parts, outside_of_maps, shardings_change, whole_arrays, maps_are_transformed, elementwise,
    loops_around_maps, maps_in_maps, explicit_axes, needs_the_partitioner, errors_reach_all, ways_that_part, gives_away, gives_away_what_others_read, many_at_once,
    memory_is_flat, executables_are_kept, callbacks_of_each, broadcasts, one_device,
)  # fmt: skip


def main() -> int:
    chosen = [check for check in CHECKS if not sys.argv[1:] or check.__name__ in sys.argv[1:]]
    bad = {}
    for check in chosen:
        begin = time.perf_counter()
        try:
            what = check()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
        if what:
            bad[check.__name__] = what
            print(f"{check.__name__}: {what}", flush=True)
        if os.environ.get("KNAPPER_TEST_TIMES"):
            print(f"{check.__name__}: {time.perf_counter() - begin:.1f} s", flush=True)
    print(f"{len(chosen) - len(bad)} of {len(chosen)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
