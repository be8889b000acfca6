// Runs the op cases: the reference evaluator, and compiled code against it.
//   op_cases cases.json [--filter TEXT] [--dump FOLDER]
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/Text.h"
#include "tests/ops/Cases.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <fstream>
#include <set>

using namespace mlir;
using namespace knapper;
using namespace knapper::opcases;

namespace {

llvm::cl::opt<std::string> listPath(llvm::cl::Positional, llvm::cl::Required,
                                    llvm::cl::desc("cases.json"));
llvm::cl::opt<std::string>
    filter("filter", llvm::cl::desc("Only cases whose name has this text"));
llvm::cl::opt<std::string>
    dumpFolder("dump", llvm::cl::desc("Write inputs and reference results "
                                      "into this folder"));

/// Writes tensors one after the other into a file of its own, and describes
/// them.
llvm::json::Value dump(const std::string &file,
                       ArrayRef<ts::HostTensor> tensors) {
  llvm::json::Array list;
  std::ofstream out(dumpFolder + "/" + file, std::ios::binary);
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
  // A weight needs a file: compiler/constants tests it.
  missing.erase("ts.weight");
  for (const OpCase &opCase : cases)
    for (auto it = missing.begin(); it != missing.end();)
      it = StringRef(opCase.mlir).contains((*it + " ").str())
               ? missing.erase(it)
               : std::next(it);
  return {missing.begin(), missing.end()};
}

} // namespace

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv, "runs the op cases\n");
  Expected<std::vector<OpCase>> cases = readCases(listPath);
  if (!cases) {
    llvm::errs() << cases.error().message() << "\n";
    return 1;
  }
  MLIRContext context;
  context.loadDialect<ts::TsDialect, func::FuncDialect>();
  unsigned failures = 0, runs = 0, count = 0;
  for (const std::string &op : opsWithoutCase(context, *cases)) {
    llvm::errs() << op << ": no case in tests/ops/cases.py\n";
    ++failures;
  }
  llvm::json::Array manifest;
  for (const OpCase &opCase : *cases) {
    if (!StringRef(opCase.name).contains(filter))
      continue;
    ++count;
    auto fail = [&](const std::string &what) {
      llvm::errs() << opCase.name << ": " << what << "\n";
      ++failures;
    };
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(opCase.mlir, &context);
    if (!module) {
      fail("does not parse:\n" + opCase.mlir);
      continue;
    }
    if (!survivesText(*module))
      fail("changes when it is printed and parsed");
    func::FuncOp function = *module->getOps<func::FuncOp>().begin();
    for (const Sizes &sizes : opCase.sizes) {
      ++runs;
      auto inputs = makeInputs(opCase, function, sizes);
      if (!inputs) {
        fail(inputs.error().message());
        continue;
      }
      ts::EvaluateContext state;
      for (const auto &[name, value] : sizes)
        state.symbols[name] = value;
      auto expected = ts::evaluateFunction(function, *inputs, state);
      if (!expected) {
        fail(sizesText(sizes) + ": " + expected.error().message());
        continue;
      }
      if (!dumpFolder.empty()) {
        llvm::json::Object entry{{"name", opCase.name}};
        llvm::json::Object bound;
        for (const auto &[name, value] : sizes)
          bound[name] = value;
        entry["sizes"] = std::move(bound);
        entry["inputs"] = dump(cat(runs, ".in"), *inputs);
        entry["results"] = dump(cat(runs, ".out"), *expected);
        manifest.push_back(std::move(entry));
      }
    }
  }
  if (!dumpFolder.empty())
    std::ofstream(dumpFolder + "/manifest.json")
        << llvm::formatv("{0}", llvm::json::Value(std::move(manifest))).str();
  llvm::outs() << count << " cases, " << runs << " runs, " << failures
               << " failures\n";
  return failures != 0;
}
