"""Architectures unlike those of the bars, small: each exports in seconds.

A U-Net, a detector, an LSTM, a speech model, a Swin, a ConvNeXt, a mixture of
experts, a state-space model. Weights as in `definitions.py`, which has what the
fields mean.
"""

from __future__ import annotations

import numpy as np
import torch
import transformers
from torch import nn

from definitions import BATCH, IMAGE_SIZES, SEQUENCE, TEXT, TEXT_SIZES, Model, Named, draw_weights


class Block(nn.Module):
    """Two convolutions with group norm and SiLU, and a way around them."""

    def __init__(self, taken, given):
        super().__init__()
        self.first = nn.Conv2d(taken, given, 3, padding=1)
        self.norm = nn.GroupNorm(8, given)
        self.second = nn.Conv2d(given, given, 3, padding=1)
        self.around = nn.Conv2d(taken, given, 1)

    def forward(self, x):
        inner = nn.functional.silu(self.norm(self.first(x)))
        return (self.second(inner) + self.around(x)) * 0.5


class UNet(nn.Module):
    """Three levels down by strided convolutions, up by nearest resizing and by a
    transposed convolution, each with what the way down had."""

    def __init__(self, width=32):
        super().__init__()
        self.enter = Block(3, width)
        self.down = nn.ModuleList([nn.Conv2d(width << i, width << i, 3, 2, 1) for i in range(2)])
        self.below = nn.ModuleList([Block(width << i, width << (i + 1)) for i in range(2)])
        self.up = nn.ConvTranspose2d(width * 4, width * 2, 2, 2)
        self.middle = Block(width * 4, width * 2)
        self.last = Block(width * 3, width)
        self.leave = nn.Conv2d(width, 3, 1)

    def forward(self, pixel_values):
        first = self.enter(pixel_values)
        second = self.below[0](self.down[0](first))
        third = self.below[1](self.down[1](second))
        x = self.middle(torch.cat([self.up(third), second], 1))
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return (self.leave(self.last(torch.cat([x, first], 1))),)


class Tagger(nn.Module):
    """Two layers of LSTM in both directions over embedded tokens."""

    def __init__(self, vocabulary=5000, width=128, tags=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.leave = nn.Linear(2 * width, tags)

    def forward(self, input_ids):
        return (self.leave(self.lstm(self.embed(input_ids))[0]),)


class Experts(nn.Module):
    """Two layers of eight experts each, of which a token takes the two best."""

    def __init__(self, vocabulary=5000, width=128, count=8, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.routers = nn.ModuleList([nn.Linear(width, count) for _ in range(layers)])
        self.first = nn.ModuleList(
            [nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(count)]) for _ in range(layers)])
        self.second = nn.ModuleList(
            [nn.ModuleList([nn.Linear(2 * width, width) for _ in range(count)]) for _ in range(layers)])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for norm, router, first, second in zip(self.norms, self.routers, self.first, self.second):
            inner = norm(x)
            chances = torch.softmax(router(inner), -1)
            best, which = torch.topk(chances, 2, dim=-1)
            weights = torch.zeros_like(chances).scatter(-1, which, best / best.sum(-1, keepdim=True))
            for i, (into, out) in enumerate(zip(first, second)):
                x = x + out(nn.functional.silu(into(inner))) * weights[..., i : i + 1]
        return (x,)


class StateSpace(nn.Module):
    """Layers of a selective state space, in the form that multiplies matrices:
    decays are differences of running sums, masked to the past."""

    def __init__(self, vocabulary=5000, width=128, heads=4, state=16, layers=2):
        super().__init__()
        self.heads, self.state, self.width = heads, state, width
        self.embed = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.enter = nn.ModuleList([nn.Linear(width, 2 * width + 2 * state + heads) for _ in range(layers)])
        self.mix = nn.ModuleList(
            [nn.Conv1d(width, width, 4, padding=3, groups=width) for _ in range(layers)])
        self.leave = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        length = input_ids.shape[1]
        for norm, enter, mix, leave in zip(self.norms, self.enter, self.mix, self.leave):
            parts = enter(norm(x)).split(
                [self.width, self.width, self.state, self.state, self.heads], -1)
            value, gate, write, read, step = parts
            value = nn.functional.silu(mix(value.transpose(1, 2))[..., :length]).transpose(1, 2)
            value = value.unflatten(-1, (self.heads, -1))
            sums = torch.cumsum(-nn.functional.softplus(step), 1).transpose(1, 2)
            gaps = sums.unsqueeze(-1) - sums.unsqueeze(-2)
            past = torch.ones_like(gaps).tril()
            decay = torch.exp(torch.minimum(gaps, torch.zeros_like(gaps))) * past
            scores = (read @ write.transpose(1, 2)).unsqueeze(1) * decay / self.state**0.5
            y = torch.einsum("bhts,bshd->bthd", scores, value).flatten(-2)
            x = x + leave(y * nn.functional.silu(gate))
        return (x,)


