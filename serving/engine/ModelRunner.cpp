#include "serving/engine/ModelRunner.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <array>
#include <sys/mman.h>

namespace knapper::serving {

void StepBatch::clear() {
  for (auto *list :
       {&tokens, &position, &sequence, &block, &offset, &rows, &table})
    list->clear();
  sequences = blocks = 0;
}

void StepBatch::add(int32_t token, int32_t place, int32_t row, int32_t itsBlock,
                    int32_t itsOffset) {
  tokens.push_back(token);
  position.push_back(place);
  sequence.push_back(row);
  block.push_back(itsBlock);
  offset.push_back(itsOffset);
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
ModelRunner::create(std::shared_ptr<Module> module, const PoolShape &shape,
                    int64_t numBlocks, int64_t vocabulary) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner);
  runner->module = std::move(module);
  runner->shape = shape;
  runner->numBlocks = numBlocks;
  runner->vocabulary = vocabulary;
  runner->memoryBytes = static_cast<size_t>(shape.blockBytes() * numBlocks);
  void *memory = mmap(nullptr, runner->memoryBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return deviceError(cat("no memory for ", runner->memoryBytes >> 20,
                           " MB of keys and values"),
                       "kvMemoryBytes", "a smaller pool");
  madvise(memory, runner->memoryBytes, MADV_HUGEPAGE); // a wish
  runner->memory = memory;
  return runner;
}

ModelRunner::~ModelRunner() {
  if (memory)
    munmap(memory, memoryBytes);
}

Expected<std::span<float>> ModelRunner::run(const StepBatch &batch) {
  auto count = static_cast<int64_t>(batch.tokens.size()),
       rows = static_cast<int64_t>(batch.rows.size());
  std::array<int64_t, 1> countShape{count}, rowShape{rows};
  std::array<int64_t, 2> tableShape{batch.sequences, batch.blocks},
      logitShape{rows, vocabulary};
  std::array<int64_t, 4> poolShape{numBlocks, shape.keyHeads, shape.blockTokens,
                                   shape.headWidth};
  auto numbers = [](const std::vector<int32_t> &list,
                    std::span<const int64_t> dims) {
    // The program only reads its inputs; the type of a tensor is for both.
    return knapper_tensor{const_cast<int32_t *>(list.data()),
                          list.size() * sizeof(int32_t), KNAPPER_I32,
                          static_cast<int32_t>(dims.size()), dims.data()};
  };
  std::vector<knapper_tensor> inputs, outputs;
  for (const auto *list : {&batch.tokens, &batch.position, &batch.sequence,
                           &batch.block, &batch.offset})
    inputs.push_back(numbers(*list, countShape));
  inputs.push_back(numbers(batch.table, tableShape));
  inputs.push_back(numbers(batch.rows, rowShape));
  logits.resize(static_cast<size_t>(rows * vocabulary));
  outputs.push_back({logits.data(), logits.size() * sizeof(float), KNAPPER_F32,
                     2, logitShape.data()});
  size_t bytes = memoryBytes / static_cast<size_t>(2 * shape.layers);
  for (int64_t i = 0; i < 2 * shape.layers; ++i) {
    knapper_tensor pool{static_cast<std::byte *>(memory) +
                            static_cast<size_t>(i) * bytes,
                        bytes, KNAPPER_F32, 4, poolShape.data()};
    inputs.push_back(pool);
    outputs.push_back(pool);
  }
  TRY(module->run(inputs, outputs, result));
  return std::span<float>(logits);
}

} // namespace knapper::serving
