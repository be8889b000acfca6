"""What tests of the PyTorch backend begin with."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh():
    """Nothing that a test before has traced, counted or drawn."""
    import knapper.torch
    import torch

    torch._dynamo.reset()
    knapper.torch.reset_counters()
    torch.manual_seed(0)
