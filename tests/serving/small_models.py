"""Small models of each family with drawn weights, as Hugging Face folders.

The weights are such that logits spread: two best ones are seldom near one
another.
"""

from __future__ import annotations

from pathlib import Path

VOCABULARY = 151

COMMON = dict(
    vocab_size=VOCABULARY, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256, eos_token_id=2, bos_token_id=1, pad_token_id=0,
)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64,
)

# Name: class of transformers' configuration, its arguments.
MODELS = {
    "llama": ("LlamaConfig", COMMON),
    "llama tied biased": (
        "LlamaConfig", COMMON | dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=16)),
    "llama rope llama3": ("LlamaConfig", COMMON | dict(rope_parameters=LLAMA3)),
    "llama rope linear": (
        "LlamaConfig", COMMON | dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
}


def make(name: str, folder: Path):
    """Writes the model of this name; the model, in float32."""
    import torch
    import transformers

    kind, arguments = MODELS[name]
    config = getattr(transformers, kind)(**arguments)
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key or "ln_" in key:
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif parameter.ndim == 2:
                parameter.normal_(0, 1.5 * parameter.shape[1] ** -0.5)
            else:
                parameter.normal_(0, 0.3)
    model.generation_config.eos_token_id = [2]
    model.save_pretrained(folder)
    return model
