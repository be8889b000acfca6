// Ops of StableHLO in pretty form. Most are operands, clauses ("dims = [0]")
// and types, in a table; a few have a form of their own.
#include "frontends/stablehlo/HloTextForms.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace knapper {
namespace {

using Operands = SmallVector<OpAsmParser::UnresolvedOperand>;

enum class Clause {
  integers,
  integer,
  flag,
  word,
  text,
  format,
  pair,
  dropped
};

struct ClauseRow {
  const char *op, *key, *attribute;
  Clause kind;
};

// "pair": `key = [0] x [1]`, the attribute's name with lhs_ and rhs_ before it.
constexpr ClauseRow clauses[] = {
    {"broadcast", "sizes", "broadcast_sizes", Clause::integers},
    {"broadcast_in_dim", "dims", "broadcast_dimensions", Clause::integers},
    {"cholesky", "lower", "lower", Clause::flag},
    {"concatenate", "dim", "dimension", Clause::integer},
    {"dot", "precision", "", Clause::dropped},
    {"dot_general", "algorithm", "", Clause::dropped},
    {"dot_general", "batching_dims", "batching_dimensions", Clause::pair},
    {"dot_general", "contracting_dims", "contracting_dimensions", Clause::pair},
    {"dot_general", "precision", "", Clause::dropped},
    {"dynamic_broadcast_in_dim", "dims", "broadcast_dimensions",
     Clause::integers},
    {"dynamic_iota", "dim", "iota_dimension", Clause::integer},
    {"dynamic_slice", "sizes", "slice_sizes", Clause::integers},
    {"einsum", "config", "einsum_config", Clause::text},
    {"fft", "length", "fft_length", Clause::integers},
    {"fft", "type", "fft_type", Clause::word},
    {"get_dimension_size", "dim", "dimension", Clause::integer},
    {"iota", "dim", "iota_dimension", Clause::integer},
    {"pad", "high", "edge_padding_high", Clause::integers},
    {"pad", "interior", "interior_padding", Clause::integers},
    {"pad", "low", "edge_padding_low", Clause::integers},
    {"reduce_precision", "format", "", Clause::format},
    {"reverse", "dims", "dimensions", Clause::integers},
    {"rng", "distribution", "rng_distribution", Clause::word},
    {"rng_bit_generator", "algorithm", "rng_algorithm", Clause::word},
    {"set_dimension_size", "dim", "dimension", Clause::integer},
    {"top_k", "k", "k", Clause::integer},
    {"torch_index_select", "batch_dims", "batch_dims", Clause::integer},
    {"torch_index_select", "dim", "dim", Clause::integer},
    {"transpose", "dims", "permutation", Clause::integers},
    {"unary_einsum", "config", "einsum_config", Clause::text},
};

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

ParseResult parseIntegers(OpAsmParser &parser,
                          SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

/// "[DEFAULT, HIGH]" or "<lhs_precision_type = tf32, ...>".
ParseResult dropValue(OpAsmParser &parser) {
  if (succeeded(parser.parseOptionalLess()))
    return mlir::success(succeeded(parseHloStruct(parser)));
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&]() -> ParseResult {
                                          StringRef word;
                                          return parser.parseKeyword(&word);
                                        });
}

/// "e5m10": bits of exponent and mantissa.
ParseResult parseFormat(OpAsmParser &parser, OperationState &state) {
  StringRef word;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto [exponent, mantissa] = word.drop_front(1).split('m');
  unsigned bits[2];
  if (!word.starts_with("e") || exponent.getAsInteger(10, bits[0]) ||
      mantissa.getAsInteger(10, bits[1]))
    return parser.emitError(at, "'" + word + "' is no format such as e5m10");
  Builder &b = parser.getBuilder();
  state.addAttribute("exponent_bits", b.getI32IntegerAttr(bits[0]));
  state.addAttribute("mantissa_bits", b.getI32IntegerAttr(bits[1]));
  return mlir::success();
}

