"""The shape of the source tree: unique names, arrows that point one way, the field's vocabulary, short functions."""

import ast
import collections
import fnmatch
import functools
import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A folder may include from itself and from those before it.
ORDER = ("runtime", "ir", "graph", "tune", "codegen", "targets", "frontends", "compiler", "serving", "capi", "tools", "tests", "bench")
STAGES = ("codegen/math", "codegen/lower", "codegen/schedule")
# Where a kind of device, an instruction set or PTX may be named in a condition.
# docs/decisions/who-names-a-device.md says why each exception stays.
OWNERS = ("targets/", "runtime/drivers/", "runtime/testing/", "tests/", "tools/knapper-translate/", "compiler/report/Advice.cpp")
DRIVERS = ("capi/Runtime.cpp", "serving/engine/LoadEngine.cpp", "runtime/execute/ExecutionConstants.cpp")
NAMED = re.compile(r"""(isa|kind|target|name\(\)) *[!=]= *(?:"(?:sm_|x86|cuda|cpu|ptx)|DeviceKind)|starts_with\("(?:sm_|cuda|x86|cpu)|[!=]= *"(?:cuda|cpu)"|(?:find|has|contains)\([^)]*"(?:sm_|x86|avx|amx|vnni|cuda|cpu)\b""")


@functools.cache
def sources(*endings: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)  # fmt: skip
    return [f for f in listed.stdout.split("\n") if f.endswith(endings) and (ROOT / f).exists()]


@functools.cache
def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def is_test(file: str) -> bool:
    return file.endswith("_test.cpp") or file.startswith(("tests/", "bench/"))


def test_nothing_that_a_command_wrote_lies_in_the_repository():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    root = {f for f in listed if "/" not in f and f.endswith((".html", ".json", ".knap", ".onnx", ".npz", ".npy", ".txt", ".log", ".mlir", ".csv"))}
    assert len(listed) > 1000
    assert root <= {"CMakeLists.txt", "CMakePresets.json"}, "give the command another folder, or add the file to .gitignore"


def test_a_file_name_stands_once():
    places = collections.defaultdict(list)
    for file in sources(".cpp", ".h", ".td", ".def", ".mlir"):
        places[Path(file).name].append(file)
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice


def test_a_script_name_stands_once():
    """Tests and scripts find each other by bare names; modules of the package are named by their folders too."""
    places = collections.defaultdict(list)
    for file in sources(".py"):
        if not file.startswith("python/") and Path(file).name not in ("conftest.py", "__init__.py", "__main__.py"):
            places[Path(file).name].append(file)
    assert len(places) > 200
    assert not {name: files for name, files in places.items() if len(files) > 1}


CLASS = re.compile(r"^(?:class|struct|enum class|enum|union)(?: alignas\(\w+\)| [A-Z_]{4,})? ([A-Z]\w+)(?: final)?\s*(?:\{|:[^:])", re.M)


def test_a_class_name_stands_once():
    """In all namespaces, those of tests too."""
    places = collections.defaultdict(set)
    for file in sources(".cpp", ".h"):
        for name in CLASS.findall(text(file)):
            places[name].add(file)
    assert len(places) > 1000
    assert not {name: sorted(files) for name, files in places.items() if len(files) > 1}


def includes() -> list[tuple[str, str]]:
    return [(f, i) for f in sources(".cpp", ".h") for i in re.findall(r'^#include "([^"]+)"', text(f), re.M)]


@pytest.mark.parametrize("order", [ORDER, STAGES], ids=["folders", "codegen"])
def test_no_include_runs_back_up(order):
    def rank(path):
        return next((i for i, folder in enumerate(order) if path.startswith(folder + "/")), None)

    back = []
    for file, included in includes():
        mine, theirs = rank(file), rank(included)
        if mine is not None and theirs is not None and theirs > mine:
            back.append(f"{file} includes {included}")
    assert not back


