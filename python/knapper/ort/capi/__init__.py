"""Where ONNX Runtime keeps its exceptions and classes."""
