// Hand-made artefacts for tests, over the kernels of kernels.c.
#pragma once

#include "runtime/artefact/ArtefactWriter.h"
#include "runtime/base/DType.h"
#include "runtime/execute/Module.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace knapper::testing {

/// The test kernels as one ELF object or, for "sm_80", as PTX.
const std::vector<std::byte> &kernelObject(const std::string &isa);
/// Address of a kernel in it, from the image base.
uint64_t kernelEntry(const std::string &isa, const std::string &kernel);

/// Builds an artefact with one program, code for `isas` and a constants
/// section.
class TestArtefact {
public:
  explicit TestArtefact(std::vector<std::string> isas = {"x86-64-v3"});

  // Values.
  uint32_t constant(int64_t value);
  uint32_t symbol(const std::string &name, int64_t min = 1, int64_t max = -1,
                  int64_t divisor = 1, bool fromBuffer = false);
  uint32_t op(fb::ScalarOp op, uint32_t a, uint32_t b);
  uint32_t mul(uint32_t a, uint32_t b) { return op(fb::ScalarOp::mul, a, b); }

  // Buffers. Dims are values.
  uint32_t input(const std::string &name, DType type,
                 std::vector<uint32_t> dims,
                 std::vector<std::string> text = {});
  uint32_t output(const std::string &name, DType type,
                  std::vector<uint32_t> dims,
                  std::vector<std::string> text = {});
  uint32_t temp(uint32_t bytes, uint32_t first, uint32_t last);
  uint32_t constantBuffer(const std::vector<float> &data);

  // Instructions, appended to a region.
  uint32_t region();
  fb::LaunchT &launch(uint32_t region, const std::string &kernel,
                      std::vector<uint32_t> buffers, uint32_t grid,
                      std::vector<uint32_t> symbols = {});
  void copy(uint32_t region, uint32_t source, uint32_t target, uint32_t bytes);
  void bindSymbol(uint32_t region, uint32_t source, uint32_t symbolValue);
  void ifElse(uint32_t region, uint32_t condition, uint32_t then,
              uint32_t otherwise);
  void whileLoop(uint32_t region, uint32_t condition, uint32_t conditionRegion,
                 uint32_t body);
  void call(uint32_t region, uint32_t callee);
  /// Symbol and value, each as the index of a value.
  void setSymbols(uint32_t region,
                  std::vector<std::pair<uint32_t, uint32_t>> assignments);
  void assertion(uint32_t region, uint32_t value, const std::string &message);
  /// `condition` -1: none.
  void repeat(uint32_t region, uint32_t counterValue, uint32_t trips,
              int64_t condition, uint32_t body);
  void check(uint32_t value, const std::string &message);
  /// A tensor of an operator: buffer, dtype, dims.
  struct Operand {
    uint32_t buffer;
    DType dtype;
    std::vector<uint32_t> dims;
  };
  /// `symbols`: values that are symbols.
  fb::ExternalT &external(uint32_t region, const std::string &domain,
                          const std::string &name, std::vector<Operand> inputs,
                          std::vector<Operand> outputs,
                          std::vector<uint32_t> symbols = {});

  /// The file. The header may be edited through `header` before.
  std::vector<std::byte> bytes();
  /// Loads it on a device; fails the test if that fails.
  std::shared_ptr<Module> load(const ModuleOptions &options = {},
                               std::shared_ptr<Device> device = nullptr);

  fb::ArtefactT header;
  /// A last edit, after constants have their places.
  void (*editBuffers)(fb::ProgramT &) = nullptr;
  fb::ProgramT &program() { return *header.programs[0]; }

private:
  uint32_t kernel(const std::string &name, uint32_t buffers, uint32_t symbols);
  void append(uint32_t region, fb::InstructionUnion instruction);
  uint32_t buffer(fb::BufferKind kind);
  uint32_t zero();

  std::vector<std::string> isas;
  std::vector<std::vector<float>> constants;
};

/// y[rows] f32 = sum over columns of (x * 2 + 1) + 0.5, x [rows, cols] f32;
/// three launches, two temps. `a`: what is in the file already.
TestArtefact rowProgram(TestArtefact a = TestArtefact());
/// What rowProgram computes.
std::vector<float> rowResult(const std::vector<float> &x, int64_t rows,
                             int64_t cols);
/// Runs a module of rowProgram on numbers that it leaves in `x`.
Status runRows(Module &m, int64_t rows, int64_t cols, RunResult &result,
               std::vector<float> &x);

/// A program of one input x [n] f32 and one output y [n] f32, whose
/// instructions the test appends to `main`.
struct VectorProgram {
  TestArtefact artefact;
  uint32_t n = artefact.symbol("n");
  uint32_t x = artefact.input("x", DType::f32, {n});
  uint32_t y = artefact.output("y", DType::f32, {n});
  uint32_t main = artefact.region();

  /// Appends a launch over n elements: y = x * 2 + 1, or y = x + x.
  fb::LaunchT &scale() { return artefact.launch(main, "scale", {x, y}, n); }
  fb::LaunchT &addTwice() { return artefact.launch(main, "add", {x, x, y}, n); }
};

/// y[n] f32 = {1, 2, 3}[index], index [n] i64; one launch of the kernel gather.
TestArtefact gatherProgram();

/// The elements of a tensor of f32.
std::vector<float> floats(const knapper_tensor &t);
/// The text of a failure, "no error" for a success.
std::string errorOf(const Status &status);

/// A module from the bytes of a file on the CPU (or `device`).
Expected<std::shared_ptr<Module>>
loadBytes(std::span<const std::byte> bytes, const ModuleOptions &options = {},
          std::shared_ptr<Device> device = nullptr);

/// A tensor over a vector's memory.
template <typename T>
knapper_tensor tensor(std::vector<T> &data, const std::vector<int64_t> &shape,
                      DType type) {
  return {data.data(), data.size() * sizeof(T),
          static_cast<knapper_dtype>(type), static_cast<int32_t>(shape.size()),
          shape.data()};
}
inline knapper_tensor tensor(std::vector<float> &data,
                             const std::vector<int64_t> &shape) {
  return tensor(data, shape, DType::f32);
}

/// Runs a module of one input, which is a vector.
template <typename T>
Status runVector(Module &m, std::vector<T> &data, RunResult &result,
                 DType type = DType::f32) {
  std::vector<int64_t> shape = {int64_t(data.size())};
  knapper_tensor input = tensor(data, shape, type);
  return m.run({&input, 1}, {}, result);
}

} // namespace knapper::testing
