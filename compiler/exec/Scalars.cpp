#include "compiler/exec/Scalars.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;

namespace knapper {

void ScalarTable::declare(StringRef symbol, int64_t min, int64_t max,
                          int64_t divisor, bool fromBuffer) {
  if (!symbols.try_emplace(symbol, program.symbols.size()).second)
    return;
  auto entry = std::make_unique<fb::SymbolT>();
  entry->name = symbol.str();
  entry->min = min;
  entry->max = max;
  entry->divisor = divisor;
  entry->from_buffer = fromBuffer;
  program.symbols.push_back(std::move(entry));
}

uint32_t ScalarTable::make(fb::ScalarOp op, uint32_t a, uint32_t b,
                           int64_t immediate) {
  auto [it, isNew] =
      known.try_emplace({op, a, b, immediate}, program.values.size());
  if (isNew)
    program.values.push_back(fb::Scalar(op, a, b, immediate));
  return it->second;
}

uint32_t ScalarTable::constant(int64_t value) {
  return make(fb::ScalarOp::constant, 0, 0, value);
}

uint32_t ScalarTable::get(ts::Dim dim) {
  if (std::optional<int64_t> number = dim.asConstant())
    return constant(*number);
  if (auto it = dims.find(dim.attr()); it != dims.end())
    return it->second;
  std::optional<uint32_t> sum;
  for (auto [coefficient, monomial] :
       llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials())) {
    std::optional<uint32_t> term;
    if (coefficient != 1 || monomial.empty())
      term = constant(coefficient);
    for (Attribute atom : monomial) {
      uint32_t factor;
      if (auto symbol = dyn_cast<StringAttr>(atom)) {
        assert(isDeclared(symbol.getValue()) && "undeclared symbol");
        factor = make(fb::ScalarOp::symbol, 0, 0, symbolIndex(symbol));
      } else {
        auto fn = cast<ts::DimFnAttr>(atom);
        constexpr fb::ScalarOp ops[] = {fb::ScalarOp::floordiv,
                                        fb::ScalarOp::mod, fb::ScalarOp::min,
                                        fb::ScalarOp::max};
        uint32_t a = get(fn.getLhs()), b = get(fn.getRhs());
        factor = make(ops[fn.getFn()], a, b, 0);
      }
      term = term ? make(fb::ScalarOp::mul, *term, factor, 0) : factor;
    }
    sum = sum ? make(fb::ScalarOp::add, *sum, *term, 0) : *term;
  }
  return dims[dim.attr()] = *sum;
}

uint32_t ScalarTable::get(const Guard &guard) {
  std::optional<uint32_t> all;
  for (const Guard::Term &term : guard.terms) {
    uint32_t a = get(term.lhs), b = get(term.rhs), value = 0;
    switch (term.predicate) {
    case ts::ComparePredicate::eq:
      value = make(fb::ScalarOp::eq, a, b, 0);
      break;
    case ts::ComparePredicate::ne:
      value = make(fb::ScalarOp::ne, a, b, 0);
      break;
    case ts::ComparePredicate::lt:
      value = make(fb::ScalarOp::lt, a, b, 0);
      break;
    case ts::ComparePredicate::le:
      value = make(fb::ScalarOp::le, a, b, 0);
      break;
    case ts::ComparePredicate::gt:
      value = make(fb::ScalarOp::lt, b, a, 0);
      break;
    case ts::ComparePredicate::ge:
      value = make(fb::ScalarOp::le, b, a, 0);
      break;
    }
    all = all ? make(fb::ScalarOp::logical_and, *all, value, 0) : value;
  }
  return all ? *all : constant(1);
}

} // namespace knapper
