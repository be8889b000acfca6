// Runs the op cases: the reference evaluator, and compiled code against it.
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/Text.h"
#include "targets/cpu/testing/Tiles.h"
#include "tests/ops/Cases.h"
#include "tests/ops/Compiled.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <fstream>
#include <malloc.h>
#include <set>

using namespace mlir;
using namespace knapper;
using namespace knapper::opcases;

namespace {

/// The command line. Linking resets LLVM's registered options, so that these
/// are read by hand.
struct RunnerArguments {
  std::string list, filter, dump, results, write;
  std::vector<std::string> types, isas;
  std::optional<std::pair<unsigned, unsigned>> sample; // seed, how many
  bool speed = false, emulateTiles = false;
  unsigned part = 0, parts = 1, others = 0;
  std::optional<unsigned> other;
};

constexpr const char *usage =
    "op_cases cases.json [options]\n"
    "  --filter TEXT   only cases whose name has this text\n"
    "  --type T[,T]    only cases with one of these element types\n"
    "  --dump FOLDER   write inputs and reference results\n"
    "  --isa NAME[,NAME]  compile for each, run, compare with the reference\n"
    "  --write FOLDER  with --isa: write each as NAME.knap and run nothing\n"
    "  --other N       with --isa: schedules by the Nth other choice of their "
    "knobs\n"
    "  --others N      with --isa: the Ith case for the first by choice I mod "
    "N, too\n"
    "  --sample SEED:COUNT  about so many of the cases, drawn by the seed\n"
    "  --speed         measure the cases that name a size for it instead\n"
    "  --results FILE  write what became of each case, as JSON\n"
    "  --part I --parts N   every Nth case, from the Ith\n"
    "  --emulate-tiles      in software where the processor has none\n";

std::optional<RunnerArguments> parse(int argc, char **argv) {
  RunnerArguments arguments;
  for (int i = 1; i < argc; ++i) {
    StringRef argument = argv[i];
    if (argument == "--speed") {
      arguments.speed = true;
      continue;
    }
    if (argument == "--emulate-tiles") {
      arguments.emulateTiles = true;
      continue;
    }
    if (!argument.starts_with("--")) {
      arguments.list = argument.str();
      continue;
    }
    if (++i == argc)
      return std::nullopt;
    StringRef value = argv[i];
    unsigned number = 0;
    if (argument == "--filter")
      arguments.filter = value.str();
    else if (argument == "--type")
      for (StringRef type : llvm::split(value, ','))
        arguments.types.push_back(type.str());
    else if (argument == "--dump")
      arguments.dump = value.str();
    else if (argument == "--isa")
      for (StringRef isa : llvm::split(value, ','))
        arguments.isas.push_back(isa.str());
    else if (argument == "--results")
      arguments.results = value.str();
    else if (argument == "--write")
      arguments.write = value.str();
    else if (argument == "--sample") {
      auto [seed, many] = value.split(':');
      arguments.sample.emplace();
      if (seed.getAsInteger(10, arguments.sample->first) ||
          many.getAsInteger(10, arguments.sample->second))
        return std::nullopt;
    } else if (argument == "--other" && !value.getAsInteger(10, number))
      arguments.other = number;
    else if (argument == "--part"     ? value.getAsInteger(10, arguments.part)
             : argument == "--parts"  ? value.getAsInteger(10, arguments.parts)
             : argument == "--others" ? value.getAsInteger(10, arguments.others)
                                      : true)
      return std::nullopt;
  }
  bool writes = !arguments.write.empty(), others = arguments.others > 0;
  if ((arguments.other || others) && (arguments.isas.empty() || writes))
    return std::nullopt;
  if (arguments.other && others)
    return std::nullopt;
  if (arguments.list.empty() || arguments.parts == 0 ||
      ((arguments.speed || writes) && arguments.isas.size() != 1))
    return std::nullopt;
  return arguments;
}

/// Whether a case is drawn: by its name, so that a change of the list moves no
/// other.
bool isDrawn(const RunnerArguments &arguments, StringRef name, size_t all) {
  if (!arguments.sample)
    return true;
  auto [seed, count] = *arguments.sample;
  return llvm::xxh3_64bits(cat(seed, " ", std::string_view(name))) % all <
         count;
}

/// Whether one of the element types stands in the case's program, or none was
/// asked for. Types stand alone there, or behind the x of a shape.
bool hasType(const RunnerArguments &arguments, StringRef program) {
  auto standsAlone = [&](StringRef type) {
    for (size_t at = program.find(type); at != StringRef::npos;
         at = program.find(type, at + 1)) {
      char before = at ? program[at - 1] : ' ';
      StringRef after = program.drop_front(at + type.size());
      if ((before == 'x' || !llvm::isAlnum(before)) &&
          (after.empty() || !llvm::isAlnum(after.front())))
        return true;
    }
    return false;
  };
  return arguments.types.empty() || llvm::any_of(arguments.types, standsAlone);
}

/// Writes tensors one after the other into a file of its own, and describes
/// them.
llvm::json::Value dump(const std::string &folder, const std::string &file,
                       ArrayRef<ts::HostTensor> tensors) {
  llvm::json::Array list;
  std::ofstream out(folder + "/" + file, std::ios::binary);
  for (const ts::HostTensor &tensor : tensors) {
    out.write(reinterpret_cast<const char *>(tensor.data()),
              static_cast<std::streamsize>(tensor.bytes()));
    llvm::json::Array dims;
    for (int64_t dim : tensor.dims())
      dims.push_back(dim);
    list.push_back(
        llvm::json::Object{{"dtype", std::string(name(tensor.dtype()))},
                           {"dims", std::move(dims)}});
  }
  return llvm::json::Object{{"file", file}, {"tensors", std::move(list)}};
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// What is printed is parsed to the same module.
bool survivesText(ModuleOp module) {
  std::string text = textOf(module);
  OwningOpRef<ModuleOp> again =
      parseSourceString<ModuleOp>(text, module.getContext());
  return again && textOf(*again) == text;
}

/// Every op of the dialect has a case.
std::vector<std::string> opsWithoutCase(MLIRContext &context,
                                        const std::vector<OpCase> &cases) {
  std::set<StringRef> missing;
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "ts")
      missing.insert(op.getStringRef());
  // A weight needs a file: compiler/constants tests it. Control flow needs
  // functions of a module: tests/onnx_nodes/control_flow_test.py and the tests
  // of ir/tensor/reference have it.
  for (StringRef op :
       {"ts.weight", "ts.if", "ts.loop", "ts.check", "ts.external"})
    missing.erase(op);
  for (const OpCase &opCase : cases)
    for (auto it = missing.begin(); it != missing.end();)
      it = StringRef(opCase.mlir).contains((*it + " ").str())
               ? missing.erase(it)
               : std::next(it);
  return {missing.begin(), missing.end()};
}

/// What a case is compiled as, and what becomes of it.
struct Variant {
  std::string isa;
  std::optional<unsigned> other; ///< this choice of its knobs, not the model's
  std::optional<Compiled> compiled;
  std::string outcome = "passed";
};

/// Runs cases and counts what becomes of them.
class Runner {
public:
  Runner(const RunnerArguments &arguments, MLIRContext &context)
      : arguments(arguments), context(context) {}

