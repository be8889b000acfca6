// Softmax, normalisation, attention, rope: each straight from its definition.
#include "ir/tensor/Decompose.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/Recurrence.h"
#include "ir/tensor/ScaledDot.h"
#include "ir/tensor/reference/Call.h"
#include "ir/tensor/reference/Evaluate.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace knapper::ts::reference {
namespace {

Results store(const Call &call, const std::vector<double> &values) {
  return SmallVector<HostTensor>{
      HostTensor::store(call.dtypes[0], call.shapes[0], values)};
}

Results softmax(SoftmaxOp op, const Call &call) {
  std::vector<double> x = call.in[0].load<double>();
  ArrayRef<int64_t> dims = call.in[0].dims();
  int64_t outer = *elementCountOf(dims.take_front(op.getDim()));
  int64_t size = dims[op.getDim()];
  int64_t inner = *elementCountOf(dims.drop_front(op.getDim() + 1));
  bool log = op.getLog();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t n = 0; n < inner; ++n) {
      auto at = [&](int64_t i) -> double & {
        return x[(o * size + i) * inner + n];
      };
      double largest = -INFINITY, sum = 0;
      for (int64_t i = 0; i < size; ++i)
        largest = combine(ReduceKind::max, largest, at(i));
      for (int64_t i = 0; i < size; ++i)
        sum += std::exp(at(i) - largest);
      for (int64_t i = 0; i < size; ++i)
        at(i) = log ? at(i) - largest - std::log(sum)
                    : std::exp(at(i) - largest) / sum;
    }
  return store(call, x);
}

Results layerNorm(LayerNormOp op, const Call &call) {
  std::vector<double> x = call.in[0].load<double>(), scale, bias;
  size_t next = 1;
  if (op.getScale())
    scale = call.in[next++].load<double>();
  if (op.getBias())
    bias = call.in[next++].load<double>();
  ArrayRef<int64_t> dims = call.in[0].dims();
  int64_t rows = *elementCountOf(dims.take_front(op.getDim()));
  int64_t size = *elementCountOf(dims.drop_front(op.getDim()));
  double epsilon = op.getEpsilon().convertToDouble();
  for (int64_t r = 0; r < rows; ++r) {
    double *row = x.data() + r * size;
    double mean = 0, variance = 0;
    if (!op.getRms()) {
      for (int64_t i = 0; i < size; ++i)
        mean += row[i];
      mean /= static_cast<double>(size);
    }
    for (int64_t i = 0; i < size; ++i)
      variance += (row[i] - mean) * (row[i] - mean);
    variance /= static_cast<double>(size);
    double factor = 1 / std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < size; ++i) {
      row[i] = (row[i] - mean) * factor;
      if (!scale.empty())
        row[i] *= scale[i];
      if (!bias.empty())
        row[i] += bias[i];
    }
  }
  return store(call, x);
}

