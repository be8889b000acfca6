// What LLVM calls fatal ends a call, not the process, and the next compile is
// as right as the first: LLVM's frames are left without their destructors.
#include "compiler/pipeline/LlvmErrors.h"
#include "knapper/knapper.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace {

/// Compiles x + 1, another program for each `size`, and runs it.
void compilesAndRuns(int64_t size) {
  std::string n = std::to_string(size);
  std::string text = "func.func @main(%x: tensor<" + n + "xf32>) -> tensor<" +
                     n + "xf32> {\n  %c = ts.constant dense<1.0> : tensor<" +
                     n + "xf32>\n  %0 = ts.add %x, %c : tensor<" + n +
                     "xf32>\n  return %0 : tensor<" + n + "xf32>\n}\n";
  knapper_option format = {"model-format", "mlir"};
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.options = &format;
  options.num_options = 1;
  options.model_bytes = text.data();
  options.model_size = text.size();
  std::vector<float> x(size, 2);
  int64_t shape[] = {size};
  knapper_tensor tensor{x.data(), x.size() * 4, KNAPPER_F32, 1, shape};
  char *json = nullptr;
  knapper_error *error = knapper_verify(&options, &tensor, 1, &json);
  ASSERT_EQ(error, nullptr) << knapper_error_get_message(error);
  EXPECT_THAT(json, ::testing::HasSubstr("\"passed\":true"));
  knapper_string_release(json);
}

/// LLVM's code generator, in the middle of a function, meets what no processor
/// of this kind has.
void failsInTheCodeGenerator() {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(
      "declare i32 @llvm.amdgcn.workitem.id.x()\n"
      "define i32 @f() {\n  %x = call i32 @llvm.amdgcn.workitem.id.x()\n"
      "  ret i32 %x\n}\n",
      diagnostic, context);
  ASSERT_TRUE(module);
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string text;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, text);
  ASSERT_NE(target, nullptr) << text;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64-v3", "", {}, {}));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  // The passes are in the middle of the module: they cannot be freed.
  auto *passes = new llvm::legacy::PassManager;
  ASSERT_FALSE(machine->addPassesToEmitFile(*passes, out, nullptr,
                                            llvm::CodeGenFileType::ObjectFile));
  std::string said;
  try {
    passes->run(*module);
  } catch (const std::runtime_error &error) {
    said = error.what();
  }
  EXPECT_THAT(said, ::testing::HasSubstr("annot select"));
  (void)module.release();
  (void)machine.release();
}

} // namespace

TEST(LlvmErrors, CompilesFollowAFatalErrorInTheSameProcess) {
  knapper::throwLlvmErrors();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  compilesAndRuns(33);
  for (int64_t i = 0; i < 3; ++i) {
    failsInTheCodeGenerator();
    compilesAndRuns(100 + i);
    std::thread other([i] { compilesAndRuns(1000 + i); });
    other.join();
  }
}
