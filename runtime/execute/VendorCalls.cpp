#include "runtime/execute/VendorCalls.h"

#include "runtime/base/Checked.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>

namespace knapper {
namespace {

VendorMatrix matrixOf(const Program::Matrix &from,
                      std::span<const int64_t> values) {
  VendorMatrix made{from.arg,
                    from.dtype,
                    values[from.offset],
                    values[from.rowStride],
                    values[from.columnStride],
                    {}};
  for (uint32_t v : from.batchStrides)
    made.batchStrides.push_back(values[v]);
  return made;
}

VendorMatmul matmulOf(const Program::Matmul &from,
                      std::span<const int64_t> values) {
  VendorMatmul made;
  made.library = from.library;
  for (uint32_t v : from.batch)
    made.batch.push_back(values[v]);
  made.rows = values[from.rows];
  made.columns = values[from.columns];
  made.depth = values[from.depth];
  made.lhs = matrixOf(from.lhs, values);
  made.rhs = matrixOf(from.rhs, values);
  made.result = matrixOf(from.result, values);
  if (from.bias)
    made.bias = matrixOf(*from.bias, values);
  made.activation = from.activation;
  made.tf32 = from.tf32;
  return made;
}

/// Bytes from the argument's begin to the matrices' end; nothing on overflow.
std::optional<int64_t> reach(const Program::Matrix &m,
                             const Program::Matmul &matmul, uint32_t rows,
                             uint32_t columns,
                             std::span<const int64_t> values) {
  std::optional<int64_t> last = values[m.offset];
  auto extend = [&](uint32_t size, uint32_t stride) {
    std::optional<int64_t> step = checkedMul(values[size] - 1, values[stride]);
    last = last && step ? checkedAdd(*last, *step) : std::nullopt;
  };
  extend(rows, m.rowStride);
  extend(columns, m.columnStride);
  for (size_t i = 0; i < matmul.batch.size(); ++i)
    extend(matmul.batch[i], m.batchStrides[i]);
  std::optional<int64_t> elements = last ? checkedAdd(*last, 1) : last;
  return elements ? checkedMul(*elements, byteSize(m.dtype)) : elements;
}

bool countsUp(const VendorMatrix &m) {
  return m.offset >= 0 && m.rowStride >= 0 && m.columnStride >= 0 &&
         std::all_of(m.batchStrides.begin(), m.batchStrides.end(),
                     [](int64_t stride) { return stride >= 0; });
}

} // namespace

bool isPossible(const VendorMatmul &matmul) {
  constexpr int64_t most = int64_t(1) << 60;
  std::optional<int64_t> operations = 1;
  auto take = [&](int64_t size) {
    operations =
        size > 0 && operations ? checkedMul(*operations, size) : std::nullopt;
  };
  for (int64_t size : {matmul.rows, matmul.columns, matmul.depth})
    take(size);
  for (int64_t size : matmul.batch)
    take(size);
  if (!operations || *operations > most || !countsUp(matmul.lhs) ||
      !countsUp(matmul.rhs) || !countsUp(matmul.result))
    return false;
  for (size_t i = 0; i < matmul.batch.size(); ++i)
    if (matmul.batch[i] > 1 && matmul.result.batchStrides[i] == 0)
      return false;
  if (!matmul.bias)
    return true;
  const VendorMatrix &bias = *matmul.bias;
  return bias.offset >= 0 && bias.rowStride == 0 &&
         (bias.columnStride == 1 || matmul.columns == 1) &&
         std::all_of(bias.batchStrides.begin(), bias.batchStrides.end(),
                     [](int64_t stride) { return stride == 0; });
}

std::vector<VendorUse> openLibraries(Program &program, Device &device) {
  std::vector<VendorUse> uses;
  auto useOf = [&](VendorLibrary library) -> VendorUse & {
    for (VendorUse &use : uses)
      if (use.library == library)
        return use;
    VendorUse &use = uses.emplace_back(VendorUse{library, 0, "", ""});
    Expected<std::string> opened = device.openLibrary(library);
    if (opened)
      use.opened = std::move(*opened);
    else
      use.why = opened.takeError().what;
    return use;
  };
  for (Program::Launch &launch : program.launches)
    std::erase_if(launch.choices, [&](const Program::Choice &choice) {
      if (!choice.matmul)
        return false;
      VendorUse &use = useOf(choice.matmul->library);
      ++use.launches;
      if (launch.late && !use.opened.empty())
        log(LogLevel::warning,
            cat(launch.origin, ": ", choice.label,
                " cannot run: only the run knows its sizes; the compiled "
                "kernel runs instead"));
      return launch.late || use.opened.empty();
    });
  for (const VendorUse &use : uses)
    if (use.opened.empty())
      log(LogLevel::warning,
          cat(name(use.library), " cannot be used: ", use.why, "; ",
              use.launches, " launches of ", program.name,
              " run compiled kernels instead"));
    else
      log(LogLevel::info, cat(name(use.library), ": ", use.opened));
  return uses;
}

Status prepareCalls(const Program &program, Device &device, int32_t threads,
                    Binding &binding) {
  binding.calls.resize(program.launches.size());
  for (uint32_t i = 0; i < program.launches.size(); ++i) {
    const Program::Launch &launch = program.launches[i];
    while (binding.choice[i] != Program::kNone) {
      const Program::Choice &choice = launch.choices[binding.choice[i]];
      if (!choice.matmul)
        break;
      bool known = true;
      choice.matmul->forEachValue(
          [&](uint32_t v) { known &= binding.known[v] != 0; });
      std::string why = "its sizes are none";
      if (known) {
        VendorMatmul matmul = matmulOf(*choice.matmul, binding.values);
        // What computes nothing needs no library.
        if (isPossible(matmul)) {
          Expected<std::shared_ptr<const VendorCall>> call =
              device.prepare(matmul, threads);
          if (call) {
            binding.calls[i] = std::move(*call);
            binding.scratch =
                std::max(binding.scratch, binding.calls[i]->scratch);
            break;
          }
          why = call.takeError().what;
          log(LogLevel::warning,
              cat(launch.origin, ": ", choice.label, " cannot run: ", why,
                  "; the compiled kernel runs instead"));
        }
      }
      Expected<uint32_t> next = choose(program, launch, binding.values,
                                       binding.known, binding.choice[i] + 1);
      if (!next && launch.optional) {
        binding.choice[i] = Program::kNone;
        break;
      }
      if (!next)
        return next.takeError();
      binding.choice[i] = *next;
      binding.scratch = std::max<uint64_t>(
          binding.scratch, binding.values[launch.choices[*next].scratch]);
    }
  }
  return success();
}

Status checkReach(const Program::Matmul &matmul, const Program::Launch &launch,
                  std::span<const int64_t> values,
                  std::span<const uint64_t> bytes) {
  auto check = [&](const Program::Matrix &m, uint32_t rows,
                   uint32_t columns) -> Status {
    const Program::Ref &ref = launch.args[m.arg];
    std::optional<int64_t> end = reach(m, matmul, rows, columns, values);
    uint64_t room = bytes[ref.buffer] - values[ref.offset];
    if (!end || uint64_t(*end) > room)
      return userError(cat("a library's matmul reaches ", end.value_or(-1),
                           " bytes into argument ", m.arg, ", which has ",
                           room),
                       launch.origin, "compile the model again");
    return success();
  };
  if (Status s = check(matmul.lhs, matmul.rows, matmul.depth); !s)
    return s;
  if (Status s = check(matmul.rhs, matmul.depth, matmul.columns); !s)
    return s;
  if (Status s = check(matmul.result, matmul.rows, matmul.columns); !s)
    return s;
  if (!matmul.bias)
    return success();
  return check(*matmul.bias, matmul.rows, matmul.columns);
}

} // namespace knapper