  /// The case at a place among those that the options mean.
  void run(const OpCase &opCase, unsigned index);
  void fail(const std::string &what) {
    llvm::errs() << what << "\n";
    ++failures;
  }
  /// Writes the files that the options name, and one line. The exit status.
  int finish();

private:
  void fail(const OpCase &opCase, Variant &variant, const std::string &what);
  void note(const OpCase &opCase, const Variant &variant);
  std::vector<Variant> variantsOf(const OpCase &opCase, unsigned index);
  void compile(const OpCase &opCase, Variant &variant);
  void compileOther(const OpCase &opCase, const Compiled &first,
                    Variant &variant);
  void runSizes(const OpCase &opCase, func::FuncOp function, const Sizes &sizes,
                Variant &reference, std::vector<Variant> &variants);
  void measure(const OpCase &opCase, Variant &variant, const Sizes &sizes,
               const std::vector<ts::HostTensor> &inputs);
  void compare(const OpCase &opCase, Variant &variant, const Sizes &sizes,
               const std::vector<ts::HostTensor> &inputs,
               ArrayRef<ts::HostTensor> expected);
  void dumpRun(const OpCase &opCase, const Sizes &sizes,
               const std::vector<ts::HostTensor> &inputs,
               ArrayRef<ts::HostTensor> expected);

