"""Runs a jitted function by JAX on the CPU and by us, and compares."""

from __future__ import annotations

import jax
import jax.export
import numpy as np

import knapper


def program(function, *arguments):
    """The portable artefact of the function for these arguments."""
    return jax.export.export(jax.jit(function))(*arguments)


def kept(exported, arguments):
    """The arguments that the program reads."""
    leaves = jax.tree_util.tree_leaves(arguments)
    return [leaves[i] for i in exported.module_kept_var_idx]


def results(function, *arguments):
    """What JAX gives, and what we give: two lists of arrays."""
    wanted = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    exported = program(function, *arguments)
    module = knapper.compile(exported.mlir_module_serialized, cache=False, threads=2)
    given = module(*[np.asarray(each) for each in kept(exported, arguments)])
    return [np.asarray(each) for each in wanted], [
        np.asarray(given[i]) for i in range(len(given))
    ]


def check(function, *arguments, rtol=1e-5, atol=1e-6):
    """Equal types and shapes; integers equal, floats within the tolerance."""
    wanted, given = results(function, *arguments)
    assert len(wanted) == len(given)
    for w, g in zip(wanted, given):
        assert w.shape == g.shape and w.dtype == g.dtype, (w.dtype, g.dtype)
        if w.dtype.kind in "iub":
            np.testing.assert_array_equal(g, w)
        else:
            np.testing.assert_allclose(
                g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=atol
            )
