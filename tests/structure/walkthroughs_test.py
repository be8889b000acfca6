"""What the pages docs/first-*.md add to the tree compiles."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command_of(file: Path, build: Path) -> list[str]:
    """How the build compiles the file, without its output."""
    commands = json.loads((build / "compile_commands.json").read_text())
    entry = next(e for e in commands if e["file"] == str(file))
    words = shlex.split(entry["command"])
    while words[0] != "clang++-22" and not words[0].endswith("/clang++-22"):
        words.pop(0)
    output = words.index("-o")
    return [word for word in words[:output] + words[output + 2 :] if word != "-c"]


@pytest.fixture
def build() -> Path:
    build = ROOT / "build" / "dev"
    if not (build / "compile_commands.json").exists():
        pytest.skip("the developer preset is not built")
    return build


def check_compiles(command: list[str], build: Path) -> None:
    done = subprocess.run([*command, "-fsyntax-only", "-Werror"], cwd=build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# A compile by the page's registries: argv has the target and the models. Prints what the front end made, and errors.
COMPILES = """
#include "compiler/pipeline/Compile.h"
#include "frontends/common/FrontEnd.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
using namespace knapper;
int main(int count, char **words) {
  for (int i = 2; i < count; ++i) {
    mlir::MLIRContext context;
    ModelInput input{words[i], {}};
    ModelBuffers buffers;
    Options options;
    options.target = words[1];
    options.cache = false;
    if (std::string_view(words[i]).ends_with(".mlir"))
      options.modelFormat = "mlir";
    else if (input.begin(6) != "broken")
      if (auto made = (*frontEndFor(input))->importModel(context, input, {}, buffers))
        llvm::outs() << **made << "\\n";
    options.cache = input.begin(12) == "broken files";
    CompileInput whole;
    whole.path = words[i];
    Expected<int> made = compileModel(whole, options, "");
    if (!made)
      llvm::outs() << made.error().message() << "\\n";
  }
}
struct Broken final : FrontEnd {
  std::string_view name() const override { return "broken"; }
  bool accepts(const ModelInput &input) const override {
    if (input.begin(14) == "broken accepts")
      throw std::runtime_error("of accepts");
    return input.begin(6) == "broken";
  }
  Expected<std::vector<std::string>> otherFiles(const ModelInput &input) const override {
    if (input.begin(12) == "broken files")
      throw std::runtime_error("of files");
    return std::vector<std::string>();
  }
  Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  importModel(mlir::MLIRContext &context, const ModelInput &input, const DimNumbers &, ModelBuffers &) const override {
    if (input.begin(13) == "broken import")
      throw 7;
    context.loadDialect<mlir::func::FuncDialect>();
    mlir::OpBuilder b(&context);
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(module->getBody());
    auto loc = mlir::NameLoc::get(b.getStringAttr("model.lines:1"));
    mlir::func::FuncOp::create(b, loc, "main", b.getFunctionType({}, {})).addEntryBlock();
    return module;
  }
};
namespace knapper {
const FrontEnd &brokenFrontEnd() {
  static const Broken broken;
  return broken;
}
} // namespace knapper
"""


def objects_of(sources: dict[Path, str], build: Path) -> list[Path]:
    """The objects of the files, each compiled as a file of the tree is."""
    objects = []
    for source, like in sources.items():
        command = [str(source) if word == str(ROOT / like) else word for word in command_of(ROOT / like, build)]
        objects.append(source.with_suffix(".o"))
        done = subprocess.run([*command, "-Werror", "-c", "-o", objects[-1]], cwd=build, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return objects


def link(objects: list[Path], build: Path) -> Path:
    """The objects with the libraries of the whole compiler."""
    like = "compiler/pipeline/TargetPlugins_test"
    commands = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", "-s", like], check=True, capture_output=True, text=True
    ).stdout
    words = shlex.split(commands.splitlines()[-1])
    words = words[words.index("-fuse-ld=lld-22") : words.index("&&", 2)]
    output = words.index("-o")
    words = [word for word in words[:output] + words[output + 2 :] if not word.endswith((".cpp.o", "libgtest_main.a"))]
    program = objects[0].with_suffix("")
    done = subprocess.run(["clang++-22", *objects, *words, "-o", program], cwd=build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def test_the_page_makes_a_target(tmp_path, build):
    for folder in ("targets", "runtime"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    options = tmp_path / "compiler/options/Options.def"
    options.parent.mkdir(parents=True)
    shutil.copy(ROOT / "compiler/options/Options.def", options)
    page = (ROOT / "docs" / "first-target.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 3
    subprocess.run(["sh", "-eu", "-c", "\n".join(blocks)], cwd=tmp_path, check=True)
    registry = (tmp_path / "targets" / "TargetRegistry.cpp").read_text()
    assert registry.count("mineTargetPlugin()") == 2
    assert "|mine|" in options.read_text()
    plugin = tmp_path / "targets/mine/MinePlugin.cpp"
    assert not re.search(r"\bnull\b|Null", plugin.read_text())
    assert "mine null" in (tmp_path / "targets" / "CMakeLists.txt").read_text()
    assert " drivers/mine drivers/null " in (tmp_path / "runtime/CMakeLists.txt").read_text()
    assert "driver_mine knapper_runtime_driver_null" in (tmp_path / "runtime/testing/CMakeLists.txt").read_text()
    assert "driver_mine " in (tmp_path / "runtime/drivers/mine/CMakeLists.txt").read_text()
    ((header, refusal),) = re.findall(r"^```cpp\n(#include .*?\n)\n(.*?)^```", page, re.M | re.S)
    code, made_here = plugin.read_text(), "          // Code of `program` would be made here.\n"
    assert code.count(made_here) == 1
    plugin.write_text(header + code.replace(made_here, refusal))
    for made, like in (
        ("runtime/drivers/mine/MineDevice.cpp", "runtime/drivers/null/NullDevice.cpp"),
        ("runtime/testing/Conformance_test.cpp",) * 2,
    ):
        command = command_of(ROOT / like, build)
        command = [str(tmp_path / made) if word == str(ROOT / like) else word for word in command]
        check_compiles([*command, f"-I{tmp_path}"], build)

    main = tmp_path / "main.cpp"
    main.write_text(COMPILES)
    sources = {
        main: "compiler/pipeline/TargetPlugins_test.cpp",
        plugin: "targets/null/NullPlugin.cpp",
        tmp_path / "targets/TargetRegistry.cpp": "targets/TargetRegistry.cpp",
    }
    program = link(objects_of(sources, build), build)
    (model,) = re.findall(r"^    printf '(.*)' > model.mlir$", page, re.M)
    model = model.replace("%%", "%").replace("\\n", "\n")
    (said,) = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    refused = ".*".join(map(re.escape, said.removeprefix("knapper: error: ").split("...")))
    for text, wanted in ((model, refused), (model.replace("exp", "abs"), "")):
        (tmp_path / "model.mlir").write_text(text)
        done = subprocess.run([program, "mine", "model.mlir"], cwd=tmp_path, check=True, capture_output=True, text=True)
        assert re.fullmatch(wanted, done.stdout), done.stdout


@pytest.mark.parametrize("page", ["first-front-end", "first-schedule", "first-target"])
def test_commands_name_what_there_is(page, build):
    """The targets of ninja; and the files, but for those that the page makes."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    commands = [line.strip() for line in text.split("\n") if line.startswith("    ")]
    made = set(re.findall(r"^// (\S+)$", text, re.M))
    checked = 0
    for command in commands:
        words = command.split()
        if words[:3] == ["ninja", "-C", "build/dev"]:
            query = subprocess.run([*words[:3], "-t", "query", *words[3:]], cwd=ROOT, capture_output=True, text=True)
            assert query.returncode == 0, query.stderr
            checked += 1
        for path in re.findall(r"(?<![\w./-])(?:bench|codegen|docs|tests)/[\w./-]+", command):
            assert path in made or (ROOT / path).exists(), path
    assert checked


