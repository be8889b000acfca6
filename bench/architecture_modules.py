"""Architectures as users have them: transformers' classes at real widths and few layers, and two blocks of diffusion models.

Weights are random and seeded. Each makes a module whose positional inputs are those of `inputs`, and which returns one
tensor; the same file serves GPUs and CPUs at sizes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Axes = dict[int, str]
SEED = 7


@dataclass(frozen=True)
class Architecture:
    """A class of transformers with the settings of its configuration, or a module of `own`.

    `kind` says what it takes: `text` ids and a mask, `ids` ids alone, `pair` also the decoder's ids, `audio` samples,
    `features` frames of a spectrogram, `image` pixels, `latent` a noisy image with a time and a text.
    """

    kind: str
    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    own: Callable[[Any], Any] | None = None
    image: int = 224

    def module(self, torch: Any) -> Any:
        torch.manual_seed(SEED)
        if self.own:
            return self.own(torch).eval()
        import transformers

        found = getattr(transformers, self.name)
        inner = found(found.config_class(**self.settings)).eval()
        for layer in inner.modules():  # transformers' own numbers shrink from layer to layer, down to 0
            if isinstance(layer, torch.nn.Conv2d) and self.kind == "image":
                torch.nn.init.kaiming_normal_(layer.weight)
        names = [name for name, _ in INPUTS[self.kind]]

        class First(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, *values):
                return self.inner(**dict(zip(names, values)))[0]

        module = First()
        normalised = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        for layer in normalised:  # as a trained network has them: not near 0, and the statistics of images
            layer.momentum = None
            torch.nn.init.ones_(layer.weight)
        if normalised:
            with torch.no_grad():
                module.train()(*self.draw(torch, (4, 0), 11))
        return module.eval()

    def draw(self, torch: Any, size: tuple[int, int], seed: int) -> list[Any]:
        """Inputs on the processor for `size`: how many, and how long a text or a sound is."""
        count, length = size
        generator = torch.Generator().manual_seed(seed)
        ids = lambda n: torch.randint(3, 900, (count, n), generator=generator)  # noqa: E731
        normal = lambda *shape: torch.randn(count, *shape, generator=generator)  # noqa: E731
        match self.kind:
            case "text":
                return [ids(length), torch.ones(count, length, dtype=torch.int64)]
            case "ids":
                return [ids(length)]
            case "pair":
                return [ids(length), torch.ones(count, length, dtype=torch.int64), ids(length // 2)]
            case "audio":
                return [normal(160 * length)]
            case "features":
                return [normal(80, 2 * self.settings["max_source_positions"])]
            case "image":
                return [normal(3, self.image, self.image)]
            case "latent":
                return [normal(4, 64, 64), torch.rand(count, 1, generator=generator), normal(77, 768)]
        raise ValueError(self.kind)


INPUTS: dict[str, list[tuple[str, Axes]]] = {
    "text": [("input_ids", {0: "batch", 1: "length"}), ("attention_mask", {0: "batch", 1: "length"})],
    "ids": [("input_ids", {0: "batch", 1: "length"})],
    "pair": [
        ("input_ids", {0: "batch", 1: "length"}),
        ("attention_mask", {0: "batch", 1: "length"}),
        ("decoder_input_ids", {0: "batch", 1: "target"}),
    ],
    "audio": [("input_values", {0: "batch", 1: "samples"})],
    "features": [("input_features", {0: "batch"})],
    "image": [("pixel_values", {0: "batch"})],
    "latent": [("sample", {0: "batch"}), ("time", {0: "batch"}), ("text", {0: "batch"})],
}
# Texts, sounds and images of a call: on a GPU, on two threads of a processor.
SIZES = {
    "text": ((8, 512), (1, 128)),
    "ids": ((8, 512), (1, 128)),
    "pair": ((8, 512), (1, 128)),
    "audio": ((8, 300), (1, 100)),
    "features": ((8, 0), (1, 0)),
    "image": ((32, 0), (1, 0)),
    "latent": ((4, 0), (1, 0)),
}


def unet(torch: Any) -> Any:
    """The blocks of a latent-diffusion U-Net: residual convolutions with group norms and a time, and
    transformer blocks that attend to the image and to a text (Rombach et al., 2022)."""
    nn, functional = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.first, self.second = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
            self.one = nn.Conv2d(inside, outside, 3, padding=1)
            self.two = nn.Conv2d(outside, outside, 3, padding=1)
            self.time = nn.Linear(640, outside)
            self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

        def forward(self, x, time):
            y = self.one(functional.silu(self.first(x))) + self.time(functional.silu(time))[:, :, None, None]
            return self.skip(x) + self.two(functional.silu(self.second(y)))

    class Attention(nn.Module):
        def __init__(self, width, context):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.q = nn.Linear(width, width, bias=False)
            self.k = nn.Linear(context, width, bias=False)
            self.v = nn.Linear(context, width, bias=False)
            self.out = nn.Linear(width, width)

        def forward(self, x, context=None):
            y = self.norm(x)
            context = y if context is None else context
            heads = lambda z: z.unflatten(-1, (-1, 40)).transpose(1, 2)  # noqa: E731
            z = functional.scaled_dot_product_attention(heads(self.q(y)), heads(self.k(context)), heads(self.v(context)))
            return x + self.out(z.transpose(1, 2).flatten(2))

    class Transformer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.enter, self.leave = nn.GroupNorm(32, width), nn.Linear(width, width), nn.Linear(width, width)
            self.image, self.text = Attention(width, width), Attention(width, 768)
            self.before, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

        def forward(self, x, text):
            y = self.enter(self.norm(x).flatten(2).transpose(1, 2))
            y = self.text(self.image(y), text)
            value, gate = self.up(self.before(y)).chunk(2, -1)
            y = self.leave(y + self.down(value * functional.gelu(gate)))
            return x + y.transpose(1, 2).unflatten(2, x.shape[2:])

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(1, 640), nn.SiLU(), nn.Linear(640, 640))
            self.enter = nn.Conv2d(4, 320, 3, padding=1)
            self.left, self.left_text = Residual(320, 320), Transformer(320)
            self.down = nn.Conv2d(320, 320, 3, stride=2, padding=1)
            self.middle, self.middle_text = Residual(320, 640), Transformer(640)
            self.up = nn.Conv2d(640, 320, 3, padding=1)
            self.right, self.right_text = Residual(640, 320), Transformer(320)
            self.norm, self.leave = nn.GroupNorm(32, 320), nn.Conv2d(320, 4, 3, padding=1)

        def forward(self, sample, time, text):
            time = self.time(time)
            left = self.left_text(self.left(self.enter(sample), time), text)
            y = self.middle_text(self.middle(self.down(left), time), text)
            y = self.up(functional.interpolate(y, scale_factor=2.0, mode="nearest"))
            y = self.right_text(self.right(torch.cat([left, y], 1), time), text)
            return self.leave(functional.silu(self.norm(y)))

    return UNet()


def autoencoder(torch: Any) -> Any:
    """The decoder of a latent autoencoder: convolutions, group norms, upsampling; the other inputs are not used
    but as a scale."""
    nn, functional = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.first, self.second = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
            self.one, self.two = nn.Conv2d(inside, outside, 3, padding=1), nn.Conv2d(outside, outside, 3, padding=1)
            self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

        def forward(self, x):
            y = self.one(functional.silu(self.first(x)))
            return self.skip(x) + self.two(functional.silu(self.second(y)))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter = nn.Conv2d(4, 256, 3, padding=1)
            self.blocks = nn.ModuleList([Residual(256, 256), Residual(256, 128), Residual(128, 64)])
            self.convs = nn.ModuleList([nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(128, 128, 3, padding=1)])
            self.norm, self.leave = nn.GroupNorm(32, 64), nn.Conv2d(64, 3, 3, padding=1)

        def forward(self, sample, time, text):
            y = self.enter(sample * (1 + time.mean()) + text.mean())
            for block, conv in zip(self.blocks, [*self.convs, None]):
                y = block(y)
                if conv is not None:
                    y = conv(functional.interpolate(y, scale_factor=2.0, mode="nearest"))
            return self.leave(functional.silu(self.norm(y)))

    return Decoder()


_BASE = dict(num_hidden_layers=4, vocab_size=30522)
_BART = dict(d_model=768, encoder_layers=3, decoder_layers=3, encoder_attention_heads=12, decoder_attention_heads=12,
             encoder_ffn_dim=3072, decoder_ffn_dim=3072, vocab_size=32000, use_cache=False)  # fmt: skip
_LLAMA = dict(hidden_size=2048, num_hidden_layers=2, num_attention_heads=32, num_key_value_heads=8,
              intermediate_size=5632, vocab_size=32000, max_position_embeddings=2048, use_cache=False)  # fmt: skip
_GEMMA = dict(hidden_size=2048, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=1, head_dim=256,
              intermediate_size=8192, vocab_size=32000, use_cache=False)  # fmt: skip
_QWEN = dict(_LLAMA, num_attention_heads=16)


def _of(kind: str, name: str, /, **settings: Any) -> Architecture:
    return Architecture(kind, name, settings)


ARCHITECTURES = {
    "bert": _of("text", "BertModel", **_BASE),
    "roberta": _of("text", "RobertaModel", **_BASE, max_position_embeddings=1026),
    "distilbert": _of("text", "DistilBertModel", n_layers=4),
    "albert": _of("text", "AlbertModel", hidden_size=768, num_hidden_layers=4, num_attention_heads=12,
                  intermediate_size=3072),
    "electra": _of("text", "ElectraModel", **_BASE, hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    "mpnet": _of("text", "MPNetModel", **_BASE, max_position_embeddings=514 + 512),
    "deberta": _of("text", "DebertaV2Model", **_BASE, hidden_size=768, num_attention_heads=12, intermediate_size=3072,
                   relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256,
                   norm_rel_ebd="layer_norm", share_att_key=True),
    "gpt2": _of("text", "GPT2LMHeadModel", n_layer=4, use_cache=False),
    "gpt-neox": _of("text", "GPTNeoXForCausalLM", hidden_size=1024, num_hidden_layers=3, num_attention_heads=16,
                    intermediate_size=4096, vocab_size=32000, use_cache=False),
    "opt": _of("text", "OPTForCausalLM", num_hidden_layers=4, use_cache=False),
    "bloom": _of("text", "BloomForCausalLM", hidden_size=1024, n_layer=3, n_head=16, vocab_size=32000, use_cache=False),
    "falcon": _of("text", "FalconForCausalLM", hidden_size=1024, num_hidden_layers=3, num_attention_heads=16,
                  vocab_size=32000, use_cache=False),
    "llama": _of("text", "LlamaForCausalLM", **_LLAMA),
    "mistral": _of("text", "MistralForCausalLM", **_LLAMA, sliding_window=256),
    "qwen2": _of("text", "Qwen2ForCausalLM", **_QWEN),
    "qwen3": _of("text", "Qwen3ForCausalLM", **_QWEN, head_dim=128),
    "gemma": _of("text", "GemmaForCausalLM", **_GEMMA),
    "gemma2": _of("text", "Gemma2ForCausalLM", **_GEMMA, sliding_window=256),
    "phi3": _of("text", "Phi3ForCausalLM", **_LLAMA, pad_token_id=0),
    "olmo2": _of("text", "Olmo2ForCausalLM", **_LLAMA),
    "mixtral": _of("text", "MixtralForCausalLM", hidden_size=256, num_hidden_layers=2, num_attention_heads=8,
                   num_key_value_heads=2, intermediate_size=512, vocab_size=32000, num_local_experts=4,
                   num_experts_per_tok=2, use_cache=False, experts_implementation="batched_mm"),
    "t5": _of("pair", "T5Model", d_model=512, num_layers=3, num_heads=8, d_ff=2048, use_cache=False),
    "bart": _of("pair", "BartModel", **_BART),
    "wav2vec2": _of("audio", "Wav2Vec2Model", num_hidden_layers=4),
    "whisper": Architecture("features", "WhisperEncoder", dict(
        d_model=512, encoder_layers=4, encoder_attention_heads=8, encoder_ffn_dim=2048, max_source_positions=1500),
        own=lambda torch: _whisper(torch)),
    "clip-text": _of("text", "CLIPTextModel", num_hidden_layers=4, max_position_embeddings=512),
    "clip-vision": _of("image", "CLIPVisionModel", num_hidden_layers=4),
    "vit": _of("image", "ViTModel", num_hidden_layers=4),
    "beit": _of("image", "BeitModel", num_hidden_layers=4, use_relative_position_bias=True),
    "swin": _of("image", "SwinModel", depths=[2, 2, 2, 2]),
    "convnext": _of("image", "ConvNextModel", depths=[2, 2, 3, 2]),
    "resnet": _of("image", "ResNetModel", depths=[2, 2, 3, 2]),
    "regnet": _of("image", "RegNetModel"),
    "mobilenet": _of("image", "MobileNetV2Model"),
    "efficientnet": _of("image", "EfficientNetModel", image_size=224, width_coefficient=1.0, depth_coefficient=1.0,
                        hidden_dim=1280, dropout_rate=0.2),
    "segformer": _of("image", "SegformerModel"),
    "unet": Architecture("latent", own=unet),
    "autoencoder": Architecture("latent", own=autoencoder),
}  # fmt: skip


def _whisper(torch: Any) -> Any:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    inner = WhisperEncoder(WhisperConfig(**ARCHITECTURES["whisper"].settings))

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, features):
            return self.inner(features)[0]

    return First()
