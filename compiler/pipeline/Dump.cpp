// The program after a phase as a file that the next phase can begin with.
//
// From the tile level on such a file is the scheduled program followed by a
// module `tile` (a module an instruction set, in it a tile.func a kernel) or
// `objects` (entry points, and the name of the ELF file beside it).
#include "compiler/pipeline/Pack.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace knapper {

static OwningOpRef<ModuleOp> tileModule(CompileState &state) {
  MLIRContext *context = state.context.get();
  Location location = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> all = ModuleOp::create(location, "tile");
  for (const TargetDesc &target : state.targets) {
    auto builder = OpBuilder::atBlockEnd(all->getBody());
    auto module = ModuleOp::create(builder, location, StringRef(target.isa));
    for (const UniqueKernel &unique : state.kernels.kernels)
      for (size_t i = 0;
           unique.userKernel.empty() && i < unique.schedules.size(); ++i)
        if (OwningOpRef<ModuleOp> one =
                tileProgram(state, unique, i, *context, target))
          module.getBody()->getOperations().splice(
              module.getBody()->end(), one->getBody()->getOperations());
  }
  return all;
}

static OwningOpRef<ModuleOp> objectModule(CompileState &state) {
  Builder b(state.context.get());
  OwningOpRef<ModuleOp> all = ModuleOp::create(b.getUnknownLoc(), "objects");
  for (const CompiledImage &image : state.images) {
    auto builder = OpBuilder::atBlockEnd(all->getBody());
    auto module =
        ModuleOp::create(builder, b.getUnknownLoc(), StringRef(image.isa));
    module->setAttr("ts.file", b.getStringAttr(objectFile(image.isa)));
    SmallVector<NamedAttribute> entries;
    for (const auto &[name, offset] : image.image.entries)
      entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(offset)));
    module->setAttr("ts.entries", b.getDictionaryAttr(entries));
  }
  return all;
}

std::string printState(CompileState &state, const Phase &phase) {
  if (phase.out >= Level::exec)
    return printProgram(*state.exec.program);
  std::string text;
  llvm::raw_string_ostream stream(text);
  state.module->print(stream, OpPrintingFlags().enableDebugInfo(true, false));
  if (phase.out == Level::tile)
    tileModule(state)->print(stream);
  if (phase.out == Level::object)
    objectModule(state)->print(stream);
  return text;
}

std::string dumpName(const Phase &phase) {
  size_t number = &phase - phases().data() + 1;
  return (number < 10 ? "0" : "") + std::to_string(number) + "_" + phase.name +
         (phase.out < Level::exec ? ".mlir" : ".json");
}

std::string objectFile(StringRef isa) {
  return StringRef(dumpName(*findPhase("emit"))).drop_back(4).str() +
         isa.str() + ".elf";
}

static Status writeFile(StringRef folder, const std::string &name,
                        StringRef content) {
  SmallString<256> path(folder);
  llvm::sys::path::append(path, name);
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code) {
    file << content;
    file.close();
    code = file.error();
    file.clear_error(); // it is ours now
  }
  if (code == std::errc::no_space_on_device)
    return deviceError("cannot write the dump: " + code.message(),
                       path.str().str(), "free some space on this file system");
  if (code)
    return userError("cannot write the dump: " + code.message(),
                     path.str().str());
  return success();
}

Status writeDump(CompileState &state, const Phase &phase,
                 const std::string &text) {
  const std::string &folder = state.options.dumpDir;
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    return userError("cannot make the folder: " + code.message(), folder);
  if (phase.out == Level::object)
    for (const CompiledImage &image : state.images)
      if (Status status =
              writeFile(folder, objectFile(image.isa), image.image.code);
          !status)
        return status;
  return writeFile(folder, dumpName(phase), text);
}

} // namespace knapper
