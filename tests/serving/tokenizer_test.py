"""Tokens, texts and streams against `tokenizers`, for tokenizers of every kind that are trained here."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from null_server import BUILD, trained_texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def byte_level(ignore_merges=False, split=None, normalizer=None):
    made = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        made.normalizer = normalizer
    if split:
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        made.pre_tokenizer = pre_tokenizers.ByteLevel()
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(trained_texts(), trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return made


def sentencepiece_like():
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    words = [w for text in trained_texts() for w in text.split(" ")]
    made.train_from_iterator(words, trainers.BpeTrainer(vocab_size=1500, special_tokens=SPECIAL + BYTES, limit_alphabet=80, show_progress=False))
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return made


def word_piece():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(trained_texts(), trainers.WordPieceTrainer(vocab_size=1200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def unigram(prepend="always"):
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    made.decoder = decoders.Metaspace(prepend_scheme=prepend)
    made.train_from_iterator(trained_texts(), trainers.UnigramTrainer(vocab_size=900, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    return made


def words(pre_tokenizer):
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])
    made.pre_tokenizer = pre_tokenizer
    made.train_from_iterator(trained_texts(), trainers.BpeTrainer(vocab_size=800, special_tokens=SPECIAL, continuing_subword_prefix="##", show_progress=False))
    return made


P = pre_tokenizers
KINDS = {
    "gpt2": byte_level,
    "llama3": lambda: byte_level(True, LLAMA3),
    "digits": lambda: words(P.Sequence([P.Punctuation(), P.Digits(individual_digits=True), P.WhitespaceSplit()])),
    "whitespace": lambda: words(P.Whitespace()),
    "merged": lambda: words(P.Sequence([P.Split(" ", "merged_with_next"), P.Split(Regex("[.,]"), "merged_with_previous"), P.Split("e", "contiguous"), P.CharDelimiterSplit("-")])),
    "nfc": lambda: byte_level(normalizer=normalizers.NFC()),
    "lower": lambda: byte_level(normalizer=normalizers.Lowercase()),
    "sentencepiece": sentencepiece_like,
    "wordpiece": word_piece,
    "unigram": unigram,
    "unigram_first": lambda: unigram("first"),
}
# Scripts whose characters all versions of Unicode since 13 know.
POOLS = [(0x20, 0x7E), (0xA0, 0x24F), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA), (0x621, 0x64A), (0x903, 0x94c), (0x3041, 0x3096), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F5FF), (0x300, 0x314)]  # fmt: skip
# The first three are a control character that goes, a mark of punctuation that became a symbol, and a mark that became one with a width.
BITS = ["\x17", "\u166d", "\u1734", " ", "  ", "\n", "\t", "a", "b", "1", "23", "456789", "'s", "'LL", ".", "!?", "\r\n", "\u00a0", "\u3000", "é", "e\u0301", "ſ", "İ", "ﬁ", "①", "\u200d", "<extra>", "<Word>", "</s>", "<unk>", "[SEP]"]  # fmt: skip


def random_texts(count: int, seed: int) -> list[str]:
    random_ = random.Random(seed)
    base = "\n".join(trained_texts())
    made = ["", " ", "\n", "a", "  a  "]
    while len(made) < count:
        kind = random_.random()
        if kind < 0.4:
            start = random_.randrange(len(base))
            made.append(base[start : start + random_.randrange(1, 160)])
        elif kind < 0.7:
            made.append("".join(chr(random_.randint(*random_.choice(POOLS))) for _ in range(random_.randrange(1, 40))))
        else:
            made.append("".join(random_.choice(BITS) for _ in range(random_.randrange(1, 40))))
    return made


def check_equal(path, texts):
    """Against what `tokenizers` reads from the file: it reads numbers its own way."""
    theirs = Tokenizer.from_file(str(path))
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    ran = subprocess.run([BUILD / "bin" / "tokenize", path], input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    ours = [json.loads(line) for line in ran.stdout.rstrip("\n").split("\n")[:-1]]
    assert len(ours) == len(texts)
    for text, got in zip(texts, ours):
        ids = theirs.encode(text).ids
        assert got["ids"] == ids, repr(text)
        decoded = theirs.decode(ids, skip_special_tokens=False)
        assert got["text"] == decoded, repr(text)
        # A stream shows the whole characters of a run of bytes that is damaged.
        if "\ufffd" not in decoded:
            assert "".join(got["parts"]) == decoded and not any("\ufffd" in part for part in got["parts"])


@pytest.mark.parametrize("kind", KINDS)
def test_equals_tokenizers(kind, tmp_path):
    made = KINDS[kind]()
    made.add_tokens([AddedToken("<extra>", lstrip=True, rstrip=True), AddedToken("<Word>", single_word=True, normalized=True)])
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    check_equal(path, random_texts(1500, 7))


def test_unigram_ties_are_broken_as_in_tokenizers(tmp_path):
    """The same tokens in another order: which sum of logarithms is larger is up to the last bits of each."""
    draw = random.Random(11)
    rows = [("<unk>", 0.0)] + [("a" * n, -draw.uniform(1, 4) * n**0.9) for n in range(1, 6)] + [(b, -draw.uniform(2, 9)) for b in ("b", "ab", "ba", "bb", "aba")]
    rows += [("c", -1e-7 * draw.random()), ("cc", -1.5e-310), ("d", -3e25 * draw.random()), ("dd", -6.123456789012345e25)]
    path = tmp_path / "tokenizer.json"
    Tokenizer(models.Unigram(rows, unk_id=0)).save(str(path))
    check_equal(path, ["".join(draw.choice("aaab" if i % 8 else "abcd") for _ in range(draw.randrange(1, 60))) for i in range(4000)])
