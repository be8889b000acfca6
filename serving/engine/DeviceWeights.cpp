#include "serving/engine/DeviceWeights.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/base/Threads.h"
#include "serving/engine/QuantizeRows.h"

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

/// `count` elements as f32.
void widenAll(const std::byte *from, DType dtype, uint64_t count, float *to) {
  if (dtype == DType::bf16)
    for (uint64_t i = 0; i < count; ++i)
      to[i] = widened(from, DType::bf16, i);
  else
    for (uint64_t i = 0; i < count; ++i)
      to[i] = widened(from, dtype, i);
}

/// What is placed in another form than the file has it: a tensor, or some rows
/// of a matrix that becomes integers.
struct Conversion {
  UploadPart stored;
  DType from;
  const WeightInput *to;
  int64_t rows = 0;                           ///< of integers
  std::byte *target, *scalesTarget = nullptr; ///< on the device
  std::vector<std::byte> bytes = {};
  std::vector<float> scales = {};

  uint64_t count() const { return stored.bytes / byteSize(from); }

  Status run() {
    std::vector<std::byte> raw(stored.bytes);
    TRY(readPart(stored, 0, raw.data(), raw.size()));
    if (to->form == WeightInput::Form::integers)
      makeIntegers(raw);
    else
      makeFloats(raw);
    return success();
  }

  void makeFloats(const std::vector<std::byte> &raw) {
    bytes.resize(count() * byteSize(to->dtype));
    for (uint64_t i = 0; i < count(); ++i) {
      float number = widened(raw.data(), from, i);
      if (to->dtype == DType::bf16) {
        uint16_t half = bf16Of(number);
        memcpy(bytes.data() + 2 * i, &half, sizeof half);
      } else {
        memcpy(bytes.data() + 4 * i, &number, sizeof number);
      }
    }
  }

  void makeIntegers(const std::vector<std::byte> &raw) {
    int64_t depth = to->depth, pitch = integerBytes(depth, to->bits),
            groups = (depth + to->group - 1) / to->group;
    bytes.resize(static_cast<size_t>(rows * pitch));
    scales.resize(static_cast<size_t>(rows * groups));
    std::vector<float> wide(to->transposed ? count() : uint64_t(depth));
    if (to->transposed)
      widenAll(raw.data(), from, count(), wide.data());
    for (int64_t row = 0; row < rows; ++row) {
      const float *first = wide.data();
      if (to->transposed)
        first += row;
      else
        widenAll(raw.data() + row * depth * byteSize(from), from,
                 static_cast<uint64_t>(depth), wide.data());
      quantizeRow(first, to->transposed ? rows : 1, depth, to->bits, to->group,
                  bytes.data() + row * pitch, scales.data() + row * groups);
    }
  }

  void addParts(std::vector<UploadPart> &parts) const {
    parts.push_back({target, bytes.size(), bytes.data()});
    if (scalesTarget)
      parts.push_back(
          {scalesTarget, scales.size() * sizeof(float), scales.data()});
  }
};

/// Runs the conversions and uploads what they made, so many bytes of the files
/// at a time.
Status convertAll(Device &device, std::vector<Conversion> conversions,
                  int32_t threads) {
  constexpr uint64_t most = uint64_t(4) << 30;
  for (size_t begin = 0, end; begin < conversions.size(); begin = end) {
    uint64_t bytes = 0;
    for (end = begin;
         end < conversions.size() &&
         (end == begin || bytes + conversions[end].stored.bytes <= most);
         ++end)
      bytes += conversions[end].stored.bytes;
    std::atomic<size_t> next{begin};
    std::mutex mutex;
    Status status = success();
    runOnThreads(static_cast<size_t>(std::max(threads, 1)), [&] {
      for (size_t i; (i = next.fetch_add(1)) < end;)
        if (Status s = conversions[i].run(); !s) {
          std::lock_guard lock(mutex);
          if (status)
            status = std::move(s);
        }
    });
    TRY(std::move(status));
    std::vector<UploadPart> parts;
    for (size_t i = begin; i < end; ++i)
      conversions[i].addParts(parts);
    TRY(device.uploadAll(parts, threads));
    for (size_t i = begin; i < end; ++i) {
      conversions[i].bytes = {};
      conversions[i].scales = {};
    }
  }
  return success();
}

