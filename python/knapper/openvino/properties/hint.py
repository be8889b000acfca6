"""Hints of performance and precision."""

import enum

from knapper.openvino.properties.names import Property


class PerformanceMode(enum.Enum):
    """LATENCY is what is done."""

    LATENCY = 1
    THROUGHPUT = 2
    CUMULATIVE_THROUGHPUT = 3


class ExecutionMode(enum.Enum):
    """Precision follows `inference_precision` in both."""

    PERFORMANCE = 1
    ACCURACY = 2


class Priority(enum.Enum):
    """No effect."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    DEFAULT = 1


class SchedulingCoreType(enum.Enum):
    """No effect."""

    ANY_CORE = 0
    PCORE_ONLY = 1
    ECORE_ONLY = 2


allow_auto_batching = Property("ALLOW_AUTO_BATCHING")
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE")
enable_cpu_pinning = Property("ENABLE_CPU_PINNING")
enable_hyper_threading = Property("ENABLE_HYPER_THREADING")
execution_mode = Property("EXECUTION_MODE_HINT")
inference_precision = Property("INFERENCE_PRECISION_HINT")
kv_cache_precision = Property("KV_CACHE_PRECISION")
model_priority = Property("MODEL_PRIORITY")
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS")
performance_mode = Property("PERFORMANCE_HINT")
scheduling_core_type = Property("SCHEDULING_CORE_TYPE")
