#include "serving/engine/DeviceSampler.h"

#include "serving/engine/StepSizes.h"
#include "serving/models/SamplerProgram.h"

#include <algorithm>
#include <array>

namespace knapper::serving {
namespace {

/// The list as a tensor of these dims; it gets their size.
template <typename T>
knapper_tensor tensor(std::vector<T> &list, knapper_dtype dtype,
                      std::span<const int64_t> dims) {
  size_t size = 1;
  for (int64_t dim : dims)
    size *= static_cast<size_t>(dim);
  list.resize(size);
  return {list.data(), size * sizeof(T), dtype,
          static_cast<int32_t>(dims.size()), dims.data()};
}

} // namespace

Expected<std::unique_ptr<DeviceSampler>>
DeviceSampler::create(std::shared_ptr<Module> plain,
                      std::shared_ptr<Module> changing, Device &device,
                      int64_t vocabulary) {
  std::unique_ptr<DeviceSampler> sampler(new DeviceSampler);
  sampler->modules[false] = std::move(plain);
  sampler->modules[true] = std::move(changing);
  sampler->vocabulary = vocabulary;
  ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceBuffer> row,
      device.allocate(static_cast<uint64_t>(vocabulary) * sizeof(float),
                      MemoryKind::device));
  std::array<Draw, 2> draws{Draw{0, 1, 0}, Draw{0, 1, 0, {{0}}}};
  TRY(sampler->run(
      draws, static_cast<const float *>(row->address()), 1,
      {static_cast<const std::byte *>(row->address()), row->bytes()}));
  return sampler;
}

int64_t DeviceSampler::knownLogits() const { return summaryTokens(vocabulary); }
int64_t DeviceSampler::knownBest() const { return bestTokens(vocabulary); }

Status DeviceSampler::run(std::span<const Draw> draws, const float *logits,
                          int64_t logitRows,
                          std::span<const std::byte> memory) {
  std::vector<const Draw *> by[2];
  places.clear();
  for (const Draw &draw : draws) {
    bool changing = draw.isChanged();
    places.emplace_back(changing, by[changing].size());
    by[changing].push_back(&draw);
  }
  for (bool changing : {false, true})
    if (!by[changing].empty())
      TRY(run(by[changing], changing, {logits, logitRows, memory}));
  return success();
}

Status DeviceSampler::run(std::span<const Draw *const> draws, bool changing,
                          const Logits &logits) {
  size_t count = roundedSize(draws.size());
  auto draw = [&](size_t i) -> const Draw & {
    return *draws[std::min(i, draws.size() - 1)]; // what is added is the last
  };
  // Rows have as many changes as the one that has most: what is added does
  // again what the first does, or nothing.
  size_t changes = 1;
  for (const Draw *one : draws)
    changes = std::max(changes, one->changes.size());
  changes = std::bit_ceil(changes);
  for (auto *list : {&scales, &shares, &biases, &repetitions, &penalties})
    list->clear();
  rows.clear();
  tokens.clear();
  auto words = static_cast<size_t>((vocabulary + 31) / 32);
  masks.assign(changing ? count * words : 0, ~uint32_t(0));
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(static_cast<int32_t>(draw(i).row));
    scales.push_back(draw(i).scale);
    shares.push_back(draw(i).share);
    if (!changing)
      continue;
    if (std::span<const uint32_t> allowed = draw(i).allowed; !allowed.empty()) {
      auto *mask = masks.data() + i * words;
      size_t given = std::min(words, allowed.size());
      std::copy_n(allowed.data(), given, mask);
      std::fill(mask + given, mask + words, 0);
    }
    const std::vector<LogitChange> &list = draw(i).changes;
    for (size_t k = 0; k < changes; ++k) {
      LogitChange change = list.empty()      ? LogitChange{0}
                           : k < list.size() ? list[k]
                                             : list[0];
      tokens.push_back(change.token);
      biases.push_back(change.bias);
      repetitions.push_back(change.repetition);
      penalties.push_back(change.penalty);
    }
  }
  auto n = static_cast<int64_t>(count);
  std::array<int64_t, 1> each{n};
  std::array<int64_t, 2> known{n, knownLogits()}, best{n, knownBest()},
      all{logits.rows, vocabulary}, mask{n, static_cast<int64_t>(words)},
      change{n, static_cast<int64_t>(changes)};
  // The program only reads its inputs; the type of a tensor is for both.
  std::vector<knapper_tensor> inputs{
      {const_cast<float *>(logits.address),
       static_cast<size_t>(logits.rows * vocabulary) * sizeof(float),
       KNAPPER_F32, 2, all.data()},
      tensor(rows, KNAPPER_I32, each),
      tensor(scales, KNAPPER_F32, each),
      tensor(shares, KNAPPER_F32, each)};
  Results &to = results[changing];
  std::vector<knapper_tensor> outputs{
      tensor(to.values, KNAPPER_F32, known),
      tensor(to.ids, KNAPPER_I64, known),
      tensor(to.logSums, KNAPPER_F32, each),
      tensor(to.weightSums, KNAPPER_F32, each),
      tensor(to.drawn, KNAPPER_I64, each),
      tensor(to.drawnLogits, KNAPPER_F32, each)};
  if (changing) {
    inputs.push_back(tensor(masks, KNAPPER_I32, mask));
    inputs.push_back(tensor(tokens, KNAPPER_I32, change));
    for (auto *list : {&biases, &repetitions, &penalties})
      inputs.push_back(tensor(*list, KNAPPER_F32, change));
    outputs.push_back(tensor(to.given, KNAPPER_F32, known));
    outputs.push_back(tensor(to.drawnGiven, KNAPPER_F32, each));
    outputs.push_back(tensor(to.bestGiven, KNAPPER_F32, best));
    outputs.push_back(tensor(to.bestIds, KNAPPER_I64, best));
  }
  RunOptions options;
  std::array<std::span<const std::byte>, 1> own{logits.memory};
  options.deviceMemory = own;
  return modules[changing]->run(inputs, outputs, result, options);
}

RowSummary DeviceSampler::summary(size_t draw) const {
  auto [changing, i] = places[draw];
  const Results &from = results[changing];
  auto known = static_cast<size_t>(knownLogits()),
       best = static_cast<size_t>(knownBest());
  RowSummary row;
  row.vocabulary = vocabulary;
  row.values = std::span(from.values).subspan(i * known, known);
  row.ids = std::span(from.ids).subspan(i * known, known);
  row.weightSum = from.weightSums[i];
  row.drawn = from.drawn[i];
  row.drawnLogit = from.drawnLogits[i];
  row.logSum = from.logSums[i];
  if (changing) {
    row.given = std::span(from.given).subspan(i * known, known);
    row.drawnGiven = from.drawnGiven[i];
    row.bestGiven = std::span(from.bestGiven).subspan(i * best, best);
    row.bestIds = std::span(from.bestIds).subspan(i * best, best);
  } else {
    row.given = row.values;
    row.drawnGiven = row.drawnLogit;
    row.bestGiven = row.values.first(best);
    row.bestIds = row.ids.first(best);
  }
  return row;
}

} // namespace knapper::serving
