#include "serving/engine/DeviceWeights.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/base/Threads.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

namespace knapper::serving {
namespace {

// What copies of boxes want, and more.
constexpr uint64_t kAlignment = 256;

float widened(const std::byte *from, DType dtype, uint64_t i) {
  switch (dtype) {
  case DType::bf16: {
    uint16_t half;
    memcpy(&half, from + 2 * i, sizeof half);
    return std::bit_cast<float>(uint32_t(half) << 16);
  }
  case DType::f16: {
    _Float16 half;
    memcpy(&half, from + 2 * i, sizeof half);
    return static_cast<float>(half);
  }
  case DType::f64: {
    double number;
    memcpy(&number, from + 8 * i, sizeof number);
    return static_cast<float>(number);
  }
  default: {
    float number;
    memcpy(&number, from + 4 * i, sizeof number);
    return number;
  }
  }
}

/// To the nearest, of two the even one; a NaN stays one.
uint16_t bf16Of(float number) {
  auto bits = std::bit_cast<uint32_t>(number);
  if (number != number)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// A tensor whose type is another than the input's.
struct Conversion {
  UploadPart *part; ///< what it is uploaded as
  DType from, to;
  UploadPart stored;
  std::vector<std::byte> bytes = {};

  Status run() {
    std::vector<std::byte> raw(stored.bytes);
    TRY(readPart(stored, 0, raw.data(), raw.size()));
    uint64_t count = raw.size() / byteSize(from);
    bytes.resize(count * byteSize(to));
    for (uint64_t i = 0; i < count; ++i) {
      float number = widened(raw.data(), from, i);
      if (to == DType::bf16) {
        uint16_t half = bf16Of(number);
        memcpy(bytes.data() + 2 * i, &half, sizeof half);
      } else {
        memcpy(bytes.data() + 4 * i, &number, sizeof number);
      }
    }
    part->source = bytes.data();
    return success();
  }
};

} // namespace

Expected<std::unique_ptr<DeviceWeights>>
DeviceWeights::load(Device &device, const Checkpoint &checkpoint,
                    std::vector<WeightInput> inputs, int32_t threads) {
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<DeviceWeights> weights(new DeviceWeights);
  weights->inputs = std::move(inputs);
  std::vector<InputFile> files;
  for (const std::string &path : checkpoint.files()) {
    ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
    files.push_back(std::move(file));
  }
  uint64_t bytes = 0, count = 0;
  std::vector<uint64_t> offsets;
  for (const WeightInput &input : weights->inputs) {
    uint64_t size = byteSize(input.dtype);
    for (int64_t dim : input.shape)
      size *= static_cast<uint64_t>(dim);
    offsets.push_back(bytes);
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    count += input.tensors.size();
  }
  ASSIGN_OR_RETURN(weights->buffer, device.allocate(bytes, MemoryKind::device));
  auto *base = static_cast<std::byte *>(weights->buffer->address());
  std::vector<UploadPart> parts;
  parts.reserve(count); // conversions point to them
  std::vector<Conversion> conversions;
  for (size_t i = 0; i < weights->inputs.size(); ++i) {
    const WeightInput &input = weights->inputs[i];
    uint64_t size = 0;
    for (const std::string &name : input.tensors) {
      const Checkpoint::Tensor *tensor = checkpoint.find(name);
      if (!tensor)
        return internalError(cat("the tensor '", name, "' is not there"),
                             "weights");
      UploadPart stored{nullptr, tensor->bytes, nullptr,
                        files[tensor->file].descriptor(), tensor->offset};
      UploadPart part = stored;
      part.target = base + offsets[i] + size;
      part.bytes =
          tensor->bytes / byteSize(tensor->dtype) * byteSize(input.dtype);
      size += part.bytes;
      parts.push_back(part);
      if (tensor->dtype != input.dtype)
        conversions.push_back(
            {&parts.back(), tensor->dtype, input.dtype, stored});
    }
    weights->list.push_back(
        {base + offsets[i], size, static_cast<knapper_dtype>(input.dtype),
         static_cast<int32_t>(input.shape.size()), input.shape.data()});
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Status status = success();
  runOnThreads(static_cast<size_t>(std::max(threads, 1)), [&] {
    for (size_t i; (i = next.fetch_add(1)) < conversions.size();)
      if (Status s = conversions[i].run(); !s) {
        std::lock_guard lock(mutex);
        if (status)
          status = std::move(s);
      }
  });
  TRY(std::move(status));
  TRY(device.uploadAll(parts, threads));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  log(LogLevel::info, cat("weights: ", bytes >> 20, " MiB placed in ",
                          seconds.count(), " s by ", threads, " threads"));
  return weights;
}

} // namespace knapper::serving
