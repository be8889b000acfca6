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

LONGROPE = dict(
    rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
    long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 4.0], original_max_position_embeddings=64, factor=4.0, partial_rotary_factor=0.75,
)


def rope(**fields):
    return dict(rope_parameters=dict(rope_theta=10000.0) | fields)


# Name: class of transformers' configuration, its arguments. Windows are shorter
# than the prompts of the tests.
MODELS = {
    "llama": ("LlamaConfig", COMMON),
    "llama tied biased": (
        "LlamaConfig", COMMON | dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=16)),
    "llama rope llama3": ("LlamaConfig", COMMON | dict(rope_parameters=LLAMA3)),
    "llama rope linear": ("LlamaConfig", COMMON | rope(rope_type="linear", factor=2.0)),
    "mistral": ("MistralConfig", COMMON | dict(sliding_window=21, head_dim=16)),
    "qwen2 tied": ("Qwen2Config", COMMON | dict(tie_word_embeddings=True)),
    "qwen2 windows": ("Qwen2Config", COMMON | dict(use_sliding_window=True, sliding_window=19, max_window_layers=1)),
    "qwen3 rope yarn": (
        "Qwen3Config",
        COMMON | dict(head_dim=16) | rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "mixtral": ("MixtralConfig", COMMON | dict(num_local_experts=6, num_experts_per_tok=2, sliding_window=25)),
    "qwen3 moe": (
        "Qwen3MoeConfig", COMMON | dict(
            head_dim=16, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen3 moe shares": (
        "Qwen3MoeConfig", COMMON | dict(
            head_dim=16, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=36, norm_topk_prob=False, decoder_sparse_step=2)),
    "gemma2": (
        "Gemma2Config", COMMON | dict(
            head_dim=16, sliding_window=17, query_pre_attn_scalar=20, attn_logit_softcapping=4.0,
            final_logit_softcapping=10.0)),
    "gemma3": (
        "Gemma3TextConfig", COMMON | dict(
            head_dim=16, sliding_window=17, query_pre_attn_scalar=20, sliding_window_pattern=2,
            rope_parameters=dict(
                sliding_attention=dict(rope_type="default", rope_theta=1000.0),
                full_attention=dict(rope_type="linear", rope_theta=20000.0, factor=8.0)))),
    "phi3": ("Phi3Config", COMMON | dict(sliding_window=30)),
    "phi3 rope long": (
        "Phi3Config", COMMON | dict(
            hidden_size=64, original_max_position_embeddings=64, rope_parameters=LONGROPE)),
    "gpt2": (
        "GPT2Config", dict(vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=4, n_positions=256, eos_token_id=2, bos_token_id=1)),
    "olmo2": ("Olmo2Config", COMMON),
    "starcoder2": ("Starcoder2Config", COMMON | dict(sliding_window=23)),
}


def make(name: str, folder: Path, **changes):
    """Writes the model of this name, with other arguments where given; the model, in float32."""
    import torch
    import transformers

    kind, arguments = MODELS[name]
    config = getattr(transformers, kind)(**arguments | changes)
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
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
