"""Operators on lists of tensors: each as torch computes it."""

import pytest
import torch
from knapper.torch import foreach

TENSORS = [torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5]
OTHERS = [torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5]
KINDS = {
    "Tensor[]": TENSORS, "Scalar": 2.0, "Scalar[]": [2.0, 3.0], "Tensor": torch.tensor(2.0),
    "ScalarType?": None, "bool": False, "MemoryFormat?": None,
}  # fmt: skip


@pytest.mark.parametrize("overload", list(foreach.table()), ids=str)
def test_as_torch(overload):
    arguments, lists = [], 0
    for argument in overload._schema.arguments:
        if argument.kwarg_only:
            continue
        kind = str(argument.type)
        if kind == "List[Tensor]":
            arguments.append([TENSORS, OTHERS, [x * 0.5 for x in TENSORS]][lists])
            lists += 1
        elif kind.startswith("List["):
            arguments.append([2.0, 3.0])
        elif kind == "Tensor":
            arguments.append(torch.tensor(2.0))
        elif argument.name in ("self", "scalar", "ord", "value", "weight", "exponent"):
            arguments.append(2.0)
    got = foreach.table()[overload](*arguments)
    for given, wanted in zip(got, overload(*arguments), strict=True):
        torch.testing.assert_close(given, wanted, equal_nan=True)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "Adamax"])
def test_optimisers_in_lists(kind):
    import knapper.torch

    def made():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 2))

    x, models = torch.randn(4, 5), (made(), made())
    steps = []
    for model, ours in zip(models, (True, False)):
        optimiser = getattr(torch.optim, kind)(model.parameters(), lr=0.05, foreach=True)
        step = knapper.torch.compile(optimiser.step, fallback="error", cache=False) if ours else optimiser.step
        steps.append((model, optimiser, step))
    for _ in range(3):
        for model, optimiser, step in steps:
            optimiser.zero_grad()
            model(x).square().mean().backward()
            step()
    for got, wanted in zip(*(m.parameters() for m in models)):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
