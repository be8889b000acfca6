// What compilation refuses, and that many kernels compile at once.
#include "targets/cpu/KernelTest.h"
#include "targets/cpu/Link.h"
#include "targets/cpu/Object.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include <gmock/gmock.h>
#include <malloc.h>

using namespace knapper;
using testing::HasSubstr;

namespace {

std::string errorOf(const std::string &text, const std::string &name) {
  auto result = compileText(text, name, "x86-64-v3");
  return result ? "no error" : result.error().message();
}

TEST(CompileErrors, NameKernelAndOperation) {
  std::string message = errorOf(R"(
    tile.func @k(%x: !tile.buffer<f32>) {
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<8xf32>
      %w = vector.transpose %r, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
      tile.return
    })",
                                "k");
  EXPECT_THAT(message, HasSubstr("kernel 'k' for x86-64-v3"));
  message = errorOf(R"(
    tile.func @k(%x: !tile.buffer<f32>) {
      %c = arith.constant dense<0.0> : vector<2x4xf32>
      %w = vector.transpose %c, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
      tile.return
    })",
                    "k");
  EXPECT_THAT(message, HasSubstr("'vector.transpose' op has no lowering from "
                                 "the tile level"));
  message = errorOf(R"(
    tile.func @k(%x: !tile.buffer<f32>) {
      %c = arith.constant dense<0.0> : vector<2x2x4xf32>
      tile.return
    })",
                    "k");
  EXPECT_THAT(message,
              HasSubstr("no lowering for a value of type 'vector<2x2x4xf32>'"));
  EXPECT_THAT(errorOf("tile.func @other() { tile.return }", "k"),
              HasSubstr("the module has no tile.func of that name"));
}

TEST(CompileErrors, LargeFramesAreRefused) {
  // 2,560 vectors are live at once: 80 KiB.
  std::string message = errorOf(R"(
    tile.func @k(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<16384xf32>
      %w = arith.mulf %v, %v : vector<16384xf32>
      %s = vector.reduction <add>, %w : vector<16384xf32> into f32
      %b = vector.broadcast %s : f32 to vector<16384xf32>
      %z = arith.divf %w, %b : vector<16384xf32>
      %t = vector.reduction <add>, %z : vector<16384xf32> into f32
      %c = vector.broadcast %t : f32 to vector<16384xf32>
      %u = arith.subf %z, %c : vector<16384xf32>
      tile.store %u, %y[%c0] : vector<16384xf32>, !tile.buffer<f32>
      tile.return
    })",
                                "k");
  EXPECT_THAT(message, HasSubstr("stack frame size"));
}

TEST(CompileErrors, UnknownInstructionSet) {
  auto target = cpuTarget("x86-64-v9");
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().kind, ErrorKind::user);
  EXPECT_THAT(target.error().message(),
              HasSubstr("unknown instruction set 'x86-64-v9'"));
  EXPECT_THAT(target.error().hint, HasSubstr("x86-64-v4"));
}

std::string objectOf(const char *ir) {
  auto target = cpuTarget("x86-64-v3");
  auto emitter = ObjectEmitter::create(*target);
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(ir, problem, context);
  EXPECT_TRUE(module) << problem.getMessage().str();
  (*emitter)->prepare(*module);
  auto object = (*emitter)->emit(*module);
  EXPECT_TRUE(object);
  return std::move(*object);
}

/// What `emitter` writes of `ir`; nothing if it refuses.
std::optional<std::string> emitted(ObjectEmitter &emitter, const char *ir,
                                   bool assembly = false) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(ir, problem, context);
  EXPECT_TRUE(module) << problem.getMessage().str();
  emitter.prepare(*module);
  Expected<std::string> object = emitter.emit(*module, assembly);
  // What is reported later does not reach the emitter, which no longer waits.
  context.diagnose(llvm::DiagnosticInfoGeneric("late", llvm::DS_Remark));
  if (!object)
    return std::nullopt;
  return std::move(*object);
}