def test_the_page_makes_a_schedule(tmp_path, build):
    core = "codegen/schedule/core"
    shutil.copytree(ROOT / core, tmp_path / core)
    page = (ROOT / "docs" / "first-schedule.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S)
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    made = tmp_path / code.split()[1]
    made.parent.mkdir()
    made.write_text(code)
    subprocess.run(["sh", "-euc", shell], cwd=tmp_path, check=True)
    assert "RowTiles" in (tmp_path / core / "Schedules.def").read_text()
    like = ROOT / "codegen" / "schedule" / "pointwise" / "Pointwise.cpp"
    command = [str(made) if word == str(like) else word for word in command_of(like, build)]
    # The copies, with the new line of the table, are found before the tree.
    command = [command[0], f"-I{tmp_path}", *command[1:]]
    check_compiles(command, build)
    (guard,) = re.findall(r"^    std::optional<int64_t> known.*?like\(64\)\}\);\n", page, re.M | re.S)
    offer = "  schedules.push_back"
    assert code.count(offer) == 1
    made.write_text(code.replace(offer, guard + offer))
    check_compiles(command, build)


def test_the_lit_test_of_the_page_is_a_program(tmp_path, build):
    """Its commands run; what they print is the new schedule's."""
    page = (ROOT / "docs" / "first-schedule.md").read_text(encoding="utf-8")
    (test,) = re.findall(r"^```mlir\n(.*?)^```", page, re.M | re.S)
    assert "kind = \"row_tiles\"" in test
    file = tmp_path / "row-tiles.mlir"
    file.write_text(test)
    commands = re.findall(r"RUN: knapper (.*) %s (.*) \| FileCheck", test)
    assert len(commands) == 2
    for before, after in commands:
        done = subprocess.run([build / "bin" / "knapper", *before.split(), file, *after.split()], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "@main" in done.stdout and "pointwise" in done.stdout


def test_the_page_makes_a_front_end(tmp_path, build):
    for file in ("frontends/FrontEndRegistry.cpp", "frontends/CMakeLists.txt", "compiler/options/Options.def"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    page = (ROOT / "docs" / "first-front-end.md").read_text(encoding="utf-8")
    code, more = re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S)
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    model, said = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    made = tmp_path / code.split()[1]
    subprocess.run(["sh", "-euc", shell], cwd=tmp_path, check=True)
    last = '  (void)fail("no operator'
    assert code.count(last) == 1
    made.write_text(code.replace(last, more + last))
    registry = tmp_path / "frontends/FrontEndRegistry.cpp"
    assert registry.read_text().count("linesFrontEnd()") == 2
    assert (tmp_path / "frontends/CMakeLists.txt").read_text().count("lines") == 2
    assert "|lines|" in (tmp_path / "compiler/options/Options.def").read_text()

    text = registry.read_text()
    text = text.replace("const FrontEnd &linesFrontEnd();", "const FrontEnd &linesFrontEnd(), &brokenFrontEnd();")
    registry.write_text(text.replace("&linesFrontEnd(),", "&linesFrontEnd(), &brokenFrontEnd(),"))
    main = tmp_path / "main.cpp"
    main.write_text(COMPILES)
    sources = {
        main: "compiler/pipeline/TargetPlugins_test.cpp",
        made: "frontends/onnx/OnnxFrontEnd.cpp",
        registry: "frontends/FrontEndRegistry.cpp",
    }
    program = link(objects_of(sources, build), build)

    def imported(text: str) -> str:
        (tmp_path / "model.lines").write_text(text)
        return subprocess.run([program, "null", "model.lines"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert 'ts.max' in imported(model) and 'ts.name = "z"' in imported(model)
    wrong = imported(model.replace("add z y x", "add z y w"))
    assert wrong.splitlines()[0] == said.splitlines()[0].removeprefix("knapper: error: ")
    assert imported("input x 4 8\ninput y 8 2\nmatmul z x y\noutput z\n").count("tensor<4x2xf32>") >= 2
    for text, said in (
        ("input x 4 8\ninput y 9 2\nmatmul z x y\noutput z\n", "model.lines:3: "),
        ("input x 4\ninput y 4 2\nmatmul z x y\noutput z\n", "model.lines:3: "),
        ("input x 4 8\ninput y 4 9\nadd z x y\noutput z\n", "model.lines:3: "),
        ("input x 4 -8\noutput x\n", "model.lines:1: "),
        ("input x 4 eight\noutput x\n", "model.lines:1: 'eight' is no size"),
        ("input x 4000000000 8000000000\noutput x\n", "model.lines:1: "),
        ("input x 4\nrelu\noutput x\n", "model.lines:2: no operator 'relu'"),
        ("input x 4\nrelu x x\noutput x\n", "model.lines:2: there is a value 'x' already"),
        ("input x 4\nrelu y x\noutput\n", "model.lines:3: names no value"),
        ("input x 4\nrelu y x\n", "model.lines: there is no output"),
    ):
        assert imported(text).startswith(said), imported(text)
    broken = imported("broken")
    assert "model.lines:1: the front end 'broken' made a program that is not valid: " in broken
    for text, said in (
        ("accepts", "was asked whether it accepts it: of accepts"),
        ("files", "listed its files: of files"),
        ("import", "imported it: no std::exception"),
    ):
        threw = imported("broken " + text)
        assert threw.startswith(f"model.lines: the front end 'broken' threw while it {said}\n  try: name the model's format"), threw
