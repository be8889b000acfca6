#include "serving/engine/DeviceSampler.h"

#include "serving/engine/StepSizes.h"

#include <array>

namespace knapper::serving {

Expected<std::unique_ptr<DeviceSampler>>
DeviceSampler::create(std::shared_ptr<Module> module, Device &device,
                      int64_t vocabulary, int64_t known) {
  std::unique_ptr<DeviceSampler> sampler(new DeviceSampler);
  sampler->module = std::move(module);
  sampler->vocabulary = vocabulary;
  sampler->known = known;
  ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceBuffer> row,
      device.allocate(static_cast<uint64_t>(vocabulary) * sizeof(float),
                      MemoryKind::device));
  constexpr Draw draw{0, 1, 0};
  TRY(sampler->run(
      {&draw, 1}, static_cast<const float *>(row->address()), 1,
      {static_cast<const std::byte *>(row->address()), row->bytes()}));
  return sampler;
}

Status DeviceSampler::run(std::span<const Draw> draws, const float *logits,
                          int64_t logitRows,
                          std::span<const std::byte> memory) {
  size_t count = roundedSize(draws.size());
  rows.clear();
  scales.clear();
  shares.clear();
  for (size_t i = 0; i < count; ++i) {
    const Draw &draw = draws[std::min(i, draws.size() - 1)];
    rows.push_back(static_cast<int32_t>(draw.row));
    scales.push_back(draw.scale);
    shares.push_back(draw.share);
  }
  auto one = static_cast<int64_t>(count);
  std::array<int64_t, 1> each{one};
  std::array<int64_t, 2> best{one, known}, all{logitRows, vocabulary};
  auto tensor = [](auto &list, knapper_dtype dtype,
                   std::span<const int64_t> dims) {
    size_t size = 1;
    for (int64_t dim : dims)
      size *= static_cast<size_t>(dim);
    list.resize(size);
    return knapper_tensor{list.data(), size * sizeof(list[0]), dtype,
                          static_cast<int32_t>(dims.size()), dims.data()};
  };
  // The program only reads its inputs; the type of a tensor is for both.
  knapper_tensor given{const_cast<float *>(logits),
                       static_cast<size_t>(logitRows * vocabulary) *
                           sizeof(float),
                       KNAPPER_F32, 2, all.data()};
  std::array inputs{given, tensor(rows, KNAPPER_I32, each),
                    tensor(scales, KNAPPER_F32, each),
                    tensor(shares, KNAPPER_F32, each)};
  std::array outputs{tensor(values, KNAPPER_F32, best),
                     tensor(ids, KNAPPER_I64, best),
                     tensor(logSums, KNAPPER_F32, each),
                     tensor(weightSums, KNAPPER_F32, each),
                     tensor(drawn, KNAPPER_I64, each),
                     tensor(drawnLogits, KNAPPER_F32, each)};
  RunOptions options;
  std::array<std::span<const std::byte>, 1> own{memory};
  options.deviceMemory = own;
  return module->run(inputs, outputs, result, options);
}

RowSummary DeviceSampler::summary(size_t draw) const {
  auto width = static_cast<size_t>(known);
  RowSummary row;
  row.values = std::span(values).subspan(draw * width, width);
  row.ids = std::span(ids).subspan(draw * width, width);
  row.vocabulary = vocabulary;
  row.logSum = logSums[draw];
  row.weightSum = weightSums[draw];
  row.drawn = drawn[draw];
  row.drawnLogit = drawnLogits[draw];
  return row;
}

} // namespace knapper::serving
