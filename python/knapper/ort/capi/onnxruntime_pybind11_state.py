"""ONNX Runtime's exceptions, and the names that others import beside them, under
the path at which its users import them."""

from knapper.ort.binding import IOBinding as SessionIOBinding
from knapper.ort.device import OrtDevice
from knapper.ort.errors import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)
from knapper.ort.model_file import ModelMetadata
from knapper.ort.options import RunOptions, SessionOptions
from knapper.ort.session import InferenceSession, NodeArg
from knapper.ort.settings import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from knapper.ort.value import OrtValue

__all__ = [
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
]
