// Runs on the tensors of another program's objects.
#include "capi/ObjectCall.h"
#include "capi/DLTensor.h"
#include "capi/Handles.h"

#include "runtime/base/Text.h"

#include <vector>

using namespace knapper;
using namespace knapper::capi;

namespace {

/// One call's tensors, kept for the next call of the thread.
struct Scratch {
  std::vector<knapper_tensor> inputs, outputs;
  std::vector<int64_t> sizes; ///< of all tensors, and values of integers
  bool busy = false;          ///< a run calls an operator that calls a run
};

class Reader {
public:
  /// device: a CUDA device's number, or -1.
  Reader(const knapper_object_reader &reader, int32_t device, Scratch &scratch)
      : reader(reader), device(device), scratch(scratch) {}

  /// False where an object is not laid out as `wanted` says.
  bool read(void *list, const knapper_object *wanted, int32_t count,
            std::vector<knapper_tensor> &made) {
    made.resize(count);
    for (int32_t i = 0; i < count; ++i)
      if (!one(reader.item(list, wanted[i].index), wanted[i], made[i]))
        return false;
    return true;
  }

private:
  /// So many entries that stay where they are until the run has ended.
  int64_t *take(size_t count) {
    int64_t *begin = scratch.sizes.data() + used;
    used += count;
    return begin;
  }

  bool one(void *object, const knapper_object &wanted, knapper_tensor &made) {
    if (!object)
      return false;
    made.dtype = wanted.dtype;
    made.rank = wanted.rank;
    int64_t *shape = take(wanted.rank + 1);
    made.shape = shape;
    if (wanted.is_integer) {
      shape[0] = reader.integer(object);
      made.data = shape;
      made.bytes = sizeof(int64_t);
      return true;
    }
    DLTensor tensor{};
    if (reader.tensor(object, &tensor) != 0 || !isInPlace(tensor) ||
        tensor.rank != wanted.rank || tensor.lanes != 1)
      return false;
    // From the innermost outwards; dims of one element have any stride.
    int64_t count = 1;
    for (int32_t i = wanted.rank - 1; i >= 0; --i) {
      int32_t dim = wanted.order ? wanted.order[i] : i;
      int64_t size = tensor.shape[dim];
      shape[i] = size;
      if (size != 1 && tensor.strides && tensor.strides[dim] != count &&
          count != 0)
        return false;
      count *= size;
    }
    made.data =
        count ? static_cast<char *>(tensor.data) + tensor.byteOffset : nullptr;
    made.bytes = static_cast<size_t>(count) * knapper_dtype_size(wanted.dtype);
    return size_t(tensor.bits) * size_t(count) == made.bytes * 8;
  }

  bool isInPlace(const DLTensor &tensor) const {
    return device < 0
               ? tensor.deviceType == dlCpu
               : tensor.deviceType == dlCuda && tensor.deviceId == device;
  }

  const knapper_object_reader &reader;
  int32_t device;
  Scratch &scratch;
  size_t used = 0;
};

} // namespace

knapper_error *
knapper_run_objects(knapper_module *module, const knapper_object_reader *reader,
                    void *input_list, const knapper_object *inputs,
                    int32_t num_inputs, void *output_list,
                    const knapper_object *outputs, int32_t num_outputs,
                    int32_t device, int32_t *refused) {
  return guarded([&]() -> Status {
    if (!module || !reader || !refused || num_inputs < 0 || num_outputs < 0 ||
        (num_inputs && !inputs) || (num_outputs && !outputs))
      return userError("an argument is NULL or a count is negative",
                       "knapper_run_objects");
    *refused = 1;
    size_t entries = 0;
    for (int32_t i = 0; i < num_inputs; ++i)
      entries += inputs[i].rank + 1;
    for (int32_t i = 0; i < num_outputs; ++i)
      entries += outputs[i].rank + 1;
    static thread_local Scratch kept;
    Scratch own, &scratch = kept.busy ? own : kept;
    scratch.busy = true;
    struct Leave {
      Scratch &scratch;
      ~Leave() { scratch.busy = false; }
    } leave{scratch};
    scratch.sizes.resize(entries);
    Reader read(*reader, device, scratch);
    if (!read.read(input_list, inputs, num_inputs, scratch.inputs) ||
        !read.read(output_list, outputs, num_outputs, scratch.outputs))
      return success();
    // Who has no elements has no memory, and is not "provided by the module".
    for (const knapper_tensor &output : scratch.outputs)
      if (!output.data)
        return success();
    RunOptions options;
    if (device >= 0) {
      void *stream = nullptr;
      if (!reader->stream || reader->stream(dlCuda, device, &stream) != 0)
        return success();
      options.stream = stream;
      options.onDevice = true;
    }
    *refused = 0;
    void *state = reader->leave ? reader->leave() : nullptr;
    RunResult result;
    Status status =
        module->module->run(scratch.inputs, scratch.outputs, result, options);
    if (reader->enter)
      reader->enter(state);
    return status;
  });
}
