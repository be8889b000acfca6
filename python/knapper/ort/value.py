"""OrtValue: a tensor in host memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from knapper import dtypes
from knapper.dlpack import Borrowed
from knapper.errors import UserError
from knapper.ort import providers, types
from knapper.ort.errors import BindingError, refuse
from knapper.ort.refusals import hint
from knapper.tensor import ArrayLike, Tensor


def host_only(device_type: str, device_id: int, what: str) -> None:
    """Memory of a GPU, where there is one, is a hint: values live on the host and a
    run copies them. Raises NotImplemented for other devices."""
    kind = str(device_type).lower()
    if kind == "cpu" and device_id == 0:
        return
    if kind in ("cuda", "gpu") and providers.CUDA in providers.available():
        hint(f"{what} on device {device_type!r}", "its memory is the host's")
        return
    raise refuse(f"{what} on device {device_type!r} {device_id}", "use 'cpu', 0")


def memory_of_host(device_type: str, device_id: int, what: str) -> None:
    """Raises NotImplemented for an address that is not in host memory."""
    if str(device_type).lower() != "cpu" or device_id != 0:
        raise refuse(
            f"{what} at an address on device {device_type!r} {device_id}",
            "bind host memory ('cpu', 0), or an OrtValue",
        )


class OrtValue(ArrayLike):
    """A tensor in host memory: a NumPy array, or memory that the library, another
    framework or the caller owns. It keeps its memory's owner alive, where it has
    one. Made by the class methods; a session's results are values too.
    """

    __slots__ = ("_data",)

    def __init__(self, data: np.ndarray | Tensor) -> None:
        self._data = data

    # ---- making one

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:  # fmt: skip
        """Shares the array's memory where it is contiguous and copies it otherwise.

        Raises BindingError for what is no array or has no dtype of ours.
        """
        host_only(device_type, device_id, "OrtValue")
        if not isinstance(numpy_obj, np.ndarray):
            raise BindingError(
                f"an OrtValue is made of a NumPy array, not {type(numpy_obj).__name__}"
            )
        types.code_of(numpy_obj.dtype, "OrtValue")
        if not numpy_obj.flags.c_contiguous:
            numpy_obj = np.ascontiguousarray(numpy_obj)
        return cls(numpy_obj)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(
        cls, data: np.ndarray, /, onnx_element_type: int
    ) -> OrtValue:
        """The array's memory read as another type of the same size, for example
        uint16 as bfloat16 (16). The array must be contiguous."""
        code = types.code_of(onnx_element_type, "OrtValue")
        if not isinstance(data, np.ndarray) or not data.flags.c_contiguous:
            raise BindingError("an OrtValue is made of a contiguous NumPy array")
        if data.itemsize != dtypes.SIZES[code]:
            raise BindingError(
                f"elements of {data.dtype} have {data.itemsize} bytes, those of "
                f"{types.text_of(dtypes.NAMES[code])} {dtypes.SIZES[code]}"
            )
        return cls(Tensor(data.ctypes.data, data.shape, code, data))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
        device_id: int = 0, vendor_id: int = -1,
    ) -> OrtValue:  # fmt: skip
        """New memory, not initialised. element_type: a NumPy type or a number of
        `onnx.TensorProto`."""
        host_only(device_type, device_id, "OrtValue")
        code = types.code_of(element_type, "OrtValue")
        sizes = tuple(int(d) for d in shape)
        dtype = dtypes.numpy_of(code)
        if dtype is not None:
            return cls(np.empty(sizes, dtype))
        return cls.ortvalue_from_numpy_with_onnx_type(
            np.empty(sizes, np.uint16), types.number_of(dtypes.NAMES[code])
        )

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """Borrows the memory of an object with `__dlpack__`.

        Raises BindingError for memory of a device and for what is not contiguous.
        """
        if not hasattr(data, "__dlpack__"):
            raise refuse(
                f"OrtValue.from_dlpack of {type(data).__name__}",
                "pass the tensor itself, not a capsule",
            )
        try:
            borrowed = Borrowed(data, "OrtValue")
        except UserError as error:
            raise BindingError(str(error), error.where, error.hint) from error
        code = borrowed.code
        if is_bool_tensor and dtypes.NAMES[code] == "u8":
            code = dtypes.NAMES.index("i1")
        return cls(Tensor(borrowed.pointer, borrowed.shape, code, borrowed))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: object) -> OrtValue:
        """Raises NotImplemented."""
        raise refuse("sparse tensors", "pass a dense array")

    # ---- what it is

    @property
    def _dtype(self) -> str:
        if isinstance(self._data, Tensor):
            return str(self._data.dtype)
        return dtypes.NAMES[types.code_of(self._data.dtype, "OrtValue")]

    def shape(self) -> list[int]:
        """The sizes."""
        return list(self._data.shape)

    def data_type(self) -> str:
        """'tensor(float)'..."""
        return types.text_of(self._dtype)

    def element_type(self) -> int:
        """The number in `onnx.TensorProto`: 1 for float."""
        return types.number_of(self._dtype)

    def device_name(self) -> str:
        """'cpu'."""
        return "cpu"

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the elements."""
        return self._data.nbytes

    def data_ptr(self) -> int:
        """The address of the first element, valid while the value lives."""
        if isinstance(self._data, Tensor):
            return self._data._pointer
        return self._data.ctypes.data

    def has_value(self) -> bool:
        """True: there are no optional values here."""
        return True

    def is_tensor(self) -> bool:
        """True."""
        return True

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """False."""
        return False

    @property
    def _ortvalue(self) -> OrtValue:
        """Where libraries look for ONNX Runtime's value behind Python's."""
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    # ---- its elements

    def numpy(self) -> np.ndarray:
        """The same memory as an array, which keeps it alive. Raises TypeError for
        bfloat16 where the package ml_dtypes is missing."""
        if isinstance(self._data, Tensor):
            return self._data.numpy()
        return self._data.view()

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Copies the array's elements in. Raises BindingError where shape or type
        differ."""
        mine = self.numpy()
        if np_arr.shape != mine.shape or np_arr.dtype != mine.dtype:
            raise BindingError(
                f"the value is {mine.dtype}{list(mine.shape)}, the array "
                f"{np_arr.dtype}{list(np_arr.shape)}"
            )
        np.copyto(mine, np_arr)

    def to_dlpack(self) -> object:
        """A capsule of the memory, which keeps it alive."""
        return self.__dlpack__()

    def __dlpack__(self, **options: Any) -> object:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __repr__(self) -> str:
        return f"OrtValue({self.data_type()}, {self.shape()})"
