#include "serving/engine/StreamSampler.h"

#include "serving/engine/StepSizes.h"
#include "serving/models/SamplerProgram.h"

#include <bit>
#include <cstring>

namespace knapper::serving {

void StepDraws::clear() {
  for (auto *list : {&rows, &scales, &shares, &topKs, &topPs, &depths})
    list->clear();
}

void StepDraws::add(int32_t row, const DrawNumbers &numbers) {
  auto bits = [](float value) { return std::bit_cast<int32_t>(value); };
  rows.push_back(row);
  scales.push_back(bits(numbers.scale));
  shares.push_back(bits(numbers.share));
  topKs.push_back(numbers.topK);
  topPs.push_back(bits(numbers.topP));
  depths.push_back(bits(numbers.depth));
}

StreamSampler::StreamSampler(std::shared_ptr<Device> device,
                             std::shared_ptr<Module> program,
                             int64_t vocabulary)
    : device(std::move(device)), program(std::move(program)),
      vocabulary(vocabulary), known(summaryTokens(vocabulary)), layout{} {
  size_t end = 0;
  auto list = [&](size_t bytesOfARow) {
    return std::exchange(end, end + kTogether * bytesOfARow);
  };
  auto width = static_cast<size_t>(known);
  layout.ids = list(width * sizeof(int64_t));
  layout.drawn = list(sizeof(int64_t));
  layout.tokens = list(sizeof(int64_t));
  layout.values = list(width * sizeof(float));
  layout.logSums = list(sizeof(float));
  layout.weightSums = list(sizeof(float));
  layout.margins = list(sizeof(float));
  layout.logits = list(sizeof(float));
  layout.bytes = end;
}

int64_t StreamSampler::memoryBytes(int64_t draws, int64_t vocabulary) {
  auto rows = static_cast<int64_t>(std::bit_ceil(static_cast<size_t>(draws)));
  return static_cast<int64_t>(StepQueue::kMostSteps) * rows * vocabulary *
         static_cast<int64_t>(sizeof(float));
}

Status StreamSampler::reserve(const StepDraws &draws, StepQueue &steps) {
  padded = draws;
  drawnRows = draws.rows;
  if (draws.size() == 0)
    return success();
  // What is added is the last draw again.
  size_t whole = draws.size() / kTogether * kTogether;
  size_t count =
      whole + (draws.size() > whole ? roundedSize(draws.size() - whole) : 0);
  for (auto *list : {&padded.rows, &padded.scales, &padded.shares,
                     &padded.topKs, &padded.topPs, &padded.depths})
    list->resize(count, list->back());
  size_t groups = std::bit_ceil((count + kTogether - 1) / kTogether);
  size_t bytes = groups * layout.bytes;
  if (!results || results->bytes() < bytes) {
    TRY(steps.finish()); // the device may write the old ones
    results.reset();
    ASSIGN_OR_RETURN(results, device->allocate(bytes, MemoryKind::device));
  }
  // The step before has the other slot.
  Slot &slot = slots[steps.nextSlot()];
  if (!slot.results || slot.results->bytes() < bytes) {
    slot.results.reset();
    ASSIGN_OR_RETURN(slot.results, device->allocate(bytes, MemoryKind::host));
  }
  size_t rowBytes = static_cast<size_t>(vocabulary) * sizeof(float);
  if (!slot.rows || slot.rows->bytes() < draws.size() * rowBytes) {
    slot.rows.reset();
    ASSIGN_OR_RETURN(slot.rows,
                     device->allocate(std::bit_ceil(draws.size()) * rowBytes,
                                      MemoryKind::device));
  }
  return success();
}

Status StreamSampler::submit(std::span<const int32_t *const> lists,
                             const Logits &logits, StepQueue &steps) {
  if (drawnRows.empty())
    return success();
  size_t groups = (padded.size() + kTogether - 1) / kTogether;
  for (size_t group = 0; group < groups; ++group)
    TRY(runGroup(group, lists, logits, steps));
  return success();
}

Status StreamSampler::keep(const Logits &logits, StepQueue &steps) {
  if (drawnRows.empty())
    return success();
  size_t groups = (padded.size() + kTogether - 1) / kTogether;
  auto *base = static_cast<std::byte *>(results->address());
  for (size_t group = 0; group < groups; ++group) {
    size_t first = group * kTogether,
           count = std::min(kTogether, padded.size() - first);
    TRY(steps.copy(static_cast<int64_t *>(steps.sampled()) + first,
                   base + group * layout.bytes + layout.tokens,
                   count * sizeof(int64_t)));
  }
  Slot &slot = slots[steps.nextSlot()];
  TRY(steps.copy(slot.results->address(), results->address(),
                 groups * layout.bytes));
  auto *to = static_cast<float *>(slot.rows->address());
  size_t end = 0;
  for (size_t i = 0; i < drawnRows.size(); i = end) {
    // Rows that follow one another are one copy.
    end = i + 1;
    while (end < drawnRows.size() && drawnRows[end] == drawnRows[end - 1] + 1)
      ++end;
    auto width = static_cast<size_t>(vocabulary);
    TRY(steps.copy(to + i * width,
                   logits.address + static_cast<size_t>(drawnRows[i]) * width,
                   (end - i) * width * sizeof(float)));
  }
  return success();
}

Status StreamSampler::runGroup(size_t group,
                               std::span<const int32_t *const> lists,
                               const Logits &logits, StepQueue &steps) {
  size_t first = group * kTogether;
  auto count = static_cast<int64_t>(std::min(kTogether, padded.size() - first));
  std::array<int64_t, 1> each{count};
  std::array<int64_t, 2> all{logits.rows, vocabulary}, best{count, known};
  auto *base =
      static_cast<std::byte *>(results->address()) + group * layout.bytes;
  auto tensor = [&](const void *data, knapper_dtype dtype, size_t size,
                    std::span<const int64_t> dims) {
    for (int64_t dim : dims)
      size *= static_cast<size_t>(dim);
    // The program only reads its inputs; the type of a tensor is for both.
    return knapper_tensor{const_cast<void *>(data), size, dtype,
                          static_cast<int32_t>(dims.size()), dims.data()};
  };
  auto given = [&](size_t list, knapper_dtype dtype) {
    return tensor(lists[list] + first, dtype, sizeof(int32_t), each);
  };
  auto floats = [&](size_t at, std::span<const int64_t> dims) {
    return tensor(base + at, KNAPPER_F32, sizeof(float), dims);
  };
  auto tokens = [&](size_t at, std::span<const int64_t> dims) {
    return tensor(base + at, KNAPPER_I64, sizeof(int64_t), dims);
  };
  std::array<knapper_tensor, 7> inputs{
      tensor(logits.address, KNAPPER_F32, sizeof(float), all),
      given(0, KNAPPER_I32),
      given(1, KNAPPER_F32),
      given(2, KNAPPER_F32),
      given(3, KNAPPER_I32),
      given(4, KNAPPER_F32),
      given(5, KNAPPER_F32)};
  std::array<knapper_tensor, 8> outputs{
      floats(layout.values, best),  tokens(layout.ids, best),
      floats(layout.logSums, each), floats(layout.weightSums, each),
      tokens(layout.drawn, each),   floats(layout.margins, each),
      floats(layout.logits, each),  tokens(layout.tokens, each)};
  RunOptions options;
  options.stream = steps.stream();
  auto [numbers, drawn] = steps.memory();
  std::array<std::span<const std::byte>, 3> own{
      logits.memory, numbers,
      std::span(static_cast<const std::byte *>(results->address()),
                results->bytes())};
  options.deviceMemory = own;
  return program->run(inputs, outputs, result, options);
}

const std::byte *StreamSampler::groupOf(size_t draw,
                                        const StepQueue &steps) const {
  const Slot &slot = slots[steps.waitedSlot()];
  return static_cast<const std::byte *>(slot.results->address()) +
         draw / kTogether * layout.bytes;
}

RowSummary StreamSampler::summary(size_t draw, const StepQueue &steps) const {
  const std::byte *group = groupOf(draw, steps);
  size_t place = draw % kTogether, width = static_cast<size_t>(known);
  auto floats = [&](size_t at) {
    return reinterpret_cast<const float *>(group + at);
  };
  auto tokens = [&](size_t at) {
    return reinterpret_cast<const int64_t *>(group + at);
  };
  RowSummary row;
  row.vocabulary = vocabulary;
  row.values = {floats(layout.values) + place * width, width};
  row.ids = {tokens(layout.ids) + place * width, width};
  row.weightSum = floats(layout.weightSums)[place];
  row.drawn = tokens(layout.drawn)[place];
  row.drawnMargin = floats(layout.margins)[place];
  row.drawnLogit = floats(layout.logits)[place];
  row.logSum = floats(layout.logSums)[place];
  auto most = static_cast<size_t>(summaryLogprobs(vocabulary));
  row.given = row.values;
  row.drawnGiven = row.drawnLogit;
  row.bestGiven = row.values.first(most);
  row.bestIds = row.ids.first(most);
  return row;
}

int64_t StreamSampler::token(size_t draw, const StepQueue &steps) const {
  const auto *tokens =
      reinterpret_cast<const int64_t *>(groupOf(draw, steps) + layout.tokens);
  return tokens[draw % kTogether];
}

const float *StreamSampler::keptRow(size_t draw, const StepQueue &steps) const {
  return static_cast<const float *>(slots[steps.waitedSlot()].rows->address()) +
         draw * static_cast<size_t>(vocabulary);
}

} // namespace knapper::serving
