#include "serving/engine/ModelRunner.h"
#include "serving/engine/StepSizes.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <array>
#include <sys/mman.h>
#include <utility>

namespace knapper::serving {

void StepBatch::clear() {
  for (auto *list :
       {&tokens, &position, &sequence, &block, &offset, &rows, &table, &source})
    list->clear();
  draws.clear();
  sequences = blocks = 0;
}

void StepBatch::add(int32_t token, int32_t place, int32_t row, int32_t itsBlock,
                    int32_t itsOffset) {
  tokens.push_back(token);
  position.push_back(place);
  sequence.push_back(row);
  block.push_back(itsBlock);
  offset.push_back(itsOffset);
  source.push_back(-1);
}

void StepBatch::setTable(std::span<const std::vector<int32_t> *const> lists) {
  sequences = static_cast<int64_t>(lists.size());
  size_t most = 1;
  for (const std::vector<int32_t> *list : lists)
    most = std::max(most, list->size());
  // Few widths, so that few sizes are ever planned for.
  size_t width = 4;
  while (width < most)
    width *= 2;
  blocks = static_cast<int64_t>(width);
  table.assign(lists.size() * width, 0);
  for (size_t i = 0; i < lists.size(); ++i)
    std::copy(lists[i]->begin(), lists[i]->end(),
              table.begin() + static_cast<long>(i * width));
  if (rows.empty()) // no size is 0
    rows.push_back(0);
}

Expected<std::unique_ptr<ModelRunner>>
ModelRunner::create(std::shared_ptr<Module> module,
                    std::shared_ptr<Device> device, const PoolShape &shape,
                    int64_t numBlocks, int64_t vocabulary, bool bestTokens,
                    std::unique_ptr<DeviceWeights> weights) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner);
  runner->module = std::move(module);
  runner->device = std::move(device);
  runner->shape = shape;
  runner->numBlocks = numBlocks;
  runner->vocabulary = vocabulary;
  runner->bestTokens = bestTokens;
  runner->weights = std::move(weights);
  runner->apart = !runner->device->addressesHost();
  TRY(runner->allocate());
  // What no queue takes computes in the memory of its caller.
  bool queued = StepQueue::isFor(*runner->device);
  if (runner->apart && !queued)
    return userError("has memory of its own and no streams, so it serves no "
                     "models",
                     "the device", "another device");
  if (queued) {
    ASSIGN_OR_RETURN(runner->steps, StepQueue::create(runner->device));
    if (!bestTokens)
      return internalError("does not say its best tokens",
                           "the program of a device that computes beside");
  }
  return runner;
}