/// The conversions of a matrix' rows, some MiB each; moves both places behind
/// them.
void addRows(const WeightInput &input, const Checkpoint::Tensor &tensor,
             const UploadPart &stored, std::byte *&at, std::byte *&scalesAt,
             std::vector<Conversion> &conversions) {
  constexpr int64_t elements = 4 << 20;
  int64_t all = tensor.shape[input.transposed ? 1 : 0], depth = input.depth,
          groups = (depth + input.group - 1) / input.group;
  int64_t each =
      input.transposed ? all : std::max<int64_t>(1, elements / depth);
  for (int64_t row = 0; row < all; row += each) {
    int64_t rows = std::min(each, all - row);
    UploadPart part = stored;
    part.bytes = static_cast<uint64_t>(rows * depth) * byteSize(tensor.dtype);
    part.offset += static_cast<uint64_t>(row * depth) * byteSize(tensor.dtype);
    conversions.push_back({.stored = part,
                           .from = tensor.dtype,
                           .to = &input,
                           .rows = rows,
                           .target = at,
                           .scalesTarget = scalesAt});
    at += rows * integerBytes(depth, input.bits);
    scalesAt += rows * groups * int64_t(sizeof(float));
  }
}

/// Bytes.
uint64_t sizeOf(const WeightInput &input) {
  uint64_t size = byteSize(input.dtype);
  for (int64_t dim : input.shape)
    size *= static_cast<uint64_t>(dim);
  return size;
}

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
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;
  for (const WeightInput &input : weights->inputs) {
    offsets.push_back(bytes);
    bytes += (sizeOf(input) + kAlignment - 1) / kAlignment * kAlignment;
  }
  ASSIGN_OR_RETURN(weights->buffer, device.allocate(bytes, MemoryKind::device));
  auto *base = static_cast<std::byte *>(weights->buffer->address());
  std::vector<UploadPart> parts;
  std::vector<Conversion> conversions;
  for (size_t i = 0; i < weights->inputs.size(); ++i) {
    const WeightInput &input = weights->inputs[i];
    std::byte *at = base + offsets[i];
    std::byte *scalesAt = nullptr;
    if (input.form == WeightInput::Form::integers)
      scalesAt = base + offsets[i + 1];
    // Scales are made with their integers.
    bool made = input.form == WeightInput::Form::scales;
    for (size_t t = 0; t < (made ? 0 : input.tensors.size()); ++t) {
      const std::string &name = input.tensors[t];
      const Checkpoint::Tensor *tensor = checkpoint.find(name);
      if (!tensor)
        return internalError(cat("the tensor '", name, "' is not there"),
                             "weights");
      UploadPart stored{nullptr, tensor->bytes, nullptr,
                        files[tensor->file].descriptor(), tensor->offset};
      if (input.form == WeightInput::Form::integers) {
        addRows(input, *tensor, stored, at, scalesAt, conversions);
        continue;
      }
      uint64_t bytes =
          tensor->bytes / byteSize(tensor->dtype) * byteSize(input.dtype);
      if (tensor->dtype != input.dtype) {
        conversions.push_back({.stored = stored,
                               .from = tensor->dtype,
                               .to = &input,
                               .target = at});
      } else {
        parts.push_back(stored);
        parts.back().target = at;
      }
      at += bytes;
    }
    weights->list.push_back({base + offsets[i], sizeOf(input),
                             static_cast<knapper_dtype>(input.dtype),
                             static_cast<int32_t>(input.shape.size()),
                             input.shape.data()});
  }
  TRY(device.uploadAll(parts, threads));
  TRY(convertAll(device, std::move(conversions), threads));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  log(LogLevel::info, cat("weights: ", bytes >> 20, " MiB placed in ",
                          seconds.count(), " s by ", threads, " threads"));
  return weights;
}

} // namespace knapper::serving
