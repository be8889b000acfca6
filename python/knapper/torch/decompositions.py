"""Which operators AOTAutograd takes apart before they reach us.

Torch's core table, less what the front end has a row for: those stay whole, the
more so where what comes of them would have to be recognised again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from knapper.torch import (
    embedding_bag,
    fake_quantize,
    foreach,
    formulas,
    fused_attention,
    gradients,
    grid_sample,
    hashes,
    resize,
)

# Overload packets, "aten." left out.
_WHOLE = """
_adaptive_avg_pool2d _log_softmax _log_softmax_backward_data _safe_softmax _softmax
_softmax_backward_data _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward _to_copy _unsafe_index
_unsafe_index_put addcdiv addcmul addmm addmv aminmax baddbmm celu clamp_max clamp_min
constant_pad_nd copysign cumprod dot elu elu_backward embedding embedding_dense_backward
fill fmax fmin frac gelu gelu_backward glu hardshrink hardsigmoid hardsigmoid_backward
hardswish hardswish_backward hardtanh hardtanh_backward hypot index_add index_copy
isneginf isposinf leaky_relu leaky_relu_backward lerp lift_fresh_copy linspace
log_sigmoid_backward log_sigmoid_forward logit logsumexp masked_fill mish mish_backward
mm mv nan_to_num native_dropout native_group_norm native_layer_norm _fused_rms_norm
new_empty new_full new_ones new_zeros ones ones_like pixel_shuffle rad2deg deg2rad
roll rsub select_scatter sgn sigmoid_backward silu silu_backward sinc slice_scatter
softplus softplus_backward softshrink split stack std std_mean t tanh_backward
threshold threshold_backward transpose tril triu unbind unfold var var_mean xlogy
zeros zeros_like reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
replication_pad2d replication_pad3d square
""".split()

# What the core table leaves whole and no row computes.
_APART = """
_batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional
_native_batch_norm_legit _native_batch_norm_legit_functional adaptive_max_pool2d
adaptive_max_pool3d alpha_dropout batch_norm_backward dist
grid_sampler_2d narrow_copy native_batch_norm rrelu_with_noise_backward tril_indices
triu_indices upsample_bicubic2d upsample_bilinear2d upsample_nearest2d
upsample_trilinear3d
""".split()


@functools.cache
def core() -> set[Any]:
    """The overloads that torch's core table takes apart."""
    from torch._decomp import core_aten_decompositions

    return set(core_aten_decompositions())


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition, for `aot_autograd`."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    def name(op: Any) -> str:
        schema = getattr(op, "_schema", None)
        return schema.name.removeprefix("aten::") if schema else ""

    whole, apart = set(_WHOLE), set(_APART)
    made = {op: how for op, how in core_aten_decompositions().items() if name(op) not in whole}
    made.update((op, how) for op, how in decomposition_table.items() if name(op) in apart)
    made.update(formulas.table())
    made.update(gradients.table())
    made.update(embedding_bag.table())
    made.update(grid_sample.table())
    made.update(fused_attention.table())
    made.update(fake_quantize.table())
    made.update(foreach.table())
    made.update(resize.table())
    made.update(hashes.table())
    return made