// An emitter keeps its passes from module to module: neither the modules
// before nor those that failed show in what it writes.
TEST(ObjectEmitter, WritesWhatAFreshOneDoes) {
  const char *first = "define float @f(float %x) {\n"
                      " %y = fadd float %x, 3.0\n ret float %y\n}",
             *second = "@t = internal constant [2 x i32] [i32 3, i32 5]\n"
                       "define i32 @g(i64 %i) {\n"
                       " %p = getelementptr i32, ptr @t, i64 %i\n"
                       " %v = load i32, ptr %p\n ret i32 %v\n}",
             *bad = "define void @h() #0 {\n"
                    " %p = alloca [4096 x i8]\n"
                    " call void asm sideeffect \"\", \"r\"(ptr %p)\n"
                    " ret void\n}\n"
                    "attributes #0 = { \"warn-stack-size\"=\"64\" }";
  auto target = cpuTarget("x86-64-v3");
  auto fresh = [&] { return std::move(*ObjectEmitter::create(*target)); };
  std::optional<std::string> ofFirst = emitted(*fresh(), first),
                             ofSecond = emitted(*fresh(), second),
                             text = emitted(*fresh(), first, true);
  ASSERT_TRUE(ofFirst && ofSecond && text);
  EXPECT_THAT(*text, HasSubstr("vaddss"));

  std::unique_ptr<ObjectEmitter> one = fresh(), other = fresh();
  EXPECT_EQ(emitted(*one, first), ofFirst);
  EXPECT_EQ(emitted(*one, second), ofSecond);
  EXPECT_EQ(emitted(*other, second), ofSecond);
  EXPECT_EQ(emitted(*other, first), ofFirst);
  for (bool assembly : {false, true}) {
    EXPECT_FALSE(emitted(*one, bad, assembly));
    EXPECT_EQ(emitted(*one, second), ofSecond);
    EXPECT_FALSE(emitted(*one, bad, assembly));
    EXPECT_EQ(emitted(*one, first, true), text);
    EXPECT_EQ(emitted(*one, first), ofFirst);
  }
}

std::string linkError(const char *ir, const char *root) {
  std::string object = objectOf(ir);
  std::string roots[] = {root};
  auto image = linkImage({&object, 1}, roots);
  return image ? "no error" : image.error().message();
}

TEST(LinkErrors, ImagesThatNeedALoaderAreRefused) {
  EXPECT_THAT(linkError("declare hidden void @expf()\n"
                        "define hidden void @f() {\n call void @expf()\n ret "
                        "void\n}",
                        "f"),
              HasSubstr("undefined hidden symbol: expf"));
  EXPECT_THAT(linkError("@x = hidden global i32 0\ndefine hidden void @f() {\n "
                        "store i32 1, ptr @x\n ret void\n}",
                        "f"),
              HasSubstr("has writable data"));
  EXPECT_THAT(linkError("@x = internal thread_local(localexec) global i32 0\n"
                        "define hidden void @f() {\n"
                        " store i32 1, ptr @x\n ret void\n}",
                        "f"),
              HasSubstr("R_X86_64_TPOFF32"));
  EXPECT_THAT(linkError("@t = hidden constant [1 x ptr] [ptr @f]\n"
                        "define hidden ptr @f() {\n ret ptr @t\n}",
                        "f"),
              HasSubstr("inked image")); // a relocation: refused either way
  EXPECT_THAT(linkError("define hidden void @g() {\n ret void\n}", "f"),
              HasSubstr("f"));
}

TEST(Link, EveryCompileOfAProcessHasSupportFunctions) {
  GivenCode given;
  given.path = "filled.o";
  given.code = objectOf("declare hidden ptr @memset(ptr, i32, i64)\n"
                        "define hidden void @filled(ptr %p) {\n"
                        " call ptr @memset(ptr %p, i32 7, i64 100)\n"
                        " ret void\n}");
  given.entry = "filled";
  KernelJob job;
  job.name = "filled";
  job.given = &given;
  std::string first;
  for (std::string_view isa : {"x86-64-v4", "x86-64-v3", "x86-64-v4"}) {
    Expected<TargetDesc> target = cpuTarget(isa);
    ASSERT_TRUE(target);
    auto images = compileKernels({&job, 1}, {&*target, 1}, 1);
    ASSERT_TRUE(images) << images.error().message();
    const KernelImage &image = images->front().image;
    EXPECT_TRUE(image.entries.contains("filled"));
    if (first.empty())
      first = image.code;
    EXPECT_EQ(image.code, first) << isa;
  }
}

