// Symbols, and sizes and types of the graph's inputs.
#include "frontends/onnx/Importer.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

bool Importer::assumeAtLeast(Dim dim, int64_t value) {
  if (std::optional<int64_t> low = ts::lowerBound(dim); low && *low >= value)
    return true;
  // c*s + k >= value  <=  s >= ceil((value - k) / c), for one symbol s.
  llvm::SetVector<StringAttr> used;
  dim.collectSymbols(used);
  if (used.size() != 1)
    return false;
  Dim symbol = Dim::symbol(context, used[0].getValue());
  std::optional<Dim> factor;
  int64_t k = 0;
  for (auto [coefficient, monomial] :
       llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials())) {
    if (monomial.empty())
      k = coefficient;
    else
      factor = symbol.like(coefficient);
  }
  if (!factor || !(*factor * symbol + k == dim))
    return false;
  int64_t c = *factor->asConstant();
  if (c <= 0 || std::abs(k) > (int64_t(1) << 40))
    return false;
  if (current) { // a branch that is not taken asks for nothing
    ts::CheckOp::create(b, current->function.getLoc(), dim.attr(),
                        ts::ComparePredicate::ge, dim.like(value).attr(),
                        dim.str() + " must be at least " +
                            std::to_string(value) + " here");
    return true;
  }
  int64_t least = (value - k + c - 1) / c;
  int64_t &minimum = symbols[used[0]];
  minimum = std::max(minimum, least);
  return true;
}

/// Exporters also write "?" for a dim that has no name.
static bool isNameless(const onnx::TensorShapeProto::Dimension &dim) {
  return dim.dim_param().empty() || dim.dim_param() == "?";
}

Expected<Dim> Importer::inputDim(const onnx::TensorShapeProto::Dimension &dim,
                                 const std::string &fresh) {
  auto fixed = [&](StringRef name) -> std::optional<int64_t> {
    for (const auto &[key, value] : options.dims)
      if (key == name)
        return value;
    return std::nullopt;
  };
  auto symbol = [&](StringRef name) -> Dim {
    if (std::optional<int64_t> number = fixed(name))
      return Dim::constant(context, *number);
    symbols.insert({StringAttr::get(context, name), 0});
    return Dim::symbol(context, name);
  };
  if (dim.has_dim_value() && dim.dim_value() >= 0)
    return Dim::constant(context, dim.dim_value());
  if (isNameless(dim)) {
    if (std::optional<int64_t> number = fixed(fresh))
      return Dim::constant(context, *number);
    return freshSymbol(fresh);
  }
  if (reservedNames.contains(dim.dim_param()))
    return symbol(dim.dim_param());
  // An expression over names that stand alone elsewhere ("2*batch"); any other
  // text is a name ("batch-size").
  std::optional<Dim> parsed = dim.dim_param().size() <= 256
                                  ? ts::parseDim(context, dim.dim_param())
                                  : std::nullopt;
  if (parsed) {
    llvm::SetVector<StringAttr> used;
    parsed->collectSymbols(used);
    if (!used.empty() && ts::isModest(*parsed) &&
        llvm::all_of(used, [&](StringAttr name) {
          return reservedNames.contains(name.getValue());
        }))
      return parsed->substitute([&](StringRef name) { return symbol(name); });
  }
  return symbol(dim.dim_param());
}

Expected<Type> Importer::inputType(const onnx::ValueInfoProto &input) {
  std::string where = "input '" + input.name() + "'";
  if (!input.type().has_tensor_type())
    return userError(input.type().value_case() == onnx::TypeProto::VALUE_NOT_SET
                         ? "has no type"
                         : "is no tensor (a sequence, map or optional)",
                     where, "export the model with plain tensor inputs");
  const onnx::TypeProto::Tensor &tensor = input.type().tensor_type();
  Type element = onnxAnyElementType(context, tensor.elem_type());
  if (!element)
    return userError("has element type " + onnxTypeName(tensor.elem_type()) +
                         ", which is not supported",
                     where, "convert the input before the model");
  if (!tensor.has_shape())
    return userError("has no shape, not even a rank", where,
                     "export the model with the input's rank; its dims may be "
                     "symbolic");
  if (tensor.shape().dim_size() > 32)
    return userError("has rank " + std::to_string(tensor.shape().dim_size()),
                     where, "at most 32 dims are supported");
  SmallVector<Dim> dims;
  double count = 1;
  for (const auto &[i, dim] : llvm::enumerate(tensor.shape().dim())) {
    ASSIGN_OR_RETURN(Dim size,
                     inputDim(dim, input.name() + "_dim" + std::to_string(i)));
    if (std::optional<int64_t> number = size.asConstant()) {
      if (*number < 0)
        return userError("has the dim " + std::to_string(*number), where,
                         "export the model again");
      count *= std::max<double>(1, static_cast<double>(*number));
    }
    dims.push_back(size);
  }
  if (count > 1e14)
    return userError("is too large", where, "export the model again");
  return Type(ts::tensorType(context, dims, element));
}

static Status checkOptions(const OnnxImportOptions &options,
                           const llvm::StringSet<> &names) {
  for (const auto &[name, value] : options.dims) {
    if (!names.contains(name)) {
      std::string known;
      for (StringRef key :
           llvm::make_first_range(llvm::map_range(names, [](const auto &entry) {
             return std::pair<StringRef, int>(entry.first(), 0);
           })))
        known += (known.empty() ? "" : ", ") + key.str();
      return userError("the model has no dim of this name",
                       "dim '" + name + "'",
                       known.empty() ? "the model has no symbolic dims"
                                     : "its symbolic dims are: " + known);
    }
    if (value < 0)
      return userError("a dim cannot be " + std::to_string(value),
                       "dim '" + name + "'", "give a size");
  }
  return success();
}

Expected<SmallVector<const onnx::ValueInfoProto *>>
Importer::graphInputs(const onnx::GraphProto &graph, const OnnxScope &scope) {
  // Dims that stand alone, before any expression over them is read.
  llvm::StringSet<> names;
  SmallVector<const onnx::ValueInfoProto *> inputs;
  for (const onnx::ValueInfoProto &input : graph.input()) {
    if (scope.initializers.contains(input.name()))
      continue; // a default value
    inputs.push_back(&input);
    for (const auto &[i, dim] :
         llvm::enumerate(input.type().tensor_type().shape().dim())) {
      if (dim.has_dim_value() && dim.dim_value() >= 0)
        continue;
      StringRef text = dim.dim_param();
      if (isNameless(dim)) {
        names.insert(input.name() + "_dim" + std::to_string(i));
        continue;
      }
      names.insert(text);
      bool bare = llvm::all_of(text, [](char c) {
        return llvm::isAlnum(c) || c == '_' || c == '.';
      });
      if (bare && !llvm::isDigit(text[0]))
        reservedNames.insert(text);
    }
  }
  TRY(checkOptions(options, names));
  return inputs;
}

} // namespace knapper
