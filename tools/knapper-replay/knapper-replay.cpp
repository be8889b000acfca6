//===- knapper-replay.cpp - A hash for each kernel of artefacts ----------===//
//
// knapper-replay FILE.knap...
//
// Prints a line for each kernel of each instruction set, sorted:
//   FILE <tab> ISA <tab> HASH <tab> BYTES <tab> KERNEL
// HASH is the XXH3 of the code, which depends neither on the kernel's name nor
// on where the linker put it. replay.py compares the lines of two trees.
//
//===----------------------------------------------------------------------===//
#include "runtime/artefact/Artefact.h"
#include "tools/knapper/KernelCode.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace knapper;

static std::string withoutName(std::string code, llvm::StringRef name) {
  for (size_t at = code.find(name); at != std::string::npos;
       at = code.find(name, at))
    code.erase(at, name.size());
  return code;
}

static Status print(const std::string &path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact,
                   Artefact::load(path));
  ASSIGN_OR_RETURN(auto codes, cli::kernelCodes(*artefact));
  for (const auto &[isa, kernels] : codes)
    for (const auto &[name, code] : kernels)
      llvm::outs() << llvm::sys::path::stem(path) << '\t' << isa << '\t'
                   << llvm::format_hex_no_prefix(
                          llvm::xxh3_64bits(withoutName(code.bytes, name)), 16)
                   << '\t' << code.size << '\t' << name << '\n';
  return success();
}

int main(int argc, char **argv) {
  if (argc < 2) {
    llvm::errs() << "knapper-replay FILE.knap...\n";
    return 2;
  }
  for (int i = 1; i < argc; ++i)
    if (Status status = print(argv[i]); !status) {
      llvm::errs() << status.error().message() << "\n";
      return 1;
    }
  return 0;
}
