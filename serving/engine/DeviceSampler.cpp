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
  sampler->plain = std::move(plain);
  sampler->changing = std::move(changing);
  sampler->vocabulary = vocabulary;
  std::vector<float> zeros(static_cast<size_t>(vocabulary));
  size_t bytes = zeros.size() * sizeof(float);
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> row,
                   device.allocate(bytes, MemoryKind::device));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, device.createQueue({}));
  TRY(queue->begin());
  // The buffer may be larger.
  Status uploaded = queue->upload(row->address(), zeros.data(), bytes);
  Status finished = queue->finish();
  TRY(std::move(uploaded));
  TRY(std::move(finished));
  Draw asIs{.row = 0}, changed = asIs;
  changed.changes.push_back({.token = 0});
  std::array<Draw, 2> draws{asIs, changed};
  auto made = sampler->run(
      draws, static_cast<const float *>(row->address()), 1,
      {static_cast<const std::byte *>(row->address()), row->bytes()});
  if (!made)
    return made.takeError();
  return sampler;
}

int64_t DeviceSampler::knownLogits() const { return summaryTokens(vocabulary); }
int64_t DeviceSampler::knownBest() const { return summaryLogprobs(vocabulary); }

Expected<std::span<const RowSummary>>
DeviceSampler::run(std::span<const Draw> draws, const float *logits,
                   int64_t logitRows, std::span<const std::byte> memory) {
  // Summaries refer to results, which stay where they are.
  results.resize(2 * (draws.size() / kMostRows + 1));
  summaries.assign(draws.size(), {});
  size_t group = 0;
  for (bool changes : {false, true}) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < draws.size(); ++i)
      if (draws[i].isChanged() == changes)
        chosen.push_back(i);
    for (size_t first = 0; first < chosen.size(); first += kMostRows) {
      auto part = std::span(chosen).subspan(
          first, std::min(kMostRows, chosen.size() - first));
      std::vector<const Draw *> together;
      for (size_t i : part)
        together.push_back(&draws[i]);
      Results &to = results[group++];
      TRY(runTogether(together, changes, {logits, logitRows, memory}, to));
      for (size_t row = 0; row < part.size(); ++row)
        summaries[part[row]] = summaryOf(to, row, changes);
    }
  }
  return std::span<const RowSummary>(summaries);
}

/// 16, 128, 1,024: few numbers of changes are ever planned for.
static size_t roundedChanges(size_t count) {
  size_t rounded = 16;
  while (rounded < count)
    rounded *= 8;
  return rounded;
}

Status DeviceSampler::runTogether(std::span<const Draw *const> draws,
                                  bool changes, const Logits &logits,
                                  Results &to) {
  size_t count = roundedSize(draws.size());
  auto draw = [&](size_t i) -> const Draw & {
    return *draws[std::min(i, draws.size() - 1)]; // what is added is the last
  };
  // Rows have as many changes as the one that has most: what is added does
  // again what the first does, or nothing.
  size_t most = 1;
  for (const Draw *one : draws)
    most = std::max(most, one->changes.size());
  most = roundedChanges(most);
  for (auto *list :
       {&scales, &shares, &topPs, &depths, &biases, &repetitions, &penalties})
    list->clear();
  rows.clear();
  topKs.clear();
  tokens.clear();
  auto words = static_cast<size_t>((vocabulary + 31) / 32);
  masks.assign(changes ? count * words : 0, ~uint32_t(0));
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(static_cast<int32_t>(draw(i).row));
    const DrawNumbers &numbers = draw(i).numbers;
    scales.push_back(numbers.scale);
    shares.push_back(numbers.share);
    if (!changes) {
      topKs.push_back(numbers.topK);
      topPs.push_back(numbers.topP);
      depths.push_back(numbers.depth);
      continue;
    }
    if (std::span<const uint32_t> allowed = draw(i).allowed; !allowed.empty()) {
      auto *mask = masks.data() + i * words;
      size_t given = std::min(words, allowed.size());
      std::copy_n(allowed.data(), given, mask);
      std::fill(mask + given, mask + words, 0);
    }
    const std::vector<LogitChange> &list = draw(i).changes;
    for (size_t k = 0; k < most; ++k) {
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
      change{n, static_cast<int64_t>(most)};
  // The program only reads its inputs; the type of a tensor is for both.
  std::vector<knapper_tensor> inputs{
      {const_cast<float *>(logits.address),
       static_cast<size_t>(logits.rows * vocabulary) * sizeof(float),
       KNAPPER_F32, 2, all.data()},
      tensor(rows, KNAPPER_I32, each),
      tensor(scales, KNAPPER_F32, each),
      tensor(shares, KNAPPER_F32, each)};
  std::vector<knapper_tensor> outputs{
      tensor(to.values, KNAPPER_F32, known),
      tensor(to.ids, KNAPPER_I64, known),
      tensor(to.logSums, KNAPPER_F32, each),
      tensor(to.weightSums, KNAPPER_F32, each),
      tensor(to.drawn, KNAPPER_I64, each),
      tensor(to.drawnMargins, KNAPPER_F32, each),
      tensor(to.drawnLogits, KNAPPER_F32, each)};
  if (changes) {
    inputs.push_back(tensor(masks, KNAPPER_I32, mask));
    inputs.push_back(tensor(tokens, KNAPPER_I32, change));
    for (auto *list : {&biases, &repetitions, &penalties})
      inputs.push_back(tensor(*list, KNAPPER_F32, change));
    outputs.push_back(tensor(to.given, KNAPPER_F32, known));
    outputs.push_back(tensor(to.drawnGiven, KNAPPER_F32, each));
    outputs.push_back(tensor(to.bestGiven, KNAPPER_F32, best));
    outputs.push_back(tensor(to.bestIds, KNAPPER_I64, best));
  } else {
    inputs.push_back(tensor(topKs, KNAPPER_I32, each));
    inputs.push_back(tensor(topPs, KNAPPER_F32, each));
    inputs.push_back(tensor(depths, KNAPPER_F32, each));
    outputs.push_back(tensor(to.guesses, KNAPPER_I64, each));
  }
  RunOptions options;
  std::array<std::span<const std::byte>, 1> own{logits.memory};
  options.deviceMemory = own;
  return (changes ? changing : plain)->run(inputs, outputs, result, options);
}

RowSummary DeviceSampler::summaryOf(const Results &from, size_t i,
                                    bool changes) const {
  auto known = static_cast<size_t>(knownLogits()),
       best = static_cast<size_t>(knownBest());
  RowSummary row;
  row.vocabulary = vocabulary;
  row.values = std::span(from.values).subspan(i * known, known);
  row.ids = std::span(from.ids).subspan(i * known, known);
  row.weightSum = from.weightSums[i];
  row.drawn = from.drawn[i];
  row.drawnMargin = from.drawnMargins[i];
  row.drawnLogit = from.drawnLogits[i];
  row.logSum = from.logSums[i];
  if (changes) {
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
