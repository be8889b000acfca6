"""Arrays on `knapper` for who takes DLPack (`torch.from_dlpack(x)`): they lie in the
host's memory and are handed on without a copy. JAX does so for the platforms that it
knows by name."""

from __future__ import annotations

import ctypes
from typing import Any

CPU = (1, 0)  # DLDevice: the host's memory


def _shared(array: Any) -> Any:
    """The array's own memory as NumPy's, which may be written as far as NumPy knows.
    It stays as long as somebody has it."""
    import numpy as np

    view = np.asarray(array)  # waits for the array, and holds its memory
    if view.dtype.kind not in "biufc":
        raise BufferError(
            f"DLPack has no {view.dtype} here; hand on jax.lax.bitcast_convert_type(x, jnp.uint{8 * view.itemsize})"
        )
    if not view.nbytes:
        return np.empty(view.shape, view.dtype)
    memory = (ctypes.c_char * view.nbytes).from_address(view.ctypes.data)
    memory.view = view  # type: ignore[attr-defined]
    return np.frombuffer(memory, view.dtype).reshape(view.shape)


def register(platform: str) -> None:
    from jax._src.array import ArrayImpl

    theirs, their_device = ArrayImpl.__dlpack__, ArrayImpl.__dlpack_device__

    def is_ours(array: Any) -> bool:
        return array.platform() == platform and len(array.devices()) == 1

    def __dlpack__(self: Any, **options: Any) -> Any:
        if not is_ours(self):
            return theirs(self, **options)
        device = options.get("dl_device")
        if device is not None and tuple(device) != CPU:
            raise BufferError(f"the array lies in the host's memory, and {device} was asked for")
        array = _shared(self)
        if options.get("copy"):
            array = array.copy()
        return array.__dlpack__()

    def __dlpack_device__(self: Any) -> Any:
        return CPU if is_ours(self) else their_device(self)

    ArrayImpl.__dlpack__ = __dlpack__
    ArrayImpl.__dlpack_device__ = __dlpack_device__