Status ModelRunner::allocate() {
  if (apart)
    ++numBlocks; // the one that nobody has
  memoryBytes = static_cast<size_t>(shape.blockBytes() * numBlocks);
  if (apart) {
    ASSIGN_OR_RETURN(pools, device->allocate(memoryBytes, MemoryKind::device));
    ASSIGN_OR_RETURN(queue, device->createQueue({}));
    memory = pools->address();
    return success();
  }
  void *mapped = mmap(nullptr, memoryBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return deviceError(
        cat("no memory for ", memoryBytes >> 20, " MB of keys and values"),
        "kvMemoryBytes", "a smaller pool");
  memory = mapped;
  return success();
}

/// A wish, and not before the first step: that touches the beginning of each
/// pool, and to clear a huge page for each takes longer than the step. What is
/// there in small pages by now the system gathers by itself.
void ModelRunner::wishHugePages() {
  if (!apart && !std::exchange(wishedHugePages, true))
    madvise(memory, memoryBytes, MADV_HUGEPAGE);
}

ModelRunner::~ModelRunner() {
  if (memory && !apart)
    munmap(memory, memoryBytes);
}

const StepBatch &ModelRunner::rounded(const StepBatch &batch) {
  if (!apart)
    return batch;
  padded = batch;
  size_t tokens = roundedSize(batch.tokens.size());
  padded.tokens.resize(tokens, 0);
  padded.position.resize(tokens, -1);
  padded.sequence.resize(tokens, 0);
  padded.block.resize(tokens, static_cast<int32_t>(numBlocks - 1));
  padded.offset.resize(tokens, 0);
  padded.source.resize(tokens, -1);
  padded.rows.resize(roundedSize(batch.rows.size()), batch.rows.back());
  padded.sequences =
      static_cast<int64_t>(roundedSize(static_cast<size_t>(batch.sequences)));
  padded.table.resize(static_cast<size_t>(padded.sequences * batch.blocks), 0);
  return padded;
}

Status ModelRunner::reserveLogits(int64_t rows) {
  auto bytes = static_cast<uint64_t>(rows * vocabulary) * sizeof(float);
  if (deviceLogits && deviceLogits->bytes() >= bytes)
    return success();
  TRY(steps->finish()); // the device may write the old ones
  deviceLogits.reset();
  ASSIGN_OR_RETURN(deviceLogits, device->allocate(bytes, MemoryKind::device));
  return success();
}

/// A size that stays.
int64_t ModelRunner::roomForRows() const {
  return static_cast<int64_t>(deviceLogits->bytes() / sizeof(float)) /
         vocabulary;
}

Status ModelRunner::runProgram(const StepBatch &batch,
                               std::span<const int32_t *const> numbers,
                               float *logits, const RunOptions &options) {
  auto count = static_cast<int64_t>(batch.tokens.size()),
       rows = static_cast<int64_t>(batch.rows.size()),
       drawn = steps ? 2 * steps->capacity() : rows;
  std::array<int64_t, 1> countShape{count}, rowShape{rows}, drawnShape{drawn};
  std::array<int64_t, 2> tableShape{batch.sequences, batch.blocks},
      logitShape{rows, vocabulary};
  std::array<int64_t, 4> poolShape{numBlocks, shape.keyHeads, shape.blockTokens,
                                   shape.headWidth};
  std::vector<knapper_tensor> inputs, outputs;
  auto add = [&](std::span<const int64_t> dims) {
    size_t size = 1;
    for (int64_t dim : dims)
      size *= static_cast<size_t>(dim);
    // The program only reads its inputs; the type of a tensor is for both.
    inputs.push_back({const_cast<int32_t *>(numbers[inputs.size()]),
                      size * sizeof(int32_t), KNAPPER_I32,
                      static_cast<int32_t>(dims.size()), dims.data()});
  };
  for (int i = 0; i < 5; ++i)
    add(countShape);
  add(tableShape);
  add(rowShape);
  outputs.push_back({logits,
                     static_cast<size_t>(rows * vocabulary) * sizeof(float),
                     KNAPPER_F32, 2, logitShape.data()});
  if (bestTokens) {
    auto size = static_cast<size_t>(rows);
    add(countShape);
    bestIds.resize(steps ? 0 : size);
    bestLogprobs.resize(steps ? 0 : size);
    // Without a queue no token has a source.
    inputs.push_back({steps ? steps->drawn() : bestIds.data(),
                      static_cast<size_t>(drawn) * sizeof(int64_t), KNAPPER_I64,
                      1, drawnShape.data()});
    outputs.push_back({steps ? steps->best() : bestIds.data(),
                       size * sizeof(int64_t), KNAPPER_I64, 1,
                       rowShape.data()});
    outputs.push_back({steps ? steps->logprobs() : bestLogprobs.data(),
                       size * sizeof(float), KNAPPER_F32, 1, rowShape.data()});
  }
  size_t bytes = memoryBytes / static_cast<size_t>(2 * shape.layers);
  for (int64_t i = 0; i < 2 * shape.layers; ++i) {
    knapper_tensor pool{
        static_cast<std::byte *>(memory) + static_cast<size_t>(i) * bytes,
        bytes, static_cast<knapper_dtype>(shape.dtype), 4, poolShape.data()};
    inputs.push_back(pool);
    outputs.push_back(pool);
  }
  if (weights)
    inputs.insert(inputs.end(), weights->tensors().begin(),
                  weights->tensors().end());
  Status status = module->run(inputs, outputs, result, options);
  wishHugePages();
  return status;
}

Status ModelRunner::submit(const StepBatch &given) {
  fetchedRows.clear();
  if (steps) {
    // Of a step that is not submitted nothing is left on the device.
    auto leaveNone = [&] { (void)steps->finish(); };
    try {
      Status status = submitQueued(given);
      if (!status)
        leaveNone();
      return status;
    } catch (const std::bad_alloc &) {
      leaveNone();
      // What the sampler reported of them may be lost.
      distrusted = streamSampler ? steps->pending() : 0;
      throw;
    }
  }
  const StepBatch &batch = rounded(given);
  hostLogits.resize(batch.rows.size() * static_cast<size_t>(vocabulary));
  std::array<const int32_t *, 7> numbers{
      batch.tokens.data(), batch.position.data(), batch.sequence.data(),
      batch.block.data(),  batch.offset.data(),   batch.table.data(),
      batch.rows.data()};
  return runProgram(batch, numbers, hostLogits.data(), {});
}

Status ModelRunner::submitQueued(const StepBatch &given) {
  samplerFailed = false;
  Status status = queueStep(rounded(given), drawsInStream());
  if (status || !samplerFailed)
    return status;
  // Tokens are drawn all the same, between two steps. A device that is lost
  // says so here.
  TRY(steps->finish());
  // The error may be a status that the step before left, or hide one.
  distrustDraws(status.error());
  Status again = queueStep(rounded(given), false);
  // Its tokens may be those draws.
  if (distrusted > 0)
    distrusted = steps->pending();
  return again;
}

Status ModelRunner::queueStep(const StepBatch &batch, bool draws) {
  auto ofSampler = [&](Status status) {
    samplerFailed |= !status;
    return status;
  };
  auto rows = static_cast<int64_t>(batch.rows.size());
  auto count = static_cast<size_t>(rows * vocabulary);
  float *logits = nullptr;
  if (apart) {
    TRY(reserveLogits(rows));
    logits = static_cast<float *>(deviceLogits->address());
  } else {
    if (hostLogits.size() < count) {
      TRY(steps->finish());
      hostLogits.resize(count);
    }
    logits = hostLogits.data();
  }
  if (streamSampler) {
    TRY(steps->reserveRows(rows));
    if (draws)
      TRY(ofSampler(streamSampler->reserve(batch.draws, *steps)));
    // The step before may have had draws where this one has none any more.
    auto behind = static_cast<int32_t>(steps->capacity());
    for (int32_t &source : padded.source)
      if (source < -1)
        source = behind + StepBatch::sourceOfDraw(source);
  }
  std::vector<const std::vector<int32_t> *> lists{
      &batch.tokens, &batch.position, &batch.sequence, &batch.block,
      &batch.offset, &batch.table,    &batch.rows,     &batch.source};
  constexpr size_t ofProgram = 8;
  if (draws)
    for (const auto *list : streamSampler->padded.lists())
      lists.push_back(list);
  TRY(steps->begin(lists, rows));
  std::array<const int32_t *, ofProgram + StepDraws::kLists> numbers;
  for (size_t i = 0; i < lists.size(); ++i)
    numbers[i] = static_cast<const int32_t *>(steps->list(i));
  RunOptions options;
  options.stream = steps->stream();
  std::array<std::span<const std::byte>, 5> own;
  if (apart) {
    auto [given, results] = steps->memory();
    own = {std::span(static_cast<const std::byte *>(memory), memoryBytes),
           std::span(reinterpret_cast<const std::byte *>(logits),
                     deviceLogits->bytes()),
           given, results};
    if (weights)
      own[4] = weights->memory();
    options.deviceMemory = own;
  }
  TRY(runProgram(batch, std::span(numbers).first(ofProgram), logits, options));
  if (draws) {
    StreamSampler::Logits drawn{logits, roomForRows(), own[1]};
    TRY(ofSampler(streamSampler->submit(std::span(numbers).subspan(ofProgram),
                                        drawn, *steps)));
    TRY(streamSampler->keep(drawn, *steps));
  }
  return steps->end();
}

Status ModelRunner::wait() {
  if (!steps)
    return success();
  drawsAreNone = false;
  Status ended = steps->wait();
  bool wereNone = distrusted > 0;
  distrusted -= wereNone;
  TRY(std::move(ended));
  drawsAreNone = wereNone;
  Status computed = module->checkStreams();
  if (streamSampler)
    if (Status drawn = streamSampler->check(); !drawn) {
      distrustDraws(drawn.error());
      drawsAreNone = true;
    }
  return computed;
}

/// A status does not say which step's draws it is of, and the step behind may
/// have begun: the draws of all that were submitted are none.
void ModelRunner::distrustDraws(const Error &error) {
  distrusted = steps->pending();
  if (!std::exchange(failedInStream, true))
    log(LogLevel::warning,
        cat("the device draws no tokens behind its steps: ", error.message()));
}

Status ModelRunner::fetch(std::span<const int64_t> rows) {
  fetchedRows.clear();
  if (!apart || rows.empty())
    return success();
  uint64_t rowBytes = static_cast<uint64_t>(vocabulary) * sizeof(float),
           bytes = rows.size() * rowBytes;
  if (!fetchedLogits || fetchedLogits->bytes() < bytes) {
    fetchedLogits.reset();
    ASSIGN_OR_RETURN(fetchedLogits, device->allocate(bytes, MemoryKind::host));
  }
  auto *to = static_cast<std::byte *>(fetchedLogits->address());
  auto *from = static_cast<const std::byte *>(deviceLogits->address());
  TRY(queue->begin());
  Status status;
  for (size_t i = 0, end = 0; i < rows.size() && status; i = end) {
    // Rows that follow one another are one copy.
    end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1)
      ++end;
    status = queue->download(to + i * rowBytes,
                             from + static_cast<uint64_t>(rows[i]) * rowBytes,
                             (end - i) * rowBytes);
  }
  Status finished = queue->finish();
  TRY(std::move(status));
  TRY(std::move(finished));
  fetchedRows.assign(rows.begin(), rows.end());
  return success();
}