class Positional(nn.Module):
    """Takes its inputs in a row, as `export.py` gives their dims."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args):
        return self.inner(*args)


def own(module, seed):
    return Positional(draw_weights(module.eval(), seed))


def detector():
    config = transformers.YolosConfig(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=3, intermediate_size=192,
        image_size=[96, 128], patch_size=16, num_detection_tokens=20, num_labels=10,
        use_mid_position_embeddings=False)  # fmt: skip
    module = transformers.YolosForObjectDetection(config).eval()
    return Named(draw_weights(module, 22), ["pixel_values"], ["logits", "pred_boxes"])


def speech():
    config = transformers.Wav2Vec2Config(
        hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192,
        conv_dim=(64,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)  # fmt: skip
    module = transformers.Wav2Vec2Model(config).eval()
    nn.utils.parametrize.remove_parametrizations(module.encoder.pos_conv_embed.conv, "weight")
    return Named(draw_weights(module, 24), ["input_values"], ["last_hidden_state"])


def swin():
    config = transformers.SwinConfig(
        embed_dim=48, depths=[2, 2], num_heads=[3, 6], window_size=7, image_size=112)  # fmt: skip
    module = transformers.SwinModel(config).eval()
    return Named(draw_weights(module, 25), ["pixel_values"], ["last_hidden_state", "pooler_output"])


def convnext():
    config = transformers.ConvNextConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 96, 128], layer_scale_init_value=0.0)  # fmt: skip
    module = transformers.ConvNextModel(config).eval()
    return Named(draw_weights(module, 26), ["pixel_values"], ["last_hidden_state", "pooler_output"])


def images(*shape):
    def feed(generator, size):
        return {"pixel_values": generator.standard_normal((size[BATCH], *shape), np.float32)}

    return feed


def tokens(generator, size):
    return {"input_ids": generator.integers(1, 5000, (size[BATCH], size[SEQUENCE]))}


def sound(generator, size):
    return {"input_values": generator.standard_normal((size[BATCH], 8000), np.float32)}


def image_model(module, outputs, *shape, exporter="dynamo"):
    return Model(module=module, inputs={"pixel_values": {0: BATCH}}, outputs=outputs, sizes=IMAGE_SIZES,
                 bench={BATCH: 1}, feed=images(*shape), exporter=exporter)  # fmt: skip


def token_model(module, output, exporter="dynamo"):
    return Model(module=module, inputs={"input_ids": TEXT}, outputs=[output], sizes=TEXT_SIZES,
                 bench={BATCH: 1, SEQUENCE: 128}, feed=tokens, exporter=exporter)  # fmt: skip


WIDE: dict[str, Model] = {
    "unet": image_model(lambda: own(UNet(), 21), ["image"], 3, 64, 64),
    "detector": image_model(detector, ["logits", "pred_boxes"], 3, 96, 128),
    "lstm": token_model(lambda: own(Tagger(), 23), "tags", exporter="torchscript"),
    "speech": Model(module=speech, inputs={"input_values": {0: BATCH}}, outputs=["last_hidden_state"],
                    sizes=IMAGE_SIZES, bench={BATCH: 1}, feed=sound),
    "swin": image_model(swin, ["last_hidden_state", "pooler_output"], 3, 112, 112,
                        exporter="torchscript"),
    "convnext": image_model(convnext, ["last_hidden_state", "pooler_output"], 3, 96, 96),
    "experts": token_model(lambda: own(Experts(), 27), "hidden"),
    "state-space": token_model(lambda: own(StateSpace(), 28), "hidden"),
}  # fmt: skip