ParseResult parseClause(StringRef op, StringRef key, OpAsmParser &parser,
                        OperationState &state) {
  const ClauseRow *row = llvm::find_if(clauses, [&](const ClauseRow &each) {
    return op == each.op && key == each.key;
  });
  if (row == std::end(clauses))
    return parser.emitError(parser.getCurrentLocation(),
                            op + " has no '" + key + "'");
  Builder &b = parser.getBuilder();
  if (parser.parseEqual())
    return failure();
  SmallVector<int64_t> values, others;
  int64_t number = 0;
  StringRef word;
  std::string text;
  switch (row->kind) {
  case Clause::integers:
    if (parseIntegers(parser, values))
      return failure();
    state.addAttribute(row->attribute, hloIntegers(b, values));
    return mlir::success();
  case Clause::integer:
    if (parser.parseInteger(number))
      return failure();
    state.addAttribute(row->attribute, b.getI64IntegerAttr(number));
    return mlir::success();
  case Clause::flag:
  case Clause::word:
    if (parser.parseKeyword(&word))
      return failure();
    state.addAttribute(row->attribute,
                       row->kind == Clause::word
                           ? Attribute(b.getStringAttr(word))
                           : Attribute(b.getBoolAttr(word == "true")));
    return mlir::success();
  case Clause::text:
    if (parser.parseString(&text))
      return failure();
    state.addAttribute(row->attribute, b.getStringAttr(text));
    return mlir::success();
  case Clause::format:
    return parseFormat(parser, state);
  case Clause::pair:
    if (parseIntegers(parser, values) || parser.parseKeyword("x") ||
        parseIntegers(parser, others))
      return failure();
    state.addAttribute(("lhs_" + Twine(row->attribute)).str(),
                       hloIntegers(b, values));
    state.addAttribute(("rhs_" + Twine(row->attribute)).str(),
                       hloIntegers(b, others));
    return mlir::success();
  case Clause::dropped:
    return dropValue(parser);
  }
  return failure();
}

/// "(types) -> types", and the operands have them.
ParseResult parseFunctional(OpAsmParser &parser, OperationState &state,
                            const Operands &operands) {
  FunctionType type;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), at, state.operands))
    return failure();
  state.addTypes(type.getResults());
  return mlir::success();
}

/// What one list of types says of operands and results.
ParseResult giveTypes(StringRef op, OpAsmParser &parser, OperationState &state,
                      const Operands &operands, ArrayRef<Type> types,
                      SMLoc at) {
  SmallVector<Type> of(types);
  if (op == "return" || op == "optimization_barrier") {
    if (op == "optimization_barrier")
      state.addTypes(types);
  } else if (op == "select" && types.size() == 2) {
    of = {types[0], types[1], types[1]};
    state.addTypes(types[1]);
  } else if (types.size() != 1) {
    return parser.emitError(at, op + " has one type");
  } else {
    state.addTypes(types[0]);
    of.assign(operands.size(), types[0]);
    auto tensor = dyn_cast<RankedTensorType>(types[0]);
    auto element =
        tensor ? dyn_cast<ComplexType>(tensor.getElementType()) : nullptr;
    if (op == "complex" && element)
      of.assign(operands.size(), tensor.clone(element.getElementType()));
    if (op == "tuple")
      if (auto tuple = dyn_cast<TupleType>(types[0]))
        of.assign(tuple.getTypes().begin(), tuple.getTypes().end());
  }
  return parser.resolveOperands(operands, of, at, state.operands);
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// Before and between the operands of some.
ParseResult parseOwnBeginning(StringRef op, OpAsmParser &parser,
                              OperationState &state) {
  Builder &b = parser.getBuilder();
  if (op == "compare") {
    StringRef direction;
    if (parser.parseKeyword(&direction) || parser.parseComma())
      return failure();
    state.addAttribute("comparison_direction", b.getStringAttr(direction));
    state.addAttribute("compare_type", b.getStringAttr(""));
  } else if (op == "composite") {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    state.addAttribute("name", b.getStringAttr(name));
  }
  return mlir::success();
}

/// "[0:2, 1:8:3]".
ParseResult parseSliceLimits(OpAsmParser &parser, OperationState &state) {
  SmallVector<int64_t> starts, limits, strides;
  auto entry = [&]() -> ParseResult {
    strides.push_back(1);
    if (parser.parseInteger(starts.emplace_back()) || parser.parseColon() ||
        parser.parseInteger(limits.emplace_back()))
      return failure();
    return succeeded(parser.parseOptionalColon())
               ? parser.parseInteger(strides.back())
               : ParseResult(mlir::success());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, entry))
    return failure();
  Builder &b = parser.getBuilder();
  state.addAttribute("start_indices", hloIntegers(b, starts));
  state.addAttribute("limit_indices", hloIntegers(b, limits));
  state.addAttribute("strides", hloIntegers(b, strides));
  return mlir::success();
}

