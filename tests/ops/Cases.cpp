#include "tests/ops/Cases.h"
#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/ErrorScale.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/base/Text.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;

namespace knapper::opcases {

using ts::HostTensor;

Expected<std::vector<OpCase>> readCases(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return userError("cannot read: " + buffer.getError().message(), path);
  auto parsed = llvm::json::parse((*buffer)->getBuffer());
  if (!parsed)
    return userError(llvm::toString(parsed.takeError()), path);
  std::vector<OpCase> cases;
  auto readSizes = [](const llvm::json::Array *list) {
    std::vector<Sizes> all;
    for (const llvm::json::Value &entry : *list) {
      Sizes &sizes = all.emplace_back();
      for (const auto &[name, value] : *entry.getAsObject())
        sizes.emplace_back(name.str(), *value.getAsInteger());
      llvm::sort(sizes);
    }
    return all;
  };
  for (const llvm::json::Value &value : *parsed->getAsArray()) {
    const llvm::json::Object &row = *value.getAsObject();
    OpCase &opCase = cases.emplace_back();
    opCase.name = row.getString("name")->str();
    opCase.mlir = row.getString("mlir")->str();
    for (const llvm::json::Value &input : *row.getArray("inputs"))
      opCase.inputs.push_back(input.getAsString()->str());
    for (const llvm::json::Value &input : *row.getArray("input_names"))
      opCase.inputNames.push_back(input.getAsString()->str());
    opCase.sizes = readSizes(row.getArray("sizes"));
    opCase.speed = readSizes(row.getArray("speed"));
    auto [kind, bound] = row.getString("tolerance")->split(' ');
    if (kind == "ulp")
      opCase.tolerance.kind = Tolerance::ulp;
    else if (kind == "relative")
      opCase.tolerance.kind = Tolerance::relative;
    else if (kind != "exact")
      return userError("unknown tolerance '" + kind.str() + "'", opCase.name);
    if (!bound.empty() && bound.getAsDouble(opCase.tolerance.bound))
      return userError("bad tolerance '" + bound.str() + "'", opCase.name);
  }
  return cases;
}

std::string sizesText(const Sizes &sizes) {
  std::string text;
  for (const auto &[name, value] : sizes)
    text += (text.empty() ? "" : " ") + cat(name, "=", value);
  return text;
}

namespace {

double largestFinite(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return 65504;
  case DType::bf16:
    return ts::bf16ToDouble(0x7f7f);
  case DType::f64:
    return std::numeric_limits<double>::max();
  default:
    return std::numeric_limits<float>::max();
  }
}

double smallestDenormal(DType dtype) {
  switch (dtype) {
  case DType::f16:
    return std::ldexp(1, -24);
  case DType::bf16:
    return std::ldexp(1, -133);
  case DType::f64:
    return std::numeric_limits<double>::denorm_min();
  default:
    return std::numeric_limits<float>::denorm_min();
  }
}

struct ValueGenerator {
  std::mt19937_64 random;
  DType dtype;

  double uniform(double low, double high) {
    return low + (high - low) * (random() >> 11) * 0x1p-53;
  }
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() %
                                      static_cast<uint64_t>(high - low + 1));
  }

  std::optional<double> floating(StringRef kind) {
    double most = largestFinite(dtype), least = smallestDenormal(dtype);
    if (kind == "normal")
      return uniform(-2, 2) * (random() % 8 == 0 ? 4 : 1);
    if (kind == "positive")
      return uniform(0.1, 4);
    if (kind == "unit")
      return uniform(-0.99, 0.99);
    if (kind == "ties")
      return static_cast<double>(integer(-2, 2));
    if (kind == "wide") // any exponent
      return std::ldexp(uniform(-1, 1),
                        integer(std::ilogb(least) / 2, std::ilogb(most) / 2));
    if (kind == "midway") {
      // Between neighbours of bf16, f16 or f32, or just beside that.
      constexpr int64_t bits[] = {7, 10, 23};
      int64_t kept = bits[random() % std::size(bits)];
      double step = std::ldexp(1, -kept);
      double middle = 1 + step * (integer(0, (int64_t(1) << kept) - 1) + 0.5);
      double beside =
          integer(-1, 1) * std::ldexp(1, dtype == DType::f64 ? -40 : -23);
      return std::ldexp(middle + beside, integer(-6, 6)) *
             (random() % 2 ? 1 : -1);
    }
    if (kind == "summable") // special, but for what overflows in a sum
      for (;;)
        if (double x = *floating("special"); !(std::abs(x) == most))
          return x;
    if (kind == "special") {
      const double values[] = {std::nan(""), INFINITY, -INFINITY, 0.0,    -0.0,
                               least,        -least,   most,      -most,  1,
                               -1,           0.5,      2.5,       -3.5,   1e-3,
                               11,           -17,      88.8,      -104.5, 300};
      if (random() % 3 == 0)
        return uniform(-10, 10);
      return values[random() % std::size(values)];
    }
    return std::nullopt;
  }

  std::optional<int64_t> whole(StringRef kind) {
    bool isUnsigned = knapper::isUnsigned(dtype);
    if (kind == "normal")
      return isUnsigned ? integer(0, 40) : integer(-20, 20);
    if (kind == "positive" || kind == "unit")
      return integer(1, 9);
    if (kind == "ties")
      return isUnsigned ? integer(0, 3) : integer(-2, 2);
    if (kind == "bool")
      return integer(0, 1);
    if (kind == "wide" || kind == "special") {
      if (dtype == DType::i1)
        return integer(0, 1);
      // Extremes and small numbers among all the others.
      if (random() % 4 == 0) {
        const int64_t values[] = {0, 1, -1, 2, INT64_MIN, INT64_MAX};
        return values[random() % std::size(values)];
      }
      if (random() % 16 == 0)
        return static_cast<int64_t>(uint64_t(1) << (8 * byteSize(dtype) - 1));
      return static_cast<int64_t>(random());
    }
    return std::nullopt;
  }
};

