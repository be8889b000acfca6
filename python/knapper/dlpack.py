"""DLPack through ctypes: borrowing others' memory and lending ours.

Capsules follow the DLPack 0.8 layout (`dltensor`), which every library that
speaks DLPack accepts and gives when no version is asked for.
"""

from __future__ import annotations

import ctypes
from typing import Any
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

import numpy as np

from knapper import dtypes
from knapper.errors import WrongType, WrongValue

CPU = 1
CUDA = 2
_PINNED = 3  # of the host
_DEVICES = {CUDA: "a GPU", 8: "Metal", 10: "ROCm", 13: "managed memory"}
_DEFAULT_STREAM = 1  # of CUDA, as DLPack counts
_NAME = b"dltensor"
# (type code, bits) by dtype code.
_CODES = {
    "f32": (2, 32),
    "f16": (2, 16),
    "bf16": (4, 16),
    "f64": (2, 64),
    "i1": (6, 8),
    "i8": (0, 8),
    "u8": (1, 8),
    "i16": (0, 16),
    "i32": (0, 32),
    "i64": (0, 64),
    "u16": (1, 16),
    "u32": (1, 32),
    "u64": (1, 64),
    "f8e4m3fn": (10, 8),
    "f8e4m3fnuz": (11, 8),
    "f8e5m2": (12, 8),
    "f8e5m2fnuz": (13, 8),
    "f8e8m0": (14, 8),
    "f8e3m4": (7, 8),
    "f8e4m3": (8, 8),
    "f8e4m3b11fnuz": (9, 8),
}
# None: DLPack packs elements below a byte, ours take one each; it has no strings.
_TO_DL = [_CODES.get(name) for name in dtypes.NAMES]
_FROM_DL = {pair: code for code, pair in enumerate(_TO_DL) if pair is not None}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("type_code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("context", c_void_p),
        ("deleter", _Deleter),
    ]


_api = ctypes.pythonapi
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_CapsuleDestructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, c_void_p, ctypes.c_char_p, _CapsuleDestructor
)(("PyCapsule_New", _api))
# The same calls for a capsule that is being destroyed and must not be owned.
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_raw_get_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


class _Strided:
    """Memory with strides, for NumPy. Bytes of any dtype are copied as such."""

    def __init__(
        self, pointer: int, shape: tuple[int, ...], strides: list[int], size: int
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (pointer, True),
            "shape": shape,
            "strides": tuple(stride * size for stride in strides),
            "typestr": f"|V{size}",
        }


def _settled(source: Any) -> tuple[Any, bool]:
    """A tensor whose memory holds its values, and whether it is a copy: torch
    keeps some negations for later, and shares no memory of what it would
    differentiate."""
    if getattr(source, "requires_grad", False) and hasattr(source, "detach"):
        source = source.detach()
    negated = getattr(source, "is_neg", bool)()
    return (source.resolve_neg() if negated else source), negated


class Borrowed:
    """Memory of an object with __dlpack__: pointer, shape, dtype code.

    The memory is valid while this object lives: the capsule is never consumed,
    so its own destructor gives the memory back. `copied`: it is a copy of the
    source's, whose memory is not contiguous.
    """

    __slots__ = ("pointer", "shape", "code", "copied", "_capsule", "_source")

    def __init__(
        self, source: Any, where: str, gpu: bool = False, copies: bool = False
    ) -> None:
        """With `gpu`, memory of an NVIDIA GPU is taken too; what the source's
        library still does with it then precedes the default stream's work.
        copies: what is not contiguous may be copied."""
        try:
            source, copied = _settled(source)
            if copied and not copies:
                raise BufferError("its values are kept negated")
            kind = getattr(source, "__dlpack_device__", lambda: (CPU, 0))()[0]
            arguments = {"stream": _DEFAULT_STREAM} if gpu and kind == CUDA else {}
            self._capsule = source.__dlpack__(**arguments)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise WrongValue(
                f"{where}: the memory of this {type(source).__name__} cannot be "
                f"shared: {error}",
                where=where,
                hint="pass a NumPy array, or a dense tensor in host memory",
            ) from error
        self._source = source
        managed = _Managed.from_address(_get_pointer(self._capsule, _NAME))
        tensor = managed.tensor
        if tensor.device_type not in (CPU, _PINNED) and not (
            gpu and tensor.device_type == CUDA
        ):
            raise WrongValue(
                f"{where}: the tensor is on {_DEVICES.get(tensor.device_type, 'another device')}"
                f" (DLPack device {tensor.device_type}), the module runs on "
                f"{'the GPU' if gpu else 'the CPU'}",
                where=where,
                hint="move it to the CPU first (torch: tensor.cpu())",
            )
        code = _FROM_DL.get((tensor.type_code, tensor.bits))
        if code is None or tensor.lanes != 1:
            raise WrongType(
                f"{where}: no such dtype: DLPack code {tensor.type_code}, "
                f"{tensor.bits} bits, {tensor.lanes} lanes",
                where=where,
                hint="convert it to one of " + ", ".join(dtypes.NAMES),
            )
        self.pointer: int = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.code = code
        self.copied = copied
        if not tensor.strides or 0 in self.shape:
            return
        strides = [tensor.strides[i] for i in range(tensor.ndim)]
        step = 1
        for axis in reversed(range(tensor.ndim)):
            if self.shape[axis] != 1 and strides[axis] != step:
                break
            step *= self.shape[axis]
        else:
            return
        if not copies:
            raise WrongValue(
                f"{where}: the tensor is not contiguous in row-major order (stride "
                f"{strides[axis]} at axis {axis})",
                where=where,
                hint="pass a contiguous copy (torch: tensor.contiguous())",
            )
        if tensor.device_type == CUDA:
            # Its library can copy on the device, NumPy cannot.
            self.__init__(source.contiguous(), where, gpu)  # type: ignore[misc]
            self.copied = True
            return
        array = np.array(
            _Strided(self.pointer, self.shape, strides, dtypes.SIZES[code]), order="C"
        )
        self.pointer = array.ctypes.data
        self.copied = True
        self._capsule, self._source = None, array


# What lent tensors keep alive, by the address of their header.
_lent: dict[int, tuple[object, ...]] = {}


@_Deleter
def _give_back(address: int) -> None:
    _lent.pop(address, None)


@_CapsuleDestructor
def _destroy_capsule(capsule: int) -> None:
    # Only a capsule that nobody consumed still has its first name.
    if _raw_is_valid(capsule, _NAME):
        _lent.pop(_raw_get_pointer(capsule, _NAME), None)


def lend(pointer: int, shape: tuple[int, ...], code: int, owner: object) -> object:
    """A capsule over memory that `owner` keeps alive until it is given back.

    Raises BufferError for dtypes that DLPack lays out otherwise.
    """
    pair = _TO_DL[code]
    if dtypes.NAMES[code] == "string":
        raise BufferError("DLPack has no strings: take the array from .numpy()")
    if pair is None:
        raise BufferError(
            f"{dtypes.NAMES[code]} takes a byte an element here and less in "
            "DLPack: take the array from .numpy()"
        )
    managed = _Managed()
    dims = (c_int64 * max(1, len(shape)))(*shape)
    tensor = managed.tensor
    tensor.data = pointer
    tensor.device_type = CPU
    tensor.ndim = len(shape)
    tensor.type_code, tensor.bits = pair
    tensor.lanes = 1
    tensor.shape = dims
    managed.deleter = _give_back
    address = ctypes.addressof(managed)
    _lent[address] = (managed, dims, owner)
    return _new_capsule(address, _NAME, _destroy_capsule)