ParseResult parseUsual(StringRef op, OpAsmParser &parser,
                       OperationState &state) {
  Operands operands;
  if (parseOwnBeginning(op, parser, state))
    return failure();
  bool hasClauses =
      op == "compare" || llvm::any_of(clauses, [&](const ClauseRow &each) {
        return op == each.op;
      });
  do {
    OpAsmParser::UnresolvedOperand operand;
    OptionalParseResult given = parser.parseOptionalOperand(operand);
    if (given.has_value()) {
      if (failed(*given))
        return failure();
      operands.push_back(operand);
      continue;
    }
    StringRef key;
    if (!hasClauses || failed(parser.parseOptionalKeyword(&key)))
      break;
    if (op == "compare") // its kind
      state.attributes.set("compare_type",
                           parser.getBuilder().getStringAttr(key));
    else if (parseClause(op, key, parser, state))
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  int64_t index = 0;
  if (op == "slice" && parseSliceLimits(parser, state))
    return failure();
  if (op == "get_tuple_element") {
    if (parser.parseLSquare() || parser.parseInteger(index) ||
        parser.parseRSquare())
      return failure();
    state.addAttribute("index", parser.getBuilder().getI32IntegerAttr(index));
  }
  if (op == "optimization_barrier" && operands.empty() &&
      succeeded(parser.parseOptionalLParen()) && parser.parseRParen())
    return failure();
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(state.attributes))
    return failure();
  if (failed(parser.parseOptionalColon()))
    return operands.empty() ? ParseResult(mlir::success())
                            : parser.emitError(at, "a type is missing");
  SmallVector<Type> types;
  if (parser.parseTypeList(types))
    return failure();
  if (types.size() == 1)
    if (auto function = dyn_cast<FunctionType>(types[0])) {
      state.addTypes(function.getResults());
      return parser.resolveOperands(operands, function.getInputs(), at,
                                    state.operands);
    }
  return giveTypes(op, parser, state, operands, types, at);
}

ParseResult parseChlo(StringRef op, OpAsmParser &parser,
                      OperationState &state) {
  Operands operands;
  SmallVector<Type> types;
  bool enclosed = succeeded(parser.parseOptionalLParen());
  SMLoc at = parser.getCurrentLocation();
  do {
    OptionalParseResult operand =
        parser.parseOptionalOperand(operands.emplace_back());
    StringRef key;
    if (!operand.has_value()) {
      operands.pop_back();
      if (parser.parseKeyword(&key) || parseClause(op, key, parser, state))
        return failure();
    } else if (failed(*operand)) {
      return failure();
    }
  } while (succeeded(parser.parseOptionalComma()));
  if ((enclosed && parser.parseRParen()) ||
      parser.parseOptionalAttrDict(state.attributes) || parser.parseColon() ||
      parser.parseTypeList(types))
    return failure();
  if (auto function =
          types.size() == 1 ? dyn_cast<FunctionType>(types[0]) : nullptr) {
    state.addTypes(function.getResults());
    return parser.resolveOperands(operands, function.getInputs(), at,
                                  state.operands);
  }
  SmallVector<Type> results;
  if (parser.parseOptionalArrowTypeList(results))
    return failure();
  state.addTypes(results);
  return parser.resolveOperands(operands, types, at, state.operands);
}

ParseResult parseConstant(OpAsmParser &parser, OperationState &state) {
  Attribute value;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseAttribute(value))
    return failure();
  auto typed = dyn_cast<ElementsAttr>(value);
  if (!typed)
    return parser.emitError(at, "a constant has no tensor of numbers");
  state.addAttribute("value", value);
  state.addTypes(typed.getType());
  return mlir::success();
}

/// "(%x init: %0), (%y init: %1)", and then a body or the one op of it.
ParseResult parseReduce(OpAsmParser &parser, OperationState &state) {
  Operands inputs, starts;
  do {
    if (parser.parseLParen() || parser.parseOperand(inputs.emplace_back()) ||
        parser.parseKeyword("init") || parser.parseColon() ||
        parser.parseOperand(starts.emplace_back()) || parser.parseRParen())
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  llvm::append_range(inputs, starts);
  std::optional<OperationName> applied;
  if (succeeded(parser.parseOptionalKeyword("applies"))) {
    FailureOr<OperationName> name = parser.parseCustomOperationName();
    if (failed(name))
      return failure();
    applied = *name;
  }
  SmallVector<int64_t> dims;
  if (parser.parseKeyword("across") || parser.parseKeyword("dimensions") ||
      parser.parseEqual() || parseIntegers(parser, dims) ||
      parser.parseOptionalAttrDict(state.attributes) ||
      parseFunctional(parser, state, inputs))
    return failure();
  state.addAttribute("dimensions", hloIntegers(parser.getBuilder(), dims));
  Region *body = state.addRegion();
  if (!applied) {
    SmallVector<OpAsmParser::Argument> firsts, seconds;
    if (parser.parseKeyword("reducer"))
      return failure();
    for (size_t i = 0; i < starts.size(); ++i)
      if (parser.parseLParen() ||
          parser.parseArgument(firsts.emplace_back(), /*allowType=*/true) ||
          parser.parseComma() ||
          parser.parseArgument(seconds.emplace_back(), /*allowType=*/true) ||
          parser.parseRParen())
        return failure();
    llvm::append_range(firsts, seconds);
    return parser.parseRegion(*body, firsts);
  }
  if (starts.size() != 1)
    return parser.emitError(parser.getCurrentLocation(),
                            "one op reduces one tensor");
  Type scalar = state.operands.back().getType();
  OpBuilder b(parser.getContext());
  Block *block = b.createBlock(body, {}, {scalar, scalar},
                               {state.location, state.location});
  OperationState inner(state.location, *applied);
  inner.addOperands(block->getArguments());
  inner.addTypes(scalar);
  OperationState end(state.location, "stablehlo.return");
  end.addOperands(b.create(inner)->getResult(0));
  b.create(end);
  return mlir::success();
}

/// "(%i = %0, %x = %1) : types cond {...} do {...}".
ParseResult parseWhile(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> arguments;
  Operands operands;
  SmallVector<Type> types;
  auto entry = [&]() -> ParseResult {
    return mlir::success(
        succeeded(parser.parseArgument(arguments.emplace_back())) &&
        succeeded(parser.parseEqual()) &&
        succeeded(parser.parseOperand(operands.emplace_back())));
  };
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen,
                                     entry) ||
      (!operands.empty() && parser.parseColonTypeList(types)) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
      parser.resolveOperands(operands, types, at, state.operands))
    return failure();
  state.addTypes(types);
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  for (StringRef part : {"cond", "do"})
    if (parser.parseKeyword(part) ||
        parser.parseRegion(*state.addRegion(), arguments))
      return failure();
  return mlir::success();
}