Results attention(AttentionOp op, const Call &call) {
  const HostTensor &q = call.in[0], &k = call.in[1], &v = call.in[2];
  int64_t heads = q.dim(1), rows = q.dim(2), depth = q.dim(3);
  int64_t groups = k.dim(1), keys = k.dim(2), width = v.dim(3);
  if (q.dim(0) != k.dim(0) || q.dim(0) != v.dim(0) || v.dim(1) != groups ||
      v.dim(2) != keys || k.dim(3) != depth || groups == 0 ||
      heads % groups != 0)
    return call.userError("query, key and value do not fit together");
  std::vector<double> qs = q.load<double>(), ks = k.load<double>(),
                      vs = v.load<double>(), ms;
  Shape maskStrides(4, 0);
  bool keeps = false; // an i1 mask
  if (op.getMask()) {
    const HostTensor &mask = call.in[3];
    ms = mask.load<double>();
    keeps = mask.dtype() == DType::i1;
    Shape strides = stridesOf(mask.dims()), scores{q.dim(0), heads, rows, keys};
    for (unsigned i = 0; i < 4; ++i) {
      if (mask.dim(i) != 1 && mask.dim(i) != scores[i])
        return call.userError(cat("dim ", i, " of the mask is ", mask.dim(i),
                                  ", of the scores ", scores[i]));
      maskStrides[i] = mask.dim(i) == 1 ? 0 : strides[i];
    }
  }
  EmptyRow emptyRow = emptyRowOf(op);
  double scale = op.getScale().convertToDouble();
  double softcap = op.getSoftcap().convertToDouble();
  bool causal = op.getCausal();
  int64_t lastKey = op.getCausalTopLeft() ? 0 : keys - rows;
  std::vector<double> result(*elementCountOf(call.shapes[0]), 0);
  std::vector<double> scores(keys);
  forEachIndex(
      {q.dim(0), heads, rows}, [&](ArrayRef<int64_t> index, int64_t row) {
        int64_t b = index[0], h = index[1], s = index[2];
        int64_t group = b * groups + h / (heads / groups);
        double largest = -INFINITY;
        for (int64_t t = 0; t < keys; ++t) {
          double score = 0;
          for (int64_t d = 0; d < depth; ++d)
            score += qs[row * depth + d] * ks[(group * keys + t) * depth + d];
          score *= scale;
          if (softcap > 0)
            score = softcap * std::tanh(score / softcap);
          if (!ms.empty()) {
            double m = ms[offsetOf({b, h, s, t}, maskStrides)];
            score = !keeps ? score + m : m != 0 ? score : -INFINITY;
          }
          if (causal && t > s + lastKey)
            score = -INFINITY;
          scores[t] = score;
          largest = combine(ReduceKind::max, largest, score);
        }
        if (largest == -INFINITY) { // no key is seen
          for (int64_t e = 0; e < width && emptyRow != EmptyRow::zero; ++e) {
            double value = 0;
            for (int64_t t = 0; t < keys; ++t)
              value += vs[(group * keys + t) * width + e];
            result[row * width + e] = keys == 0 ? 0
                                      : emptyRow == EmptyRow::nan
                                          ? NAN
                                          : value / static_cast<double>(keys);
          }
          return;
        }
        double sum = 0;
        for (double &score : scores)
          sum += score = std::exp(score - largest);
        for (int64_t e = 0; e < width; ++e) {
          double value = 0;
          for (int64_t t = 0; t < keys; ++t)
            if (scores[t] != 0) // an unseen key adds nothing, were it infinite
              value += scores[t] * vs[(group * keys + t) * width + e];
          result[row * width + e] = value / sum;
        }
      });
  return store(call, result);
}

