"""Long comparisons, which go on where they ended:

    campaign.py tokenizers FOLDER [tokenizer.json ...]     against `tokenizers`, with those that tokenizer_test.py trains as well
    campaign.py templates FOLDER                           against Jinja2, conversations that are drawn

FOLDER keeps what was done (state.json) and what differed (differences.jsonl). --seconds says how long. Exit status 1: something differs.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import template_test
import tokenizer_test
from null_server import BUILD, ROOT
from tokenizers import Tokenizer

SOURCES = [p for folder in ("docs", "serving", "tests/serving") for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".md", ".cpp", ".h", ".py")]
# Characters that both sides know, whatever their tables: of newer ones each knows its own.
OLD = unicodedata.ucd_3_2_0


def replace(path, text):
    """Whole or not at all."""
    made = path.with_suffix(".new")
    made.write_text(text)
    made.replace(path)


class Campaign:
    def __init__(self, folder, first=0):
        self.first = first
        folder.mkdir(parents=True, exist_ok=True)
        self.state_file, self.differences = folder / "state.json", folder / "differences.jsonl"
        self.state = json.loads(self.state_file.read_text()) if self.state_file.exists() else {}
        self.forget_unfinished_rounds()

    def forget_unfinished_rounds(self):
        """Differences of rounds that are not in the state: who wrote them ended before the round was done, and it comes again."""
        if not self.differences.exists():
            return
        kept = []
        for line in self.differences.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):  # cut off
                continue
            one = json.loads(line)
            if one["round"] < self.state.get(one["name"], {"rounds": 0})["rounds"]:
                kept.append(line)
        replace(self.differences, "".join(kept))

    def round_of(self, name):
        """The number of the next round of this name."""
        return self.state.setdefault(name, dict(rounds=self.first, cases=0, differences=0))["rounds"]

    def done(self, name, cases, differences):
        entry = self.state[name]
        entry["rounds"] += 1
        entry["cases"] += cases
        entry["differences"] += len(differences)
        with open(self.differences, "a") as file:
            file.writelines(json.dumps({"name": name, "round": entry["rounds"] - 1} | one) + "\n" for one in differences)
        replace(self.state_file, json.dumps(self.state, indent=1))


def drawn_texts(seed, count, specials):
    """Text, code, characters of all of Unicode, and special tokens in between."""
    draw = random.Random(seed)
    corpus = draw.choice(SOURCES).read_text()

    def character():
        while True:
            point = draw.randrange(0x110000) if draw.random() < 0.3 else draw.randrange(0x3000)
            if OLD.category(chr(point)) not in ("Cs", "Cn", "Co"):
                return chr(point)

    def part():
        kind = draw.random()
        if kind < 0.45:
            at = draw.randrange(max(1, len(corpus)))
            return corpus[at : at + draw.randrange(1, 120)]
        if kind < 0.75:
            return "".join(character() for _ in range(draw.randrange(1, 24)))
        if kind < 0.9 or not specials:
            return "".join(draw.choice(tokenizer_test.BITS) for _ in range(draw.randrange(1, 12)))
        return draw.choice(specials)

    return ["".join(part() for _ in range(draw.randrange(1, 5))) for _ in range(count)]


def compare_tokenizer(path, seed, count):
    theirs = Tokenizer.from_file(str(path))
    theirs.no_truncation()
    theirs.no_padding()
    specials = [token.content for token in theirs.get_added_tokens_decoder().values()]
    texts = drawn_texts(seed, count, specials)
    ran = subprocess.run([BUILD / "bin" / "tokenize", path], input="".join(json.dumps(text) + "\n" for text in texts), capture_output=True, text=True)
    if ran.returncode != 0:
        return [{"error": ran.stderr}]
    different = []
    for text, line in zip(texts, ran.stdout.split("\n")):
        got, ids = json.loads(line), theirs.encode(text).ids
        decoded = theirs.decode(ids, skip_special_tokens=False)
        streamed = "".join(got["parts"])
        # A stream shows the whole characters of a run of bytes that is damaged.
        if got["ids"] != ids or got["text"] != decoded or ("\ufffd" not in decoded and streamed != decoded):
            different.append({"text": text, "ids": [ids, got["ids"]], "decoded": [decoded, got["text"], streamed]})
    return different


def tokenizers(campaign, files, until):
    trained = campaign.state_file.parent / "trained"
    trained.mkdir(exist_ok=True)
    for kind, make in tokenizer_test.KINDS.items():
        if not (trained / f"{kind}.json").exists():
            make().save(str(trained / f"{kind}.json"))
    while time.time() < until:
        for path in [*map(Path, files), *sorted(trained.glob("*.json"))]:
            number = campaign.round_of(str(path))
            campaign.done(str(path), 2000, compare_tokenizer(path, number, 2000))
            if time.time() >= until:
                break


def drawn_conversation(draw, texts):
    """Turns in an order that models have, now and then with a part left out."""
    user = lambda: {"role": "user", "content": draw.choice(texts)}  # noqa: E731
    messages = [{"role": "system", "content": draw.choice(texts)}] if draw.random() < 0.5 else []
    tools = draw.random() < 0.5
    for _ in range(draw.randrange(1, 5)):
        messages.append(user())
        if tools and draw.random() < 0.5:
            call = copy.deepcopy(template_test.CALL)
            call["tool_calls"][0]["function"]["arguments"] = {"city": draw.choice(texts), "days": draw.choice([0, -3, 2.5, 21.123456789, 1e-7, 3e20, True, None, [1, "a", None], ["it's", draw.choice(texts)], {"b": {}}])}
            messages += [call, template_test.RESULT | {"content": draw.choice(texts)}]
        answer = {"role": "assistant", "content": draw.choice(texts)}
        messages.append(answer | ({"reasoning_content": draw.choice(texts)} if draw.random() < 0.3 else {}))
    if draw.random() < 0.8:
        messages.append(user())
    more = {"tools": template_test.TOOLS} if tools else {}
    if draw.random() < 0.4:
        more["enable_thinking"] = draw.random() < 0.5
    return template_test.variables_of({"messages": messages, "add_generation_prompt": draw.random() < 0.8} | more)


def templates(campaign, until):
    if not template_test.TEMPLATES:
        sys.exit("no templates: run setup/sources")
    while time.time() < until:
        for path in template_test.TEMPLATES:
            source, number = path.read_text(), campaign.round_of(path.name)
            if "strftime" in source:
                continue
            draw = random.Random(f"{path.name} {number}")
            texts = drawn_texts(number, 40, ["<|im_start|>", "</s>", "<think>", "</think>", "{{ x }}", "{% if %}"])
            rows = [{"template": source, "variables": drawn_conversation(draw, texts), "names": template_test.NAMES} for _ in range(12)]
            wanted = [template_test.theirs(source, row["variables"]) for row in rows]
            pairs = [(row, text) for row, text in zip(rows, wanted) if text is not None]
            got = template_test.render([row for row, _ in pairs]) if pairs else []
            campaign.done(path.name, len(pairs), [{"variables": row["variables"], "wanted": text, "got": one} for (row, text), one in zip(pairs, got) if one.get("text") != text])
            if time.time() >= until:
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tokenizers", "templates"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first round of what is new, whose number is its seed: others draw others")
    given = parser.parse_args()
    campaign, until = Campaign(given.folder, given.first), time.time() + given.seconds
    if given.what == "tokenizers":
        tokenizers(campaign, given.files, until)
    else:
        templates(campaign, until)
    for name, entry in sorted(campaign.state.items()):
        print(f"{entry['cases']:>9} cases  {entry['differences']:>5} differences  {name}")
    return any(entry["differences"] for entry in campaign.state.values())


if __name__ == "__main__":
    sys.exit(main())
