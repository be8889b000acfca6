"""Knapper as a platform of JAX.

    JAX_PLATFORMS=knapper,cpu python train.py

or, before JAX has made its first array:

    import knapper.jax

    knapper.jax.install()

Then `jax.jit` compiles with Knapper. JAX finds this module by its entry point
when the package is installed; a program that asks for no platform by that name
keeps its own default device, and nothing is loaded. Importing this imports
nothing of JAX. `explain` says what becomes of a function.
"""

from knapper.jax.explain import Explanation, explain
from knapper.jax.plugin import initialize, install

__all__ = ["Explanation", "explain", "initialize", "install"]
