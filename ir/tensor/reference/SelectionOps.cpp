#include "ir/tensor/DataSelection.h"
#include "ir/tensor/reference/Call.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;

namespace knapper::ts::reference {

namespace {

Results truePlaces(TruePlacesOp, const Call &call) {
  const HostTensor &mask = call.in[0];
  std::vector<int64_t> isTrue = mask.load<int64_t>();
  int64_t rank = mask.rank(), count = call.shapes[0][1];
  std::vector<int64_t> result(rank * count, 0);
  int64_t found = 0;
  forEachIndex(mask.dims(), [&](ArrayRef<int64_t> index, int64_t linear) {
    if (!isTrue[linear] || found >= count)
      return;
    for (int64_t i = 0; i < rank; ++i)
      result[i * count + found] = index[i];
    ++found;
  });
  return SmallVector<HostTensor>{
      HostTensor::store(DType::i64, call.shapes[0], result)};
}

/// In f32, as kernels compute it: what is taken depends on each rounding.
struct Box {
  float top, left, bottom, right, area;

  static Box of(const float *corners) {
    auto low = [](float a, float b) { return a != a || a < b ? a : b; };
    auto high = [](float a, float b) { return a != a || a > b ? a : b; };
    float a = corners[0], b = corners[1], c = corners[2], d = corners[3];
    Box box{low(a, c), low(b, d), high(a, c), high(b, d), 0};
    float height = box.bottom - box.top, width = box.right - box.left;
    box.area = height * width;
    return box;
  }

  bool overlaps(const Box &other, float limit) const {
    float height = std::min(bottom, other.bottom) - std::max(top, other.top);
    float width = std::min(right, other.right) - std::max(left, other.left);
    float shared = height * width, both = area + other.area;
    float whole = both - shared;
    return height > 0 && width > 0 && area > 0 && other.area > 0 &&
           shared / whole > limit;
  }
};

Results nonMaxSuppression(NonMaxSuppressionOp, const Call &call) {
  auto floats = [&](size_t operand) {
    std::vector<double> x = call.in[operand].load<double>();
    return std::vector<float>(x.begin(), x.end());
  };
  std::vector<float> boxes = floats(0), scores = floats(1);
  float limit = floats(2)[0];
  int64_t classes = call.shapes[0][1], most = call.shapes[0][2],
          count = call.in[0].dim(1), lines = call.shapes[0][0] * classes;
  std::vector<int64_t> result(lines * most, -1);
  for (int64_t line = 0; line < lines; ++line) {
    const float *score = scores.data() + line * count,
                *corners = boxes.data() + line / classes * count * 4;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i)
      if (score[i] > -INFINITY)
        order.push_back(i);
    llvm::stable_sort(
        order, [&](int64_t i, int64_t j) { return score[i] > score[j]; });
    std::vector<Box> taken;
    for (int64_t i : order) {
      auto kept = static_cast<int64_t>(taken.size());
      if (kept == most)
        break;
      Box box = Box::of(corners + i * 4);
      if (llvm::any_of(taken,
                       [&](const Box &t) { return t.overlaps(box, limit); }))
        continue;
      taken.push_back(box);
      result[line * most + kept] = i;
    }
  }
  return SmallVector<HostTensor>{
      HostTensor::store(DType::i64, call.shapes[0], result)};
}

} // namespace

std::optional<Results> evaluateSelection(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](TruePlacesOp op) { return truePlaces(op, call); })
      .Case([&](NonMaxSuppressionOp op) { return nonMaxSuppression(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