ParseResult parseCustomCall(OpAsmParser &parser, OperationState &state) {
  StringAttr target;
  Operands operands;
  if (parser.parseSymbolName(target) ||
      parser.parseOperandList(operands, AsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  state.addAttribute("call_target_name", target);
  return parseFunctional(parser, state, operands);
}

/// "stride = [1, 2], pad = [[0, 1], [1, 0]], reverse = [true, false]".
ParseResult parseWindow(OpAsmParser &parser, OperationState &state) {
  Builder &b = parser.getBuilder();
  if (parser.parseKeyword("window") || parser.parseEqual() ||
      parser.parseLBrace())
    return failure();
  if (succeeded(parser.parseOptionalRBrace()))
    return mlir::success();
  do {
    StringRef key;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return failure();
    StringRef name = llvm::StringSwitch<StringRef>(key)
                         .Case("stride", "window_strides")
                         .Case("pad", "padding")
                         .Case("lhs_dilate", "lhs_dilation")
                         .Case("rhs_dilate", "rhs_dilation")
                         .Case("reverse", "window_reversal")
                         .Default("");
    SmallVector<int64_t> values;
    SmallVector<bool> flags;
    ParseResult read = failure();
    if (name.empty())
      return parser.emitError(at, "a window has no '" + key + "'");
    if (key == "pad")
      read = parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseIntegers(parser, values);
      });
    else if (key == "reverse")
      read = parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            bool yes = succeeded(parser.parseOptionalKeyword("true"));
            flags.push_back(yes);
            return yes ? mlir::success() : parser.parseKeyword("false");
          });
    else
      read = parseIntegers(parser, values);
    if (failed(read))
      return failure();
    Attribute reversal = DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(flags.size())},
                              b.getI1Type()),
        flags);
    state.addAttribute(name,
                       key == "reverse" ? reversal : hloIntegers(b, values));
  } while (succeeded(parser.parseOptionalComma()));
  return parser.parseRBrace();
}

ParseResult parseConvolution(OpAsmParser &parser, OperationState &state) {
  Operands operands;
  if (parser.parseOperandList(operands, AsmParser::Delimiter::Paren) ||
      parser.parseKeyword("dim_numbers") || parser.parseEqual() ||
      parseHloConvolutionDims(parser, state.attributes) ||
      parser.parseComma() || parseWindow(parser, state) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  return parseFunctional(parser, state, operands);
}

constexpr StringRef chlo[] = {
    "acos",       "acosh",      "asin",    "asinh",         "atan",
    "atanh",      "bessel_i1e", "conj",    "constant_like", "cosh",
    "digamma",    "erf",        "erf_inv", "erfc",          "is_inf",
    "is_neg_inf", "is_pos_inf", "lgamma",  "next_after",    "polygamma",
    "ragged_dot", "sinh",       "square",  "tan",           "top_k",
    "zeta"};

} // namespace

ArrayRef<StringRef> hloChloOps() { return chlo; }

ParseResult parseHloForm(StringRef op, OpAsmParser &parser,
                         OperationState &state) {
  if (state.name.getDialectNamespace() == "chlo")
    return parseChlo(op, parser, state);
  if (op == "constant")
    return parseConstant(parser, state);
  if (op == "reduce")
    return parseReduce(parser, state);
  if (op == "while")
    return parseWhile(parser, state);
  if (op == "custom_call")
    return parseCustomCall(parser, state);
  if (op == "convolution" || op == "dynamic_conv")
    return parseConvolution(parser, state);
  return parseUsual(op, parser, state);
}

} // namespace knapper