Expected<std::span<float>> ModelRunner::logits(int64_t first, int64_t count) {
  auto from = static_cast<size_t>(first * vocabulary),
       size = static_cast<size_t>(count * vocabulary);
  if (!apart)
    return std::span(hostLogits).subspan(from, size);
  auto at = std::lower_bound(fetchedRows.begin(), fetchedRows.end(), first);
  if (count == 1 && at != fetchedRows.end() && *at == first)
    return std::span(static_cast<float *>(fetchedLogits->address()) +
                         (at - fetchedRows.begin()) * vocabulary,
                     size);
  hostLogits.resize(size);
  TRY(queue->begin());
  Status status = queue->download(
      hostLogits.data(),
      static_cast<const float *>(deviceLogits->address()) + from,
      size * sizeof(float));
  Status end = queue->finish();
  TRY(std::move(status));
  TRY(std::move(end));
  return std::span(hostLogits);
}

Expected<std::span<const RowSummary>>
ModelRunner::summarise(std::span<const DeviceSampler::Draw> draws) {
  const auto *bytes = static_cast<const std::byte *>(deviceLogits->address());
  return sampler->run(draws, reinterpret_cast<const float *>(bytes),
                      roomForRows(), {bytes, deviceLogits->bytes()});
}

Expected<std::span<float>> ModelRunner::drawnRow(size_t draw) {
  hostLogits.resize(static_cast<size_t>(vocabulary));
  TRY(queue->begin());
  Status status =
      queue->download(hostLogits.data(), streamSampler->keptRow(draw, *steps),
                      hostLogits.size() * sizeof(float));
  Status end = queue->finish();
  TRY(std::move(status));
  TRY(std::move(end));
  return std::span(hostLogits);
}

Status ModelRunner::probe() {
  QueueOptions options;
  options.threads = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> fresh,
                   device->createQueue(options));
  Status begun = fresh->begin();
  Status ended = fresh->finish();
  TRY(std::move(begun));
  return ended;
}

std::optional<ModelRunner::Best> ModelRunner::best(int64_t row) const {
  if (!bestTokens)
    return std::nullopt;
  auto at = static_cast<size_t>(row);
  if (steps)
    return Best{static_cast<int32_t>(steps->bestToken(at)),
                steps->bestLogprob(at)};
  return Best{static_cast<int32_t>(bestIds[at]), bestLogprobs[at]};
}

} // namespace knapper::serving
