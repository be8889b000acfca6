"""rng_bit_generator: bits for bits what XLA draws on CPUs, by formulas in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpus.programs import NUMPY, Program, build, register, tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def words(x: np.ndarray) -> list[np.ndarray]:
    """The low and the high 32 bits."""
    return [(x & np.uint64(0xFFFFFFFF)).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)]


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def narrowed(values: np.ndarray, element: str) -> np.ndarray:
    return values if values.dtype == NUMPY[element] else (values & np.uint32(2 ** int(element[2:]) - 1)).astype(NUMPY[element])


def threefry(state: np.ndarray, shape: tuple[int, ...], element: str) -> tuple[np.ndarray, np.ndarray]:
    def drawn(shape: list[int]) -> list[np.ndarray]:
        x, y = words((state[1] + np.arange(np.prod(shape, dtype=int), dtype=np.uint64)).reshape(shape))
        keys = [each[0] for each in words(state[:1])]
        keys.append(np.uint32(0x1BD11BDA) ^ keys[0] ^ keys[1])
        x, y = x + keys[0], y + keys[1]
        for i in range(5):
            for by in ROTATIONS[i % 2]:
                x = x + y
                y = x ^ ((y << np.uint32(by)) | (y >> np.uint32(32 - by)))
            x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + np.uint32(i + 1)
        return [x, y]

    if element == "ui64":
        return np.array([state[0], state[1] + np.uint64(np.prod(shape, dtype=int))]), joined(*drawn(list(shape)))
    half = list(shape) or [1]
    dim = next((i for i, size in enumerate(half) if size % 2 == 0), int(np.argmax(half)))
    half[dim] = -(-half[dim] // 2)
    half.insert(dim + 1, 1)
    x, y = drawn(half)
    after = np.array([state[0], state[1] + np.uint64(x.size)])
    if not shape:
        return after, narrowed(x.reshape(()), element)
    whole = np.concatenate([x, y], dim + 1).reshape([2 * half[dim] if i == dim else size for i, size in enumerate(shape)])
    return after, narrowed(whole[tuple(slice(0, size) for size in shape)], element)


def philox(state: np.ndarray, shape: tuple[int, ...], element: str) -> tuple[np.ndarray, np.ndarray]:
    count = int(np.prod(shape, dtype=int))
    drawn = -(-count * (2 if element == "ui64" else 1) // 4)
    low, high = state[1], state[2] if len(state) > 2 else state[0]
    first = low + np.arange(drawn, dtype=np.uint64)
    x = words(first) + words(high + (first < low).astype(np.uint64))
    keys = [each[0] for each in words(state[:1])]
    for _ in range(10):
        a, b = words(x[0].astype(np.uint64) * np.uint64(0xD2511F53)), words(x[2].astype(np.uint64) * np.uint64(0xCD9E8D57))
        x = [b[1] ^ x[1] ^ keys[0], b[0], a[1] ^ x[3] ^ keys[1], a[0]]
        keys = [keys[0] + np.uint32(0x9E3779B9), keys[1] + np.uint32(0xBB67AE85)]
    columns = [joined(x[0], x[1]), joined(x[2], x[3])] if element == "ui64" else x
    after = low + np.uint64(drawn)
    state = np.array([state[0], after, high + np.uint64(after < low)][: len(state)])
    return state, narrowed(np.stack(columns, 1).reshape(-1)[:count].reshape(shape), element)


@register
def bits() -> Iterator[Program]:
    given = np.array([0x123456789ABCDEF0, 0xFFFFFFFFFFFFFFFE, 77], np.uint64)
    shapes = ((), (5,), (6,), (3, 4), (3, 5, 7), (1,), (0, 4))
    with np.errstate(over="ignore"):
        for algorithm, function, sizes in (("THREE_FRY", threefry, (2,)), ("PHILOX", philox, (2, 3)), ("DEFAULT", philox, (2, 3))):
            for size in sizes:
                for shape in shapes:
                    for element in ("ui8", "ui16", "ui32", "ui64"):
                        state, values = function(given[:size], shape, element)
                        st, rt = tensor((size,), "ui64"), tensor(shape, element)
                        yield build(
                            f"rng_bit_generator {algorithm} {size} {element} {'x'.join(map(str, shape))}", "rng_bit_generator", element, [(given[:size], "ui64")],
                            f"%r0, %r1 = stablehlo.rng_bit_generator %a0, algorithm = {algorithm} : ({st}) -> ({st}, {rt})", [st, rt], expected=[state, values],
                        )  # fmt: skip
