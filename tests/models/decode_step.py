"""A step of decoding: one token each, keys and values of those before it as
inputs and outputs. Weights as in `definitions.py`, which has what the fields
mean.
"""

from __future__ import annotations

import numpy as np
import torch
import transformers

from definitions import BATCH, Model, draw_weights, llama_config

PAST = "past"
TOTAL = "past + 1"


class Step(torch.nn.Module):
    """Logits of the next token, and each layer's keys and values with its own
    behind those of `past`: keys of layer 0, values of layer 0, keys of layer 1."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args):
        input_ids, attention_mask, *past = args
        cache = transformers.DynamicCache(zip(past[::2], past[1::2]))
        result = self.inner(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True
        )
        held = [t for layer in result.past_key_values.layers for t in (layer.keys, layer.values)]
        return (result.logits, *held)


def cache_names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}.{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]


def decoder(config, seed: int) -> Model:
    layers, heads = config.num_hidden_layers, config.num_key_value_heads
    names = cache_names("past_key_values", layers)

    def module():
        made = transformers.LlamaForCausalLM(config)
        return Step(draw_weights(made.eval(), seed))

    def feed(generator, size):
        batch, past = size[BATCH], size[PAST]
        arrays = {"input_ids": generator.integers(1, config.vocab_size, (batch, 1))}
        # The last row's first tokens are padding.
        mask = np.ones((batch, past + 1), np.int64)
        if batch > 1:
            mask[-1, : past // 4] = 0
        arrays["attention_mask"] = mask
        width = config.hidden_size // config.num_attention_heads
        for name in names:
            arrays[name] = generator.standard_normal((batch, heads, past, width), np.float32)
        return arrays

    cache = {0: BATCH, 2: PAST}
    return Model(
        module=module,
        inputs={"input_ids": {0: BATCH}, "attention_mask": {0: BATCH, 1: TOTAL}} | {n: cache for n in names},
        outputs=["logits", *cache_names("present", layers)],
        sizes=[{BATCH: 1, PAST: 512}, {BATCH: 2, PAST: 33}, {BATCH: 3, PAST: 7}],
        bench={BATCH: 1, PAST: 512},
        feed=feed,
    )


DECODE: dict[str, Model] = {
    "llama-decode": decoder(llama_config(use_cache=True), 7),
}
