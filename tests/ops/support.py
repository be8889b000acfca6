#!/usr/bin/env python3
"""Writes the support matrix: tensor ops by dtype and target, ONNX operators.

    support.py CASES.json x86-64-v4=RESULTS.json x86-64-v3=RESULTS.json sm_90a=RESULTS.json \\
        [--write docs/support.md]
    support.py --operators docs/support.md

RESULTS.json is what `op_cases CASES.json --isa NAME --results RESULTS.json`
wrote (for a GPU also with `--write FOLDER`, which compiles only); the operators come from the rows in frontends/onnx. The second form
writes the ONNX operators of the page again and keeps the rest.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DTYPES = (
    "f32", "f16", "bf16", "f64", "i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64",
    "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E4M3", "f8E3M4", "f8E4M3B11FNUZ", "f8E8M0FNU", "f6E2M3FN", "f6E3M2FN",
    "f4E2M1FN", "i4", "ui4", "i2", "ui2",
)  # fmt: skip
OPS_WITH_BODIES = ("recurrence",)  # a case of one is no case of the ops inside
ROW = re.compile(
    r'\{\s*"([^"]*)"\s*,\s*"(\w+)"\s*,\s*(\d+)\s*,\s*-?\w+\s*,\s*-?\w+\s*,\s*([^{}]*?)\}', re.S
)


def op_and_dtype(mlir: str) -> tuple[str, str]:
    """The op of a case, and the dtype of its first operand (or result)."""
    ops = [op for op in re.findall(r"= ts\.(\w+)", mlir) if op != "constant"] or ["constant"]
    types = re.findall(r"tensor<(?:[\d?]+x)*(\w+)", mlir)
    holders = [op for op in ops if op in OPS_WITH_BODIES]
    return (holders or ops)[-1], types[0]


def tensor_ops(cases: list[dict], results: dict[str, dict[str, str]]) -> list[str]:
    targets = list(results)
    cells: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for case in cases:
        op, dtype = op_and_dtype(case["mlir"])
        for target in targets:
            outcome = results[target].get(case["name"], "not run")
            cells[op, dtype][target].append(outcome)
    lines = ["| op | " + " | ".join(DTYPES) + " |", "|---|" + "---|" * len(DTYPES)]
    gaps: dict[str, list[str]] = collections.defaultdict(list)
    for op in sorted({op for op, _ in cells}):
        row = []
        for dtype in DTYPES:
            by_target = cells.get((op, dtype))
            if by_target is None:
                row.append("")
                continue
            passed = [t for t in targets if "passed" in by_target[t]]
            partly = any(o != "passed" for t in targets for o in by_target[t])
            if len(passed) == len(targets):
                row.append("part" if partly else "yes")
            else:
                row.append(", ".join(passed) or "no")
            for reason in sorted(
                {o for t in targets for o in by_target[t] if o.startswith("unsupported: ")}
            ):
                gaps[reason.removeprefix("unsupported: ")].append(f"{op} {dtype}")
        lines.append(f"| {op} | " + " | ".join(row) + " |")
    if gaps:
        lines += ["", "Refused with these words (`no`, or some forms of the op: `part`):", ""]
        for reason, where in sorted(gaps.items()):
            lines.append(f"- {reason}: {', '.join(sorted(set(where)))}")
    return lines


def onnx_rows() -> dict[str, list[tuple[int, float]]]:
    """Versions (first, last) of each operator of the front end's tables."""
    rows = collections.defaultdict(list)
    for path in sorted((ROOT / "frontends" / "onnx").glob("*.cpp")):
        table = re.search(r"OpRow rows\[\] = \{(.*?)\n\};", path.read_text(), re.S)
        if table is None:
            continue
        found = ROW.findall(table[1])
        assert len(found) == table[1].count("{"), f"a row of {path.name} has another form"
        for domain, name, since, rest in found:
            last = re.search(r",\s*(\d+)\s*$", rest)
            key = f"{domain}.{name}" if domain else name
            rows[key].append((int(since), int(last[1]) if last else float("inf")))
    return rows


def functions(text: str) -> dict[str, str]:
    """The bodies of a source file's functions, by name."""
    heads = list(re.finditer(r"^(?!return\b)\w[\w:<>,*& ]*?\b(\w+)\([^;{}]*\{$", text, re.M))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: text[head.end() : end] for head, end in zip(heads, ends)}


def refused_forms(body: str) -> list[str]:
    """The words of `unsupported`; an ellipsis for what depends on the model."""
    forms = []
    for call in re.finditer(r"\bunsupported\(", body):
        depth, quoted, end = 1, False, call.end()
        while depth:
            quoted ^= body[end] == '"'
            depth += 0 if quoted else {"(": 1, ")": -1}.get(body[end], 0)
            end += 1
        parts = re.findall(r'"([^"]*)"|( : )|([\w.()]+)', body[call.end() : end - 1])
        text = "".join(words or (", or " if other else "\0") for words, other, _ in parts)
        text = re.sub("\0+", " ... ", text).replace("' ... '", "'...'")
        forms.append(" ".join(text.split()))
    return [form for form in forms if form.strip(". ")]