  const RunnerArguments &arguments;
  MLIRContext &context;
  unsigned failures = 0, runs = 0, count = 0, unsupported = 0, others = 0;
  llvm::json::Array manifest, outcomes;
};

void Runner::fail(const OpCase &opCase, Variant &variant,
                  const std::string &what) {
  std::string as = arguments.isas.size() > 1 ? variant.isa : "";
  if (arguments.others > 0 && variant.other)
    as = cat(variant.isa, " by choice ", *variant.other);
  fail(cat(opCase.name, as.empty() ? "" : cat(" for ", as), ": ", what));
  variant.outcome = "failed: " + what;
}

void Runner::compile(const OpCase &opCase, Variant &variant) {
  std::string file;
  if (!arguments.write.empty())
    file = cat(arguments.write, "/", opCase.name, ".knap");
  Expected<Compiled> made = Compiled::compile(opCase.mlir, variant.isa, file);
  if (made) {
    if (file.empty())
      variant.compiled.emplace(std::move(*made));
    return;
  }
  if (made.error().kind != ErrorKind::user &&
      made.error().what.find("no schedule serves") == std::string::npos)
    return fail(opCase, variant, "compile: " + made.error().message());
  // A gap of the support page; the list has none, so a new one fails.
  fail(opCase, variant, "refused: " + made.error().what);
  variant.outcome = "unsupported: " + made.error().what;
  ++unsupported;
}

void Runner::compileOther(const OpCase &opCase, const Compiled &first,
                          Variant &variant) {
  auto other = first.otherwise(opCase.mlir, variant.isa, *variant.other);
  if (!other)
    return fail(opCase, variant, "otherwise: " + other.error().message());
  if (!*other) {
    variant.outcome = "no other choice";
    return;
  }
  ++others;
  variant.compiled.emplace(std::move(**other));
}

std::vector<Variant> Runner::variantsOf(const OpCase &opCase, unsigned index) {
  std::vector<Variant> variants;
  for (const std::string &isa : arguments.isas) {
    Variant &variant = variants.emplace_back(Variant{isa, {}, {}});
    compile(opCase, variant);
    if (!arguments.other || !variant.compiled)
      continue;
    Compiled first = std::move(*variant.compiled);
    variant.compiled.reset();
    variant.other = arguments.other;
    compileOther(opCase, first, variant);
  }
  if (arguments.others > 0 && variants[0].compiled) {
    Variant other{variants[0].isa, index % arguments.others, {}};
    compileOther(opCase, *variants[0].compiled, other);
    variants.push_back(std::move(other));
  }
  return variants;
}

void Runner::measure(const OpCase &opCase, Variant &variant, const Sizes &sizes,
                     const std::vector<ts::HostTensor> &inputs) {
  Expected<double> seconds = variant.compiled->time(inputs, 20);
  if (!seconds)
    return fail(opCase, variant,
                sizesText(sizes) + ": " + seconds.error().message());
  llvm::outs() << llvm::formatv("{0,-32} {1,-20} {2,10:F1} us\n", opCase.name,
                                sizesText(sizes), *seconds * 1e6);
}

void Runner::compare(const OpCase &opCase, Variant &variant, const Sizes &sizes,
                     const std::vector<ts::HostTensor> &inputs,
                     ArrayRef<ts::HostTensor> expected) {
  auto actual = variant.compiled->run(inputs);
  if (!actual)
    return fail(opCase, variant,
                sizesText(sizes) + ": " + actual.error().message());
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::string wrong =
            difference(expected[i], (*actual)[i], opCase.tolerance);
        !wrong.empty())
      return fail(opCase, variant,
                  sizesText(sizes) + ": result " + std::to_string(i) + ": " +
                      wrong);
}

void Runner::dumpRun(const OpCase &opCase, const Sizes &sizes,
                     const std::vector<ts::HostTensor> &inputs,
                     ArrayRef<ts::HostTensor> expected) {
  llvm::json::Object entry{{"name", opCase.name}};
  llvm::json::Object bound;
  for (const auto &[name, value] : sizes)
    bound[name] = value;
  entry["sizes"] = std::move(bound);
  entry["inputs"] = dump(arguments.dump, cat(runs, ".in"), inputs);
  entry["results"] = dump(arguments.dump, cat(runs, ".out"), expected);
  manifest.push_back(std::move(entry));
}

