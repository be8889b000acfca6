"""Where the tensor lies that an `as_strided` walks over: its places count from the
beginning of the storage, which the tensor that it is called on need not be."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from knapper.torch import sizes
from knapper.torch.nodes import arguments_of

READS = ("aten.as_strided.default", "aten.as_strided_copy.default")
WRITES = "aten.as_strided_scatter.default"
_COPY = torch.ops.aten.copy_.default


def root_of(node: Node) -> tuple[Node, bool]:
    """The value whose storage the node's lies in, a view of a view of it, and whether
    a view on the way is placed from the storage's beginning."""
    fixed = False
    while True:
        source = node.args[0] if node.args else None
        if node.target is operator.getitem and isinstance(source, Node):
            source = source.args[0] if source.args else None
        if not isinstance(source, Node) or not _shares(node, source):
            return node, fixed
        fixed |= _is_placed(node)
        node = source


def read_of(node: Node) -> tuple[Node, bool]:
    """The root of what an as_strided or as_strided_copy reads, and whether the place
    in it is fixed."""
    source = node.args[0]
    assert isinstance(source, Node)
    root, fixed = root_of(source)
    return root, fixed or _is_placed(node)


def changed_arguments(root: Node) -> list[Node]:
    """The arguments that the graph writes in the end, for whose new content a value
    that is none may stand: of its type and number of elements."""
    if root.op == "placeholder":
        return []
    value = root.meta["val"]
    return [
        argument
        for argument in (n.args[0] for n in root.graph.nodes if n.target is _COPY)
        if isinstance(argument, Node)
        and argument.op == "placeholder"
        and argument.meta["val"].dtype == value.dtype
        and statically_known_true(argument.meta["val"].numel() == value.numel())
    ]


def offset_of(node: Node) -> Any:
    """Where in the storage the node's own view begins, as it was traced."""
    given = arguments_of(node, node.target._schema.arguments)["storage_offset"]  # type: ignore[union-attr]
    if given is None:
        return node.args[0].meta["val"].storage_offset()  # type: ignore[union-attr]
    return given.meta["val"] if isinstance(given, Node) else given


def viewed(node: Node) -> torch.Tensor:
    """What an as_strided or as_strided_copy reads, as it lies in the storage: the copy
    itself lies row by row."""
    if str(node.target) == READS[0]:
        return node.meta["val"]
    given = arguments_of(node, node.target._schema.arguments)  # type: ignore[union-attr]
    size, stride = (_numbers(given[name]) for name in ("size", "stride"))
    return torch.as_strided(node.args[0].meta["val"], size, stride, offset_of(node))  # type: ignore[union-attr]


def is_whole(value: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory. (`_base` does not say: what autograd
    does not follow has none.)"""
    offset = value.storage_offset()
    order, narrow = sizes.order_of(value.shape, value.stride())
    if not isinstance(offset, int) or offset != 0 or order is None or narrow:
        return False
    memory = value.untyped_storage().nbytes()
    return statically_known_true(value.numel() * value.element_size() == memory)


def is_within(node: Node) -> bool:
    """Whether the trace knows that what an as_strided_scatter writes is in the
    elements of a dense tensor."""
    value: torch.Tensor = node.args[0].meta["val"]  # type: ignore[union-attr]
    given = arguments_of(node, node.target._schema.arguments)  # type: ignore[union-attr]
    size, stride = (_numbers(given[name]) for name in ("size", "stride"))
    first = offset_of(node) - value.storage_offset()
    last = first + sum((n - 1) * step for n, step in zip(size, stride))
    return statically_known_true(first >= 0) and statically_known_true(last < value.numel())


def is_saved(argument: Node) -> bool:
    """Whether it is what a forward kept for this backward, which lies in memory of its
    own; the partitioner names the user's own arguments so."""
    names = [str(n.target) for n in argument.graph.nodes if n.op == "placeholder"]
    is_backward = any(name.startswith("tangents") for name in names)
    return is_backward and not str(argument.target).startswith("primals")


def _numbers(given: Any) -> list[Any]:
    return [each.meta["val"] if isinstance(each, Node) else each for each in given]


def _is_placed(node: Node) -> bool:
    name = str(node.target)
    if name not in READS:
        return False
    given = arguments_of(node, node.target._schema.arguments)  # type: ignore[union-attr]
    return given["storage_offset"] is not None


def _shares(node: Node, source: Node) -> bool:
    """Whether the node is a view of the source, element by element."""
    values = node.meta.get("val"), source.meta.get("val")
    if not all(isinstance(v, torch.Tensor) and v.layout == torch.strided for v in values):
        return False
    kinds = [
        (v.untyped_storage()._cdata, v.dtype, v.is_neg(), v.is_conj()) for v in values  # type: ignore[union-attr]
    ]
    return kinds[0] == kinds[1]
