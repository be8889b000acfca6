"""The operators of operators.c in Python: registers them, compiles the model of
swish_model.py and runs it."""

from __future__ import annotations

import numpy as np

import knapper
from swish_model import model


def swish(x: np.ndarray, *, beta: float = 1.0) -> np.ndarray:
    return x / (1 + np.exp(-beta * x))


def above(x: np.ndarray, *, limit: float = 0.0) -> np.ndarray:
    return x[x > limit]


def above_shape(x: knapper.TensorSpec, *, limit: float = 0.0):
    return x.dtype, (None,)  # as many as there are


def register() -> None:
    knapper.register_operator("my.domain", "Swish", compute=swish)
    knapper.register_operator(
        "my.domain", "Above", compute=above, shape=above_shape
    )


if __name__ == "__main__":
    register()
    module = knapper.compile(model())
    print(module(np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3))["y"])