uint64_t nameHash(StringRef text) { // FNV-1a: the same everywhere
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

} // namespace

Expected<std::vector<HostTensor>>
makeInputs(const OpCase &opCase, func::FuncOp function, const Sizes &sizes) {
  ts::SymbolValues symbols;
  for (const auto &[name, value] : sizes)
    symbols[name] = value;
  std::vector<HostTensor> tensors;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Expected<ts::Shape> shape =
        ts::evaluateShape(type, symbols, uint64_t(1) << 32);
    if (!shape)
      return shape.takeError();
    DType dtype = *ts::dtypeOf(cast<RankedTensorType>(type).getElementType());
    StringRef kind = opCase.inputs[i];
    ValueGenerator generator{
        std::mt19937_64(nameHash(opCase.name + sizesText(sizes)) + i), dtype};
    int64_t count = *ts::elementCountOf(*shape);
    auto unknown = [&] {
      return userError("input kind '" + kind.str() + "' does not suit " +
                           std::string(name(dtype)),
                       opCase.name);
    };
    if (kind.consume_front("index")) {
      bool fromZero = kind.consume_front("0");
      kind = kind.trim();
      int64_t limit;
      if (kind.getAsInteger(10, limit)) {
        if (!symbols.count(kind))
          return unknown();
        limit = symbols[kind];
      }
      std::vector<int64_t> values(count);
      for (int64_t &value : values)
        value = generator.integer(fromZero ? 0 : -limit, limit - 1);
      tensors.push_back(HostTensor::store(dtype, *shape, values));
    } else if (isStorage(dtype)) {
      // Every byte means something, whatever its high bits are.
      HostTensor bytes = HostTensor::allocate(dtype, *shape);
      for (int64_t j = 0; j < count; ++j)
        bytes.mutableData()[j] =
            static_cast<uint8_t>(generator.integer(0, 255));
      tensors.push_back(bytes);
    } else if (HostTensor::isFloat(dtype)) {
      std::vector<double> values(count);
      for (double &value : values) {
        std::optional<double> made = generator.floating(kind);
        if (!made)
          return unknown();
        value = *made;
      }
      tensors.push_back(HostTensor::store(dtype, *shape, values));
    } else {
      std::vector<int64_t> values(count);
      for (int64_t &value : values) {
        std::optional<int64_t> made = generator.whole(kind);
        if (!made)
          return unknown();
        value = *made;
      }
      tensors.push_back(HostTensor::store(dtype, *shape, values));
    }
  }
  return tensors;
}

namespace {

/// Position among all values of the dtype, so that neighbours differ by one.
int64_t ordinal(double value, DType dtype) {
  uint64_t bits;
  int width = static_cast<int>(8 * byteSize(dtype));
  switch (dtype) {
  case DType::f16:
    bits = ts::doubleToF16(value);
    break;
  case DType::bf16:
    bits = ts::doubleToBf16(value);
    break;
  case DType::f64:
    bits = std::bit_cast<uint64_t>(value);
    break;
  default:
    bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  auto magnitude = static_cast<int64_t>(bits & ~(uint64_t(1) << (width - 1)));
  return bits >> (width - 1) & 1 ? -magnitude : magnitude;
}

} // namespace

std::string difference(const HostTensor &expected, const HostTensor &actual,
                       Tolerance tolerance) {
  if (expected.dtype() != actual.dtype() || expected.dims() != actual.dims())
    return "is " + actual.typeText() + ", expected " + expected.typeText();
  auto at = [&](int64_t linear) {
    std::string text = "element [";
    ts::Shape index(expected.rank());
    for (size_t i = expected.rank(); i-- > 0;) {
      index[i] = linear % expected.dim(i);
      linear /= expected.dim(i);
    }
    for (size_t i = 0; i < index.size(); ++i)
      text += (i ? ", " : "") + std::to_string(index[i]);
    return text + "] of " + expected.typeText();
  };
  if (!expected.isFloat()) {
    std::vector<int64_t> a = expected.load<int64_t>(),
                         b = actual.load<int64_t>();
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        return cat(at(i), " is ", b[i], ", expected ", a[i]);
    // A boolean is one byte, 0 or 1: nothing else.
    if (expected.dtype() == DType::i1)
      for (int64_t i = 0; i < actual.elements(); ++i)
        if (actual.data()[i] > 1)
          return at(i) + " is a byte above 1";
    return {};
  }
  std::vector<double> a = expected.load<double>(), b = actual.load<double>();
  double scale = ts::errorScale(a), worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    double error = INFINITY; // in units of the bound
    if (!std::isnan(a[i]) && !std::isnan(b[i])) {
      if (tolerance.kind == Tolerance::ulp)
        error =
            std::fabs(static_cast<double>(ordinal(a[i], expected.dtype()) -
                                          ordinal(b[i], expected.dtype()))) /
            tolerance.bound;
      else if (tolerance.kind == Tolerance::relative && std::isfinite(a[i]) &&
               std::isfinite(b[i]))
        error = std::fabs(a[i] - b[i]) / (tolerance.bound * scale);
    }
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  if (worst <= 1)
    return {};
  char text[160];
  snprintf(text, sizeof text, " is %.9g, expected %.9g: %.3g times the bound",
           b[where], a[where], worst);
  return at(where) + text;
}

} // namespace knapper::opcases
