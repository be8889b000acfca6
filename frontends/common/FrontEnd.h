// What a front end is: how models of one format are known, and how they become
// tensor IR. To add one: a folder that fills this class, a line in
// FrontEndRegistry.cpp, and its name among the values of --model-format
// (compiler/options/Options.def).
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Error.h"
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace knapper {

/// A model: a file, or its bytes in memory.
struct ModelInput {
  std::string_view path;
  /// Where `path` is empty. Outlives what is imported: weights refer to it.
  std::string_view bytes;

  /// The bytes: the caller's, or the file's, which `read` then holds.
  Expected<std::string_view> content(std::string &read) const;
  /// At most `count` bytes from the beginning. Fewer where the model is shorter
  /// or cannot be read; importing it reports the error.
  std::string begin(size_t count) const;
};

/// Data behind the entries of `ts.files`; lives as long as the module's weights
/// are read.
struct ModelBuffers {
  struct Buffer {
    std::string_view data;                    ///< empty for files with a path
    std::shared_ptr<const std::string> owner; ///< null: the caller's bytes
  };
  std::vector<Buffer> files; ///< one for each entry of `ts.files`
};

/// Symbols that get a number: {"batch", 1}.
using DimNumbers = std::vector<std::pair<std::string, int64_t>>;

/// A format of models. Has no state: one object serves all threads.
class FrontEnd {
public:
  virtual ~FrontEnd() = default;

  /// The value of --model-format: "onnx".
  virtual std::string_view name() const = 0;
  /// Whether a model belongs to this format; asked where --model-format is not
  /// given, in the registry's order. The last front end accepts every model.
  virtual bool accepts(const ModelInput &input) const = 0;
  /// The model as a module with `func.func @main`, whose arguments and results
  /// carry `ts.name` (frontends/onnx/ImportOnnx.h has the module's attributes).
  /// `context` gets the dialects that the result needs. Errors: UserError for
  /// what is wrong with the model or not supported, naming the user's line.
  virtual Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  importModel(mlir::MLIRContext &context, const ModelInput &input,
              const DimNumbers &dims, ModelBuffers &buffers) const = 0;
  /// Files besides the model's own that the result depends on: part of the key
  /// of the compile cache.
  virtual Expected<std::vector<std::string>>
  otherFiles(const ModelInput &) const {
    return std::vector<std::string>();
  }
  /// Whether the model's bytes hold the result types of registered operators.
  /// No shape function is called then, so the same bytes give the same program
  /// whatever is registered: such a program may be cached.
  virtual bool givesExternalTypes() const { return false; }
  /// What the model needs, without importing it: JSON as knapper_inspect has
  /// it. Errors: UserError for what is no model, or where a format is not
  /// inspected.
  virtual Expected<std::string> inspect(const ModelInput &input) const;
};

/// The InternalError of a front end that threw `what` while `doing`.
Error threwError(const FrontEnd &frontEnd, std::string_view doing,
                 const ModelInput &input, std::string_view what);

/// Calls a function of a front end, which may be anybody's. What it throws
/// becomes an InternalError that names the front end; only lack of memory is
/// passed on.
template <typename F>
auto guarded(const FrontEnd &frontEnd, std::string_view doing,
             const ModelInput &input, F &&call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::exception &thrown) {
    return threwError(frontEnd, doing, input, thrown.what());
  } catch (...) {
    return threwError(frontEnd, doing, input, "no std::exception");
  }
}

/// `otherFiles`, guarded.
inline Expected<std::vector<std::string>>
otherFilesOf(const FrontEnd &frontEnd, const ModelInput &input) {
  return guarded(frontEnd, "listed its files", input,
                 [&] { return frontEnd.otherFiles(input); });
}

/// The front ends of this build.
std::span<const FrontEnd *const> allFrontEnds();
/// An InternalError where two have one name: the second would never be found.
Status checkFrontEnds(std::span<const FrontEnd *const> frontEnds);
/// The front end of that name, or null.
const FrontEnd *findFrontEnd(std::string_view name);
/// The first that accepts the model. Errors: as `guarded` has them.
Expected<const FrontEnd *>
frontEndFor(const ModelInput &input,
            std::span<const FrontEnd *const> among = allFrontEnds());

} // namespace knapper