Results pagedAttention(PagedAttentionOp op, const Call &call) {
  const HostTensor &query = call.in[0], &keys = call.in[1], &table = call.in[3];
  int64_t tokens = query.dim(0), heads = query.dim(1), depth = query.dim(2);
  int64_t groups = keys.dim(1), positions = keys.dim(2);
  int64_t width = call.in[2].dim(3), blocks = table.dim(1);
  if (groups == 0 || heads % groups != 0 || keys.dim(3) != depth)
    return call.userError("query, keys and values do not fit together");
  std::vector<double> q = query.load<double>(), k = keys.load<double>(),
                      v = call.in[2].load<double>();
  std::vector<int64_t> entries = table.load<int64_t>(),
                       sequence = call.in[4].load<int64_t>(),
                       position = call.in[5].load<int64_t>();
  for (int64_t entry : entries)
    if (entry < 0 || entry >= keys.dim(0))
      return call.userError(
          cat("the table names block ", entry, " of ", keys.dim(0)));
  double scale = op.getScale().convertToDouble();
  double softcap = op.getSoftcap().convertToDouble();
  auto window = static_cast<int64_t>(op.getWindow());
  std::vector<double> result(tokens * heads * width, 0);
  for (int64_t t = 0; t < tokens; ++t) {
    if (sequence[t] < 0 || sequence[t] >= table.dim(0))
      return call.userError(cat("token ", t, " is of sequence ", sequence[t]));
    int64_t end = std::min(position[t] + 1, blocks * positions);
    int64_t first =
        window > 0 ? std::max<int64_t>(0, position[t] - window + 1) : 0;
    for (int64_t h = 0; h < heads; ++h) {
      auto rowOf = [&](int64_t p) {
        int64_t block = entries[sequence[t] * blocks + p / positions];
        int64_t group = h / (heads / groups);
        return (block * groups + group) * positions + p % positions;
      };
      std::vector<double> scores;
      double largest = -INFINITY, sum = 0;
      for (int64_t p = first; p < end; ++p) {
        double score = 0;
        for (int64_t d = 0; d < depth; ++d)
          score += q[(t * heads + h) * depth + d] * k[rowOf(p) * depth + d];
        score *= scale;
        if (softcap > 0)
          score = softcap * std::tanh(score / softcap);
        scores.push_back(score);
        largest = combine(ReduceKind::max, largest, score);
      }
      for (double &score : scores)
        sum += score = std::exp(score - largest);
      for (int64_t p = first; p < end; ++p)
        for (int64_t e = 0; e < width; ++e)
          result[(t * heads + h) * width + e] +=
              scores[p - first] / sum * v[rowOf(p) * width + e];
    }
  }
  return store(call, result);
}

Results rope(RopeOp op, const Call &call) {
  const HostTensor &input = call.in[0], &cosine = call.in[1];
  std::vector<double> x = input.load<double>(), c = cosine.load<double>(),
                      s = call.in[2].load<double>();
  int64_t depth = input.dim(3), half = cosine.dim(2);
  bool interleaved = op.getInterleaved();
  std::vector<double> result = x;
  forEachIndex(
      input.dims().take_front(3), [&](ArrayRef<int64_t> index, int64_t row) {
        int64_t b = cosine.dim(0) == 1 ? 0 : index[0];
        int64_t angle = (b * cosine.dim(1) + index[2]) * half;
        for (int64_t i = 0; i < half; ++i) {
          int64_t first = row * depth + (interleaved ? 2 * i : i);
          int64_t second = first + (interleaved ? 1 : half);
          double cos = c[angle + i], sin = s[angle + i];
          result[first] = x[first] * cos - x[second] * sin;
          result[second] = x[second] * cos + x[first] * sin;
        }
      });
  return store(call, result);
}

Results scaledDot(ScaledDotOp op, const Call &call) {
  std::vector<double> x = call.in[0].load<double>(),
                      w = call.in[1].load<double>(),
                      scale = call.in[2].load<double>(), zero;
  if (op.getZero())
    zero = call.in[3].load<double>();
  int64_t depth = call.in[1].dim(0), columns = call.in[1].dim(1);
  auto group = static_cast<int64_t>(op.getGroup());
  int64_t rows = *elementCountOf(call.in[0].dims().drop_back());
  std::vector<double> result(rows * columns);
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t n = 0; n < columns; ++n) {
      int64_t at = k / group * columns + n;
      double q = w[k * columns + n] - (zero.empty() ? 0 : zero[at]);
      for (int64_t i = 0; i < rows; ++i)
        result[i * columns + n] += x[i * depth + k] * (q * scale[at]);
    }
  return store(call, result);
}

Results packedDot(PackedDotOp op, const Call &call) {
  std::vector<double> x = call.in[0].load<double>(),
                      w = call.in[1].load<double>(),
                      scale = call.in[2].load<double>();
  int64_t columns = call.in[1].dim(0), bytes = call.in[1].dim(1),
          groups = call.in[2].dim(1), depth = call.in[0].dims().back();
  auto group = static_cast<int64_t>(op.getGroup());
  int64_t rows = *elementCountOf(call.in[0].dims().drop_back());
  std::vector<double> result(rows * columns);
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t k = 0; k < depth; ++k) {
      auto integer =
          static_cast<int>(w[n * bytes + (op.getBits() == 8 ? k : k / 2)]);
      if (op.getBits() == 4)
        integer = k % 2 ? integer >> 4 : ((integer & 15) ^ 8) - 8;
      double value = integer * scale[n * groups + k / group];
      for (int64_t i = 0; i < rows; ++i)
        result[i * columns + n] += x[i * depth + k] * value;
    }
  return store(call, result);
}