TEST(Link, KeepsNoMemory) {
  std::string object = objectOf("define hidden void @f() {\n ret void\n}");
  std::string roots[] = {"f"};
  auto links = [&](int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(linkImage({&object, 1}, roots));
  };
  links(10);
  size_t before = mallinfo2().uordblks;
  links(50);
  // lld has half a KiB of a link's sections from its thread.
  EXPECT_LT(mallinfo2().uordblks, before + 50 * 256);
}

// One thread's kernels share their passes: constants in memory stay each its
// own, also those of equal bytes.
TEST(Compile, KernelsHaveTheirOwnConstants) {
  if (!runsHere("x86-64-v3"))
    GTEST_SKIP() << "this machine does not run x86-64-v3";
  std::vector<KernelJob> jobs;
  for (int i = 0; i < 6; ++i) {
    std::string name = "k" + std::to_string(i), numbers;
    for (int lane = 0; lane < 8; ++lane)
      numbers += (lane ? ", " : "") + std::to_string(i / 2 * 100 + lane) + ".5";
    std::string text = "tile.func @" + name +
                       "(%y: !tile.buffer<f32>) {\n%id = tile.program_id\n"
                       "%c = arith.constant dense<[" +
                       numbers +
                       "]> : vector<8xf32>\ntile.store %c, %y[%id] : "
                       "vector<8xf32>, !tile.buffer<f32>\ntile.return\n}";
    jobs.push_back(
        {name, [text](mlir::MLIRContext &context, const TargetDesc &) {
           return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
         }});
  }
  std::vector<TargetDesc> targets = {*cpuTarget("x86-64-v3")};
  auto images = compileKernels(jobs, targets, 1);
  ASSERT_TRUE(images) << images.error().message();
  KernelImage &compiled = images->front().image;
  auto image = ElfImage::load(std::as_bytes(std::span(compiled.code)), "test");
  ASSERT_TRUE(image) << image.error().message();
  for (int i = 0; i < 6; ++i) {
    float y[8] = {};
    int32_t status = 0;
    void *buffers[] = {y};
    KernelContext context{nullptr, &status, 0, 1};
    auto fn = reinterpret_cast<KernelFn>(const_cast<void *>(
        (*image)->entry(compiled.entries["k" + std::to_string(i)])));
    fn(buffers, nullptr, &context, 0, 1);
    for (int lane = 0; lane < 8; ++lane)
      EXPECT_EQ(y[lane], i / 2 * 100 + lane + 0.5f);
  }
}

TEST(Compile, ManyKernelsOnThreads) {
  std::vector<KernelJob> jobs;
  for (int i = 0; i < 24; ++i) {
    std::string name = "k" + std::to_string(i);
    std::string text = "tile.func @" + name +
                       "(%y: !tile.buffer<i32>) {\n%id = tile.program_id\n"
                       "%c = arith.constant " +
                       std::to_string(i) +
                       " : i32\ntile.store %c, %y[%id] : i32, "
                       "!tile.buffer<i32>\ntile.return\n}";
    jobs.push_back(
        {name, [text](mlir::MLIRContext &context, const TargetDesc &) {
           return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
         }});
  }
  std::vector<TargetDesc> targets = {*cpuTarget("x86-64-v4"),
                                     *cpuTarget("x86-64-v3")};
  auto images = compileKernels(jobs, targets, 4);
  ASSERT_TRUE(images) << images.error().message();
  ASSERT_EQ(images->size(), 2u);
  for (CompiledImage &compiled : *images) {
    EXPECT_EQ(compiled.image.entries.size(), 24u);
    if (!runsHere(compiled.isa))
      continue;
    auto image =
        ElfImage::load(std::as_bytes(std::span(compiled.image.code)), "test");
    ASSERT_TRUE(image) << image.error().message();
    for (int i = 0; i < 24; ++i) {
      int32_t y[3] = {-1, -1, -1}, status = 0;
      void *buffers[] = {y};
      KernelContext context{nullptr, &status, 0, 1};
      auto fn = reinterpret_cast<KernelFn>(const_cast<void *>(
          (*image)->entry(compiled.image.entries["k" + std::to_string(i)])));
      fn(buffers, nullptr, &context, 1, 3);
      EXPECT_EQ(y[0], -1);
      EXPECT_EQ(y[1], i);
      EXPECT_EQ(y[2], i);
    }
  }
}

} // namespace