def refusals() -> list[str]:
    """What the operators of each file of the front end refuse, from its source."""
    lines = [
        "",
        "What known operators refuse, beside dtypes that no row above has (generated from the messages in `frontends/onnx`; "
        "such a model is refused when it is compiled, in words that name the node):",
        "",
        "| operators | refused |",
        "|---|---|",
    ]
    shared = (ROOT / "frontends" / "common").glob("*.cpp")
    for path in [*sorted((ROOT / "frontends" / "onnx").glob("*.cpp")), *sorted(shared)]:
        text = path.read_text()
        bodies = functions(text)
        users = collections.defaultdict(set)  # operators, by function
        for domain, name, _, rest in ROW.findall(text):
            reached, open_ = set(), [f for f in re.findall(r"\b\w+\b", rest) if f in bodies]
            while open_:
                function = open_.pop()
                if function not in reached:
                    reached.add(function)
                    open_ += [f for f in bodies if re.search(rf"\b{f}\(", bodies[function])]
            for function in reached:
                users[function].add(f"{domain}.{name}" if domain else name)
        by_operators = collections.defaultdict(list)
        for function, body in bodies.items():
            names = ", ".join(sorted(users[function])) or f"others that use `{path.name}`"
            by_operators[names] += refused_forms(body)
        for names, forms in sorted(by_operators.items()):
            if forms:
                lines.append(f"| {names} | {'; '.join(dict.fromkeys(forms))} |")
    return lines


def onnx_operators() -> list[str]:
    import onnx

    rows = onnx_rows()
    versions: dict[str, list] = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
            versions[name].append(schema)
    lines = [
        f"Operators of ONNX's domains, by the versions in which onnx {onnx.__version__} "
        "defines them; what a known one refuses is listed below, by its words, and official cases that are refused "
        "in `docs/onnx-backend.md`. "
        "Functions that a model brings with it are inlined, whatever their names.",
        "",
        "| operator | known | not known |",
        "|---|---|---|",
    ]
    missing = []
    for name in sorted(versions):
        direct, unknown = [], []
        for schema in sorted(versions[name], key=lambda s: s.since_version):
            version = schema.since_version
            if any(first <= version <= last for first, last in rows.get(name, [])):
                direct.append(version)
            else:
                unknown.append(version)
        if not direct:
            missing.append(name)
            continue
        lines.append(
            f"| {name} | {', '.join(map(str, direct))} | {', '.join(map(str, unknown))} |"
        )
    lines += ["", f"No version of these: {', '.join(missing)}."]
    other = sorted(name for name in rows if name not in versions)
    if other:
        # ONNX Runtime has some of its own in the standard's domain.
        own = [name.removeprefix("com.microsoft.") for name in other]
        own = sorted(set(own))
        lines += ["", f"Also, of com.microsoft: {', '.join(own)}."]
    return lines + refusals()


def render(cases: list[dict], results: dict[str, dict[str, str]]) -> str:
    """The page. results: outcome by case name, by target."""
    return "\n".join(
        [
            "# What is supported",
            "",
            "Generated by `tests/ops/support.py`; the suite checks that it is current.",
            "",
            "## Tensor ops",
            "",
            f"On {', '.join(results)}, from the op cases (`tests/ops/cases.py`), which run on "
            "every target; the dtype is that of the first operand. Empty: there is no such case, "
            "for most because the op does not take the dtype. Where a target is a GPU (`sm_90a`: "
            "`--target cuda`), this is what compiles for it; on a machine that has one the suite "
            "runs all of it against the reference, as for the others.",
            "",
            *tensor_ops(cases, results),
            "",
            with_operators(""),
        ]
    )


DIFFERENCES = """## Where valid ONNX is refused in a run

A model is compiled for symbolic sizes before they are known, so its ranks and what broadcasts are decided then:

- A symbolic dim that is 1 in a run does not broadcast: `Add` of [m, 4] and [n, 4] takes m = n to hold, and 1 beside 3 is an error of the run
  ("sizes m and n must be equal for this model"). `--dim m=1` compiles for it.
- Squeeze without axes takes away dims that are the number 1. A symbolic dim that is 1 in a run is an error of the run; give the node its axes.
"""


def with_operators(page: str) -> str:
    """The page with its parts on ONNX (the last) as they are now."""
    title = "## ONNX operators"
    return page.split(title)[0] + "\n".join([title, "", *onnx_operators(), "", DIFFERENCES])


def outcomes(path: Path) -> dict[str, str]:
    """Of each case, of a file of one instruction set."""
    return {row["name"]: row["outcome"] for row in json.loads(path.read_text()) if row["isa"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("cases", type=Path, nargs="?")
    parser.add_argument("results", nargs="*", help="TARGET=RESULTS.json")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--operators", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    if arguments.operators:
        page = with_operators(arguments.operators.read_text())
        arguments.operators.write_text(page)
        return 0
    if not arguments.results:
        parser.error("the cases and the results of a target are needed")
    results = {}
    for text in arguments.results:
        target, path = text.split("=", 1)
        results[target] = outcomes(Path(path))
    page = render(json.loads(arguments.cases.read_text()), results)
    if arguments.write:
        arguments.write.write_text(page)
    else:
        print(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