Results groupedMatmul(GroupedMatmulOp op, const Call &call) {
  std::vector<double> x = call.in[0].load<double>(),
                      w = call.in[1].load<double>();
  std::vector<int64_t> ends = call.in[2].load<int64_t>();
  bool transposed = op.getTransposed();
  int64_t rows = call.in[0].dim(0), depth = call.in[0].dim(1);
  int64_t columns = call.in[1].dim(transposed ? 1 : 2);
  std::vector<double> result(rows * columns, 0);
  for (int64_t t = 0; t < rows; ++t) {
    auto expert = llvm::find_if(ends, [&](int64_t end) { return end > t; });
    if (expert == ends.end())
      continue;
    const double *matrix =
        w.data() + std::distance(ends.begin(), expert) * depth * columns;
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t k = 0; k < depth; ++k)
        result[t * columns + n] +=
            x[t * depth + k] *
            matrix[transposed ? n * depth + k : k * columns + n];
  }
  return store(call, result);
}

Results recurrence(RecurrenceOp op, const Call &call) {
  size_t states = op.getStates().size(), sequences = op.getSequences().size();
  Expected<int64_t> steps = call.size(Dim(op.getSteps()));
  if (!steps)
    return steps.takeError();
  SmallVector<HostTensor> results(call.in.take_front(states));
  for (size_t i = states; i < call.shapes.size(); ++i)
    results.push_back(HostTensor::allocate(call.dtypes[i], call.shapes[i]));
  auto place = [&](int64_t step, bool reversed, int64_t bytes) {
    return (reversed ? *steps - 1 - step : step) * (bytes / *steps);
  };
  for (int64_t step = 0; step < *steps; ++step) {
    SmallVector<HostTensor> arguments(results.begin(),
                                      results.begin() + states);
    for (size_t i = 0; i < sequences; ++i) {
      const HostTensor &all = call.in[states + i];
      HostTensor one =
          HostTensor::allocate(all.dtype(), all.dims().drop_front());
      std::memcpy(one.mutableData(),
                  all.data() + place(step, op.getReversed()[i], all.bytes()),
                  one.bytes());
      arguments.push_back(std::move(one));
    }
    llvm::append_range(arguments, call.in.drop_front(states + sequences));
    Results next = evaluateBlock(op.getBody().front(), arguments, call.context);
    if (!next)
      return next.takeError();
    for (size_t i = 0; i < next->size(); ++i) {
      if (i < states) {
        results[i] = (*next)[i];
        continue;
      }
      HostTensor &all = results[i];
      std::memcpy(all.mutableData() + place(step,
                                            op.getReversedOutputs()[i - states],
                                            all.bytes()),
                  (*next)[i].data(), (*next)[i].bytes());
    }
  }
  return results;
}

} // namespace

std::optional<Results> evaluateComposite(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](SoftmaxOp op) { return softmax(op, call); })
      .Case([&](LayerNormOp op) { return layerNorm(op, call); })
      .Case([&](AttentionOp op) { return attention(op, call); })
      .Case([&](PagedAttentionOp op) { return pagedAttention(op, call); })
      .Case([&](RopeOp op) { return rope(op, call); })
      .Case([&](GroupedMatmulOp op) { return groupedMatmul(op, call); })
      .Case([&](RecurrenceOp op) { return recurrence(op, call); })
      .Case([&](PackedDotOp op) { return packedDot(op, call); })
      .Case([&](ScaledDotOp op) { return scaledDot(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
