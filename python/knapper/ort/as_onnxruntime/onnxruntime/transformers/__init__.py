"""Only `io_binding_helper`: the rest of ONNX Runtime's tools is refused."""
