"""A small model with drawn weights of any model type of `transformers`, for `bench/torch_models.py --types`.

A type's configuration is shrunk by the names that configurations give to their sizes, and the inputs follow from the
names of the arguments. What can not be built or run so is `NotBuilt`, with the reason: it says nothing about Knapper.
"""

from __future__ import annotations

import inspect
from typing import Any

WIDTH, DEPTH, HEADS, MIDDLE, VOCABULARY = 32, 2, 4, 64, 99
LARGEST = 60_000_000  # parameters

SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "emb_dim", "embedding_size"), WIDTH),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"), DEPTH
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), HEADS),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner"), MIDDLE),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("head_dim", "d_kv"), WIDTH // HEADS),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 32),
    "num_key_value_heads": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "rotary_dim": 4,
    "vocab_size": VOCABULARY, "type_vocab_size": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "image_size": 32, "patch_size": 8, "num_mel_bins": 16,
}  # fmt: skip


class NotBuilt(Exception):
    """Why there is no such model here."""


def names() -> list[str]:
    """All types that have a model."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return list(MODEL_MAPPING_NAMES)


def remove_dropout(config: Any) -> None:
    """What is drawn in training would differ from run to run."""
    for field in dir(config):
        if ("dropout" in field or field.endswith(("pdrop", "drop_path_rate"))) and isinstance(getattr(config, field), float):
            setattr(config, field, 0.0)
    if hasattr(config, "apply_spec_augment"):
        config.apply_spec_augment = False


def _shrink(config: Any, depth: int = 0) -> None:
    from transformers import PretrainedConfig

    for field, size in SIZES.items():
        if isinstance(getattr(config, field, None), int) and not isinstance(getattr(type(config), field, None), property):
            setattr(config, field, size)
    remove_dropout(config)
    for value in list(vars(config).values()):
        if isinstance(value, PretrainedConfig) and depth < 2:
            _shrink(value, depth + 1)


def configuration(name: str) -> Any:
    from transformers import CONFIG_MAPPING

    whole = CONFIG_MAPPING[name]()
    fields = {field: size for field, size in SIZES.items() if isinstance(getattr(whole, field, None), int)}
    try:
        config = type(whole)(**fields)  # lists of layers follow from their number
    except Exception:  # sizes that exclude one another
        config = whole
    _shrink(config)
    return config


def inputs(config: Any, arguments: list[str]) -> dict[str, Any]:
    import torch

    made: dict[str, Any] = {}
    if "input_ids" in arguments:
        made["input_ids"] = torch.randint(3, VOCABULARY, (2, 16))
        if "attention_mask" in arguments:
            made["attention_mask"] = torch.ones(2, 16, dtype=torch.int64)
            made["attention_mask"][1, 12:] = 0
    elif "pixel_values" in arguments:
        side = getattr(config, "image_size", 32)
        side = side if isinstance(side, int) else side[0]
        made["pixel_values"] = torch.randn(2, getattr(config, "num_channels", 3), side, side)
    elif "input_features" in arguments:
        made["input_features"] = torch.randn(2, getattr(config, "num_mel_bins", 16), 64)
    elif "input_values" in arguments:
        made["input_values"] = torch.randn(2, 4000)
    if "decoder_input_ids" in arguments:
        made["decoder_input_ids"] = torch.randint(3, VOCABULARY, (2, 6))
    return made


def built(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A model in evaluation mode, and the arguments of a call, which eager has answered."""
    import torch
    from transformers import AutoModel

    torch.manual_seed(0)
    try:
        config = configuration(name)
        model = AutoModel.from_config(config).eval()
        size = sum(p.numel() for p in model.parameters())
        if size > LARGEST:
            raise NotBuilt(f"{size} parameters")
        with torch.no_grad():
            for parameter in model.parameters():  # some begin as zeros, where experts and gates tie
                if parameter.is_floating_point():
                    parameter.add_(0.05 * torch.randn_like(parameter))
            arguments = inputs(config, list(inspect.signature(model.forward).parameters))
            for training in (True, False):  # some want further inputs to train
                model.train(training)(**arguments)
    except NotBuilt:
        raise
    except Exception as error:  # of transformers: the type wants other sizes or inputs
        raise NotBuilt(f"{type(error).__name__}: {' '.join(str(error).split())[:160]}") from error
    return model, (), arguments
