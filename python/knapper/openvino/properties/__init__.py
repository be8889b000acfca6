"""Names of properties: `props.inference_num_threads` is a dict's key, and
`props.inference_num_threads(2)` a pair of it and a value."""

from knapper.openvino.properties import device, hint, streams
from knapper.openvino.properties.names import Property

auto_batch_timeout = Property("AUTO_BATCH_TIMEOUT")
cache_dir = Property("CACHE_DIR")
cache_mode = Property("CACHE_MODE")
compilation_num_threads = Property("COMPILATION_NUM_THREADS")
enable_mmap = Property("ENABLE_MMAP")
enable_profiling = Property("PERF_COUNT")
execution_devices = Property("EXECUTION_DEVICES")
inference_num_threads = Property("INFERENCE_NUM_THREADS")
model_name = Property("NETWORK_NAME")
num_streams = Property("NUM_STREAMS")
optimal_number_of_infer_requests = Property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
supported_properties = Property("SUPPORTED_PROPERTIES")

__all__ = [name for name, value in list(globals().items()) if isinstance(value, Property)]
__all__ += ["Property", "device", "hint", "streams"]