/// The reference once, and every variant against it.
void Runner::runSizes(const OpCase &opCase, func::FuncOp function,
                      const Sizes &sizes, Variant &reference,
                      std::vector<Variant> &variants) {
  ++runs;
  auto inputs = makeInputs(opCase, function, sizes);
  if (!inputs)
    return fail(opCase, reference, inputs.error().message());
  if (arguments.speed)
    return measure(opCase, variants[0], sizes, *inputs);
  ts::EvaluateContext state;
  for (const auto &[name, value] : sizes)
    state.symbols[name] = value;
  auto expected = ts::evaluateFunction(function, *inputs, state);
  if (!expected)
    return fail(opCase, reference,
                sizesText(sizes) + ": " + expected.error().message());
  if (!arguments.dump.empty())
    dumpRun(opCase, sizes, *inputs, *expected);
  for (Variant &variant : variants)
    if (variant.compiled)
      compare(opCase, variant, sizes, *inputs, *expected);
}

void Runner::note(const OpCase &opCase, const Variant &variant) {
  llvm::json::Object row{{"name", opCase.name},
                         {"isa", variant.isa},
                         {"outcome", variant.outcome}};
  if (variant.other)
    row["other"] = *variant.other;
  outcomes.push_back(std::move(row));
}

void Runner::run(const OpCase &opCase, unsigned index) {
  ++count;
  Variant reference;
  std::vector<Variant> variants;
  llvm::scope_exit finish([&] {
    note(opCase, reference);
    for (const Variant &variant : variants)
      note(opCase, variant);
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(opCase.mlir, &context);
  if (!module)
    return fail(opCase, reference, "does not parse:\n" + opCase.mlir);
  if (!survivesText(*module))
    fail(opCase, reference, "changes when it is printed and parsed");
  variants = variantsOf(opCase, index);
  auto isCompiled = [](const Variant &v) { return v.compiled.has_value(); };
  if (arguments.dump.empty() && !variants.empty() &&
      llvm::none_of(variants, isCompiled))
    return;
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  for (const Sizes &sizes : arguments.speed ? opCase.speed : opCase.sizes)
    runSizes(opCase, function, sizes, reference, variants);
}

int Runner::finish() {
  if (!arguments.results.empty())
    std::ofstream(arguments.results)
        << llvm::formatv("{0:2}", llvm::json::Value(std::move(outcomes))).str();
  if (!arguments.dump.empty())
    std::ofstream(arguments.dump + "/manifest.json")
        << llvm::formatv("{0}", llvm::json::Value(std::move(manifest))).str();
  llvm::outs() << count << " cases, " << runs << " runs, " << failures
               << " failures, " << unsupported << " cases unsupported";
  if (arguments.other || arguments.others > 0)
    llvm::outs() << ", " << others << " with another choice";
  llvm::outs() << "\n";
  if (!count) {
    llvm::errs() << "no case is meant by these options\n";
    return 2;
  }
  return failures != 0;
}

} // namespace

int main(int argc, char **argv) {
  std::optional<RunnerArguments> arguments = parse(argc, argv);
  if (!arguments) {
    llvm::errs() << usage;
    return 2;
  }
  Expected<std::vector<OpCase>> cases = readCases(arguments->list);
  if (!cases) {
    llvm::errs() << cases.error().message() << "\n";
    return 2;
  }
  if (arguments->emulateTiles && !tiles::enable()) {
    llvm::errs() << "this machine runs no code that tiles come with\n";
    return 2;
  }
  // Fresh memory holds bytes of 0x7f: large floats, where zeros would hide that
  // a kernel does not write all it reads of its scratch.
  if (!arguments->speed)
    mallopt(M_PERTURB, 0x80);
  MLIRContext context;
  context.loadDialect<ts::TsDialect, func::FuncDialect>();
  Runner runner(*arguments, context);
  for (const std::string &op : opsWithoutCase(context, *cases))
    runner.fail(op + ": no case in tests/ops/cases.py");
  unsigned index = 0;
  for (const OpCase &opCase : *cases) {
    if (!StringRef(opCase.name).contains(arguments->filter) ||
        !hasType(*arguments, opCase.mlir) ||
        !isDrawn(*arguments, opCase.name, cases->size()))
      continue;
    unsigned place = index++;
    if (place % arguments->parts == arguments->part &&
        (!arguments->speed || !opCase.speed.empty()))
      runner.run(opCase, place);
  }
  return runner.finish();
}
