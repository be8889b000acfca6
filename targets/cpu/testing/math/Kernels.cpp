#include "targets/cpu/testing/math/Kernels.h"

#include "codegen/math/Math.h"
#include "targets/cpu/CpuTarget.h"

#include "ir/tile/TileDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace knapper::vecmath::testing {

Function ofBuilder(const char *name,
                   Value (*build)(OpBuilder &, Location, Value)) {
  return {name, 1, 1, [build](OpBuilder &b, Location loc, ValueRange x) {
            return SmallVector<Value>{build(b, loc, x[0])};
          }};
}

/// The module of one function.
static OwningOpRef<ModuleOp> program(MLIRContext &context, const Function &f,
                                     StringRef element, unsigned lanes) {
  OpBuilder b(&context);
  Location loc = b.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToStart(module->getBody());
  Type in = parseType(element, &context);
  Type out =
      f.resultElement.empty() ? in : parseType(f.resultElement, &context);
  SmallVector<Type> elements(f.inputs, in);
  elements.append(f.outputs, out);
  auto func = tile::FuncOp::create(b, loc, f.name, elements, 0);
  b.setInsertionPointToStart(&func.getBody().front());
  Type tileType = lanes ? Type(VectorType::get({lanes}, in)) : in;
  Value id = tile::ProgramIdOp::create(b, loc);
  Value size = arith::ConstantIndexOp::create(b, loc, std::max(lanes, 1u));
  Value offset = arith::MulIOp::create(b, loc, id, size);
  SmallVector<Value> arguments;
  for (unsigned i = 0; i < f.inputs; ++i)
    arguments.push_back(
        tile::LoadOp::create(b, loc, tileType, func.getBuffer(i), offset));
  for (auto [i, result] : llvm::enumerate(f.build(b, loc, arguments)))
    tile::StoreOp::create(b, loc, result, func.getBuffer(f.inputs + i), offset);
  tile::ReturnOp::create(b, loc);
  expandMath(*module, /*spread=*/false);
  if (failed(verify(*module)))
    return {};
  return module;
}

Expected<std::unique_ptr<Kernels>>
Kernels::compile(llvm::ArrayRef<Function> functions, const std::string &element,
                 unsigned lanes, std::string_view isa) {
  ASSIGN_OR_RETURN(auto target, cpuTarget(isa));
  std::vector<KernelJob> jobs;
  for (const Function &f : functions)
    jobs.push_back(
        {f.name, [&, element](MLIRContext &context, const TargetDesc &) {
           return program(context, f, element, lanes);
         }});
  auto images = compileKernels(jobs, {&target, 1}, 2);
  if (!images)
    return images.takeError();
  CompiledImage &compiled = images->front();
  ASSIGN_OR_RETURN(auto loaded,
                   ElfImage::load(std::as_bytes(std::span(compiled.image.code)),
                                  "test image"));
  auto kernels = std::make_unique<Kernels>();
  kernels->image = std::move(loaded);
  kernels->entries = compiled.image.entries;
  kernels->times = compiled.times;
  kernels->lanes = std::max(lanes, 1u);
  return kernels;
}

void Kernels::call(const std::string &name, std::vector<const void *> buffers,
                   int64_t n) const {
  int32_t status = 0;
  KernelContext context{nullptr, &status, 0, 1};
  auto fn = reinterpret_cast<KernelFn>(
      const_cast<void *>(image->entry(entries.at(name))));
  fn(const_cast<void *const *>(buffers.data()), nullptr, &context, 0,
     n / lanes);
}

std::vector<std::string_view> isasHere() {
  std::vector<std::string_view> here;
  // What a level adds for matmuls has nothing to do with functions.
  for (std::string_view isa : {"x86-64-v4", "x86-64-v3"})
    if (isa == "x86-64-v4" ? __builtin_cpu_supports("x86-64-v4")
                           : __builtin_cpu_supports("x86-64-v3"))
      here.push_back(isa);
  return here;
}

} // namespace knapper::vecmath::testing
