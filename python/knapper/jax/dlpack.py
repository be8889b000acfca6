"""Arrays on `knapper` for who takes DLPack (`torch.from_dlpack(x)`), and the other way
on a GPU: they are handed on where they lie, without a copy. JAX does so for the
platforms that it knows by name."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

CPU = (1, 0)  # DLDevice: the host's memory
CUDA = (2, 0)

# DLDataTypeCode of NumPy's kinds.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def _numpy(array: Any) -> Any:
    """The array's own memory as NumPy's, which may be written as far as NumPy knows.
    It stays as long as somebody has it."""
    import numpy as np

    view = np.asarray(array)  # waits for the array, and holds its memory
    if not view.nbytes:
        return np.empty(view.shape, view.dtype)
    memory = (ctypes.c_char * view.nbytes).from_address(view.ctypes.data)
    memory.view = view  # type: ignore[attr-defined]
    return np.frombuffer(memory, view.dtype).reshape(view.shape)


def _capsule(plugin: str, array: Any) -> Any:
    """Of an array in a GPU's memory, which stays as long as somebody has the tensor, also
    when the array is deleted or donated. Work that others still do on the device when they
    let go of it is waited for."""
    make = ctypes.PyDLL(plugin).knapper_dlpack_capsule
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint8, ctypes.c_uint8, ctypes.c_int32, ctypes.c_void_p]
    where = array.unsafe_buffer_pointer() if array.size else 0  # waits for the array
    code = 4 if array.dtype.name == "bfloat16" else _CODES[array.dtype.kind]
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    (device,) = array.devices()
    try:
        return make(where, device.local_hardware_id, code, 8 * array.dtype.itemsize, array.ndim, dims)
    except ValueError:  # null
        raise BufferError("the array was deleted, or there is no memory") from None


def _check_type(array: Any, device: tuple[int, int]) -> None:
    # (NumPy calls some floats of eight bits floats: they are not its own.)
    has_type = array.dtype.kind in _CODES and array.dtype.isbuiltin == 1
    if not has_type and not (device == CUDA and array.dtype.name == "bfloat16"):
        raise BufferError(
            f"DLPack has no {array.dtype} here; hand on jax.lax.bitcast_convert_type(x, jnp.uint{8 * array.dtype.itemsize})"
        )


def register(platform: str, plugin: str) -> None:
    """For arrays of the platform; `plugin` is the path of its library."""
    from jax._src import dlpack, xla_bridge
    from jax._src.array import ArrayImpl

    theirs, their_device = ArrayImpl.__dlpack__, ArrayImpl.__dlpack_device__
    take = dlpack.from_dlpack
    changing = threading.Lock()  # JAX's table of platforms

    def is_ours(array: Any) -> bool:
        return array.platform() == platform and len(array.devices()) == 1

    def place(array: Any) -> tuple[int, int]:
        (device,) = array.devices()
        return CPU if device.addresses_host else CUDA

    def __dlpack__(self: Any, **options: Any) -> Any:
        if not is_ours(self):
            return theirs(self, **options)
        device, wanted = place(self), options.get("dl_device")
        if wanted is not None and tuple(wanted) != device:
            where = "the host's memory" if device == CPU else "the GPU's memory"
            raise BufferError(f"the array lies in {where}, and {wanted} was asked for")
        _check_type(self, device)
        if device == CUDA:
            return _capsule(plugin, self.copy() if options.get("copy") else self)
        array = _numpy(self)
        if options.get("copy"):
            array = array.copy()
        return array.__dlpack__()

    def __dlpack_device__(self: Any) -> Any:
        return place(self) if is_ours(self) else their_device(self)

    def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
        # A tensor of CUDA's is JAX's own platform for it, where that is one.
        kind = dlpack.DLDeviceType.kDLCUDA
        on_gpu = getattr(external_array, "__dlpack_device__", lambda: (None,))()[0] == kind
        if not on_gpu or xla_bridge.get_backend(platform).local_devices()[0].addresses_host:
            return take(external_array, device=device, copy=copy)
        others = dlpack._DL_DEVICE_TO_PLATFORM
        one = next(iter(getattr(device, "device_set", ())), device)  # a device, or a sharding
        with changing:
            before = others[kind]
            if getattr(one, "platform", None) == platform or "cuda" not in xla_bridge.backends():
                others[kind] = platform
            try:
                return take(external_array, device=device, copy=copy)
            finally:
                others[kind] = before

    ArrayImpl.__dlpack__ = __dlpack__
    ArrayImpl.__dlpack_device__ = __dlpack_device__
    dlpack.from_dlpack = from_dlpack
    import jax.dlpack

    jax.dlpack.from_dlpack = from_dlpack