def test_kernels_of_one_kind_of_gpu_include_none_of_another():
    """simt, sm80 and sm90 stand side by side; what two of them need is in `common`, which needs none of them."""
    nvidia = "codegen/lower/gpu/nvidia/"
    pairs = [(f.split("/")[4], i.split("/")[4]) for f, i in includes() if f.startswith(nvidia) and i.startswith(nvidia) and f.count("/") == 5]
    assert len(pairs) > 40
    assert {(mine, theirs) for mine, theirs in pairs if theirs not in (mine, "common")} == set()


def circle(uses: dict[str, set[str]]) -> list[str]:
    """Nodes of which each uses the next and the last the first; empty: there are none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node not in done:
            path.append(node)
            for other in sorted(uses.get(node, ())):
                if found := visit(other):
                    return found
            done.add(path.pop())
        return []

    return next((found for node in sorted(uses) if (found := visit(node))), [])


def test_circles_are_found():
    assert circle({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("of", ["files", "folders"])
def test_includes_have_no_circle(of):
    """Those of tests and benches too. A file names another by its path from the root, or lies beside it."""
    uses = collections.defaultdict(set)
    for file, included in includes():
        found = next((f for f in (included, f"include/{included}", str(Path(file).parent / included)) if (ROOT / f).exists()), None)
        if found:
            mine, theirs = (file, found) if of == "files" else (str(Path(file).parent), str(Path(found).parent))
            if of == "files" or mine != theirs:
                uses[mine].add(theirs)
    assert len(uses) > (1000 if of == "files" else 80)
    assert circle(uses) == []


def test_only_targets_name_a_target_in_a_condition():
    decision = text("docs/decisions/who-names-a-device.md")
    for exception in (*DRIVERS, "compiler/report/Advice.cpp"):
        assert NAMED.search(text(exception)) and f"`{exception}`" in decision, exception
    named = []
    for file in sources(".cpp", ".h"):
        if not file.startswith((*OWNERS, *DRIVERS)) and not is_test(file):
            named += [f"{file}:{n}: {line.strip()}" for n, line in enumerate(text(file).split("\n"), 1) if NAMED.search(line)]  # fmt: skip
    assert not named


# The drop-ins and torch have names of their own for devices; placement.py says which target is theirs.
PYTHON_OWNERS = ("python/knapper/ort/", "python/knapper/openvino/", "python/knapper/torch/", "python/knapper/jax/")
NAMED_IN_PYTHON = re.compile(r"""(?:==|!=|\bin) *\(?["'](?:(?:cpu|cuda|null)["':]|sm_|x86)|startswith\(\(?["'](?:cpu|cuda|sm_|x86)""")


def test_the_python_package_names_no_target_in_a_condition():
    """It asks what the module says of itself: `describe()["addresses_host"]`."""
    for line in ('if where == "cpu":', 'x not in ("cpu", "cuda")', 'target.startswith("cuda")'):
        assert NAMED_IN_PYTHON.search(line), line
    files = [f for f in sources(".py") if f.startswith("python/knapper/") and not f.startswith(PYTHON_OWNERS)]
    assert len(files) > 30
    assert not [f"{f}:{n}: {line.strip()}" for f in files for n, line in enumerate(text(f).split("\n"), 1) if NAMED_IN_PYTHON.search(line)]


# A key in quotes is looked up in a schedule's settings; so does what calls `print` and `parse` by hand.
KEYED = re.compile(r"""parameters(?:\(\))?(?:\.|->)(?:find|at|count|contains|erase|insert|emplace)\(\{? *"|parameters(?:\(\))?\[ *"|config\w*(?:\.|->)(?:get|find|at|contains)\( *\"""")


def test_settings_of_kernels_are_typed_fields():
    """Text and keys are ir/config/Fields.h's; all other code reads `config.field` (LaunchConfig, configOf)."""
    for line in ('schedule.parameters.find("threads")', 'schedule.parameters["lanes"] = 4', 'config.get("path")'):
        assert KEYED.search(line), line
    readers = ("codegen/", "compiler/", "graph/", "ir/", "targets/", "tools/", "tune/")
    files = [f for f in sources(".cpp", ".h") if f.startswith(readers) and not f.startswith("ir/config/") and not is_test(f)]
    assert len(files) > 500
    keyed = [f"{f}:{n}: {line.strip()}" for f in files for n, line in enumerate(text(f).split("\n"), 1) if KEYED.search(line)]
    assert not keyed


def imports(file: str) -> list[str]:
    """Modules that a Python file imports, dotted, inside functions too; not those that a type checker alone sees."""
    package = file.removesuffix(".py").split("/")[1:-1]
    found, nodes = [], [ast.parse(text(file))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            found += [".".join([*base, alias.name]) for alias in node.names] + [".".join(base)]
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            nodes += ast.iter_child_nodes(node)
    return found


def test_the_python_package_imports_in_no_circle():
    """... and nothing of the tests, benches and tools."""
    files = {f.removesuffix(".py").removesuffix("/__init__").split("/", 1)[1].replace("/", "."): f for f in sources(".py") if f.startswith("python/")}
    assert len(files) > 100
    uses = {}
    for module, file in files.items():
        named = imports(file)
        assert not [n for n in named if n.split(".")[0] in ("tests", "bench", "tools")], file
        # `from package import module` is of the module.
        whole = {n for n in named if n in files}
        uses[module] = {n for n in whole if not any(o.startswith(n + ".") for o in whole)} - {module}
    assert circle(uses) == []


# What stands on the core of the package. Only `compile` knows one of them: it hands a program of torch.export over.
PYTHON_FRONTS = ("jax", "openvino", "ort", "reduce", "torch")
PYTHON_DISPATCH = "python/knapper/compiler.py"


def test_no_import_of_the_python_package_runs_back_up():
    """The core imports none of what stands on it; these import one another nowhere."""
    back = collections.defaultdict(set)
    for file in (f for f in sources(".py") if f.startswith("python/knapper/")):
        folder = file.split("/")[2]
        for name in (n.split(".") for n in imports(file)):
            if name[0] == "knapper" and len(name) > 1 and name[1] in PYTHON_FRONTS and name[1] != folder:
                back[file].add(name[1])
    assert back == {PYTHON_DISPATCH: {"torch"}}


def test_scripts_import_in_no_circle():
    """Tests, benches and tools: a module lies beside who imports it, or in a folder that holds it once."""
    files = [f for f in sources(".py") if f.startswith(("tests/", "bench/", "tools/", "packaging/", "docs/", "examples/"))]
    assert len(files) > 200
    places = collections.defaultdict(list)
    for file in files:
        places[Path(file).stem].append(file)
    uses = collections.defaultdict(set)
    for file in files:
        above = [str(folder) for folder in Path(file).parents]
        for name in filter(None, imports(file)):
            path = name.replace(".", "/")
            beside = [f"{folder}/{path}{end}" for folder in above for end in (".py", "/__init__.py")]
            found = next((f for f in beside if f in files), None)
            if not found and len(places[path]) == 1:
                found = places[path][0]
            if found and found != file:
                uses[file].add(found)
    assert len(uses) > 100
    assert circle(uses) == []


def names_bound_again(tree: ast.Module) -> list[str]:
    """Names that a module imports and binds anew outside its functions: what a function reads later is the second one."""
    imported = {a.asname or a.name.split(".")[0] for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom) for a in s.names}
    own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    again, left = [], [s for s in tree.body if not isinstance(s, ast.If | ast.Try)]
    while left:
        node = left.pop()
        if isinstance(node, own):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in imported:
            again.append(node.id)
        left += ast.iter_child_nodes(node)
    return again


def test_imported_names_are_bound_once():
    assert names_bound_again(ast.parse("from a import wide\nfor i in b:\n    wide = 1\n")) == ["wide"]
    assert not names_bound_again(ast.parse("from a import wide\nf = lambda wide: [wide for wide in b]\ndef g():\n    wide = 1\n"))
    assert not {f: names for f in sources(".py") if (names := names_bound_again(ast.parse(text(f))))}


def long_functions(file: str, most: int) -> list[str]:
    """Functions and methods at the outer three levels, as clang-format indents them."""
    found = []
    lines = text(file).split("\n")
    for indent in ("", "  ", "    "):
        begin = 0
        opens = re.compile(rf"{indent}[^\s#/}}]")
        for n, line in enumerate(lines):
            if opens.match(line):
                begin = n
            if line == f"{indent}}}" and n + 1 - begin > most:
                found.append(f"{file}:{begin + 1}: {n + 1 - begin} lines: {lines[begin].strip()}")
    return found


def test_kernels_of_gpus_are_short_functions():
    """A recipe reads like the algorithm: steps with names, no function of more than 120 lines."""
    folder = "codegen/lower/gpu/nvidia/"
    files = [f for f in sources(".cpp", ".h") if f.startswith(folder)]
    assert len(files) > 20
    assert not [found for file in files for found in long_functions(file, 120)]
    recipes = ("sm90/WgmmaMatmul", "sm90/ImplicitGemmLoad", "sm90/FlashAttention", "sm80/MmaSyncMatmul", "simt/SimtMatmul", "simt/SimtAttention", "common/GroupedTileScheduler")  # fmt: skip
    assert not {r: n for r in recipes if (n := text(f"{folder}{r}.cpp").count("\n")) > 200}


def test_functions_are_steps_with_names():
    """At most 120 lines each. (In tests tables of cases are longer.)"""
    files = [f for f in sources(".cpp", ".h") if not is_test(f)]
    assert not [found for file in files for found in long_functions(file, 120)]


def test_functions_in_python_are_steps_with_names():
    """At most 120 lines each; those of tests are not counted, as in C++."""
    files = [f for f in sources(".py") if not is_test(f)]
    assert len(files) > 100
    functions = [(f, n) for f in files for n in ast.walk(ast.parse(text(f))) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert not [f"{f}:{n.lineno}: {n.name}" for f, n in functions if n.end_lineno - n.lineno >= 120]


# One list by nature each: the ops of a dialect; shapes and their bars.
LISTS = ("ir/tile/TileOps.td", "bench/floor_shapes.py")


def test_a_file_has_one_idea():
    """At most 600 lines, tests too."""
    files = sources(".cpp", ".h", ".td", ".def", ".py", ".mlir")
    assert len(files) > 1500
    long = {f for f in files if text(f).count("\n") > 600}
    assert long == set(LISTS), "split it by its second idea; LISTS has what is one list"


# Ops that are named where they are defined, decomposed, scheduled, read by a front end or matched by a rewrite of their own.
OWN_FILES = ("ir/tensor/", "ir/tile/", "codegen/lower/", "codegen/schedule/attention/", "frontends/", "serving/models/", "graph/simplify/FindAttention.cpp", "graph/simplify/RefineAttentionMask.cpp")  # fmt: skip


def test_few_files_name_an_op_among_others():
    """What fusion and costs need to know of an op stands in ir/tensor/Heroes.cpp."""
    naming = [f for f in sources(".cpp", ".h") if not f.startswith(OWN_FILES) and not is_test(f) and re.search(r"\bAttentionOp\b", text(f))]  # fmt: skip
    assert len(naming) <= 6, naming


def test_the_field_has_words_for_it():
    rows = [line for line in text("tests/structure/vocabulary.txt").split("\n") if line and line[0] != "#"]
    patterns = [re.split(r"\s{2,}", row, maxsplit=1) for row in rows]
    found = []
    for file in sources(".cpp", ".h", ".td", ".def", ".md", ".py", ".mlir"):
        if file.startswith("tests/structure/") or file in ("docs/glossary.md", "CHANGELOG.md"):
            continue
        content = text(file)
        for pattern, term in patterns:
            for match in re.finditer(pattern, content, re.I if pattern.islower() else 0):
                line = content.count("\n", 0, match.start()) + 1
                found.append(f"{file}:{line}: '{match[0]}', say {term}")
    assert not found, "\n".join(found)


def test_files_that_the_pages_name_exist():
    """In `backticks`, by the end of their path. (`build-time` names headers of others.)"""
    every = sources(".cpp", ".h", ".td", ".def", ".fbs", ".py")
    known = {"/".join(parts[i:]) for parts in (f.split("/") for f in every) for i in range(len(parts))}
    generated = {"llvm_absent.cpp"}  # by CMake
    pages = [f for f in sources(".md") if f.startswith(("docs/", "CONTRIBUTING")) and not f.startswith("docs/notes/")]
    named = [(page, name) for page in pages for name in re.findall(r"`([\w./*-]+\.(?:cpp|h|td|def|fbs|py))`", text(page))]
    assert len(named) > 300
    unknown = [(p, n) for p, n in named if n not in known | generated and not ("*" in n and any(fnmatch.fnmatch(k, n) for k in known))]
    assert not unknown


def test_each_module_of_the_python_package_has_its_row():
    page = text("docs/stack/python.md")
    parts = {f.split("/")[2] + "/" * (f.count("/") > 2) for f in sources(".py") if f.startswith("python/knapper/")}
    assert len(parts) > 30
    assert [part for part in sorted(parts) if not part.startswith("__") and f"`{part}`" not in page] == []


def test_each_bench_has_its_row():
    page = text("docs/stack/bench.md")
    commands = [f for f in sources(".py") if f.startswith("bench/") and f.count("/") == 1 and text(f).startswith("#!")]
    assert len(commands) > 30
    assert [f for f in commands if f"`{f}" not in page] == []


def test_the_picture_of_the_layers_is_current(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "images"))
    architecture = importlib.import_module("architecture")
    source = text("docs/images/architecture.txt")
    assert text("docs/images/architecture.svg") == architecture.drawing(source), "run docs/images/architecture.py"
    rows = [line.removeprefix("row ") for line in source.split("\n") if line.startswith("row ")]
    folders = [box.split()[0] for row in rows for box in row.split("|")]
    assert len(folders) > 15
    assert [f for f in folders if not (ROOT / f).is_dir()] == []


def test_the_table_of_changes_is_true():
    """CONTRIBUTING's: its paths exist, and what it says has a line in a file has one."""
    table = text("CONTRIBUTING.md").split("## What a change of each kind touches")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.split("\n") if line.startswith("| ")][1:]
    assert len(rows) > 12
    paths = {name for row in rows for cell in row for name in re.findall(r"`([\w./-]+/[\w./-]+)`", cell)}
    paths -= {"targets/NAME", "frontends/NAME", "runtime/drivers/NAME"}
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []

    def folders(parent):
        return [path.name for path in (ROOT / parent).iterdir() if (path / "CMakeLists.txt").exists()]

    def defined(folder, pattern):
        return {name for f in sources(".cpp") if f.startswith(folder) for name in re.findall(pattern, text(f), re.M)}

    def listed(file, pattern):
        return set(re.findall(pattern, text(file), re.M))

    schedules = listed("codegen/schedule/core/Schedules.def", r'^SCHEDULE\("\w+", (\w+),')
    assert len(schedules) > 25
    assert schedules == defined("codegen/schedule/", r"^LogicalResult choose(\w+)\(ts::KernelOp") & defined("codegen/schedule/", r"^LogicalResult build(\w+)\(BuildContext &\w+\) \{")
    described = text("docs/stack/schedule.md")
    assert [kind for kind in listed("codegen/schedule/core/Schedules.def", r'^SCHEDULE\("(\w+)",') if f"`{kind}`" not in described] == []
    families = listed("serving/models/Families.def", r'^FAMILY\("\w+", (\w+)\)')
    assert families and families <= defined("serving/models/", r"^void read(\w+)\(ConfigReader")
    commands = defined("tools/knapper/", r"^void add(\w+)\(CLI::App &app, Session &session\) \{")
    assert len(commands) > 15 and commands == listed("tools/knapper/CommandLine.cpp", r"\badd([A-Z]\w+)[,}]")
    for folder in folders("targets"):
        assert f"&{folder}TargetPlugin()," in text("targets/TargetRegistry.cpp"), folder
    for folder in set(folders("frontends")) - {"common"}:
        assert f"&{folder}frontend()," in text("frontends/FrontEndRegistry.cpp").lower(), folder
    for folder in folders("runtime/drivers"):
        assert f"drivers/{folder}" in text("runtime/CMakeLists.txt"), folder
        assert f'{{"{folder}", ' in text("runtime/testing/Conformance_test.cpp"), folder
