"""Tokens, padding, a mask, a softmax: sentiment of some sentences."""

import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

folder, out = sys.argv[1:]
words = "[PAD] [UNK] the a movie film was is not very good bad great boring long fun".split()
tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
tokenizer.enable_truncation(max_length=12)

session = onnxruntime.InferenceSession(
    f"{folder}/text.onnx", providers=["CPUExecutionProvider"]
)
sentences = [
    "The movie was very good",
    "A boring, long film",
    "not bad",
    "The film is a great film and the movie was fun, not boring and not very very long",
]
encoded = tokenizer.encode_batch(sentences)
ids = np.array([e.ids for e in encoded], dtype=np.int64)
mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
feed = {"input_ids": ids, "attention_mask": mask}
inputs = {i.name: feed[i.name] for i in session.get_inputs()}
(logits,) = session.run(["logits"], inputs)
exponents = np.exp(logits - logits.max(-1, keepdims=True))
scores = exponents / exponents.sum(-1, keepdims=True)
labels = np.array(["NEGATIVE", "POSITIVE"])[scores.argmax(-1)]
np.savez(out, ids=ids, logits=logits, scores=scores, labels=labels)
