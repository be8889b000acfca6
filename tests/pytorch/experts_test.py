"""Mixtures of experts of transformers: grouped matmuls, nothing left to torch."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import knapper.torch  # noqa: E402

SIZES = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=120, max_position_embeddings=128, num_experts_per_tok=2,
)
MODELS = {
    "Mixtral": dict(num_local_experts=5),
    "Qwen3Moe": dict(num_experts=8, moe_intermediate_size=32, norm_topk_prob=True, head_dim=16),
}


@pytest.mark.parametrize("name", MODELS)
def test_experts_are_grouped_matmuls(name):
    torch.manual_seed(1)
    config = getattr(transformers, name + "Config")(**SIZES | MODELS[name])
    model = getattr(transformers, name + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 1.2 * parameter.shape[-1] ** -0.5)
    compiled = knapper.torch.compile(model, fallback="error", cache=False)
    with torch.no_grad():
        for batch, length in [(2, 9), (1, 17), (3, 4)]:
            tokens = torch.randint(0, 120, (batch, length))
            want = model(tokens, use_cache=False).logits
            got = compiled(tokens, use_cache=False).logits
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3 * float(want.abs().max()))
