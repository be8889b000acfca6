#include "capi/pjrt/DeviceOperators.h"
#include "capi/pjrt/DeviceGroup.h"
#include <algorithm>
#include <numeric>
#include <string_view>

namespace knapper::pjrt {

namespace {

struct Exchange {
  std::string_view way;
  std::span<const int64_t> devices;
  int64_t group = 0, site = 0;

  bool isNumber() const { return way == "number"; }
  bool isValid(const knapper_call &call) const {
    bool known = isNumber() || way == "gather" || way == "scatter" ||
                 way == "permute" || way == "sum";
    return known && group > 0 && call.num_outputs == 1 &&
           call.num_inputs == (isNumber() ? 0 : 1);
  }
};

Exchange read(const knapper_call &call) {
  Exchange exchange;
  for (int32_t i = 0; i < call.num_attributes; ++i) {
    const knapper_attribute &each = call.attributes[i];
    std::string_view name = each.name;
    auto count = static_cast<size_t>(each.count);
    if (name == "way" && each.kind == KNAPPER_ATTRIBUTE_STRING)
      exchange.way = {each.strings[0].data, each.strings[0].size};
    else if (name == "devices" && each.kind == KNAPPER_ATTRIBUTE_INTS)
      exchange.devices = {each.ints, count};
    else if (name == "group" && each.kind == KNAPPER_ATTRIBUTE_INT)
      exchange.group = each.ints[0];
    else if (name == "site" && each.kind == KNAPPER_ATTRIBUTE_INT)
      exchange.site = each.ints[0];
  }
  return exchange;
}

int refuse(const knapper_call *call, const char *why) {
  call->fail(call, why);
  return 1;
}

constexpr char kDamaged[] = "the operator's parameters are damaged";

int shape(void *, const knapper_call *call, knapper_result_shape *results) {
  Exchange exchange = read(*call);
  if (!exchange.isValid(*call))
    return refuse(call, kDamaged);
  knapper_result_shape &result = results[0];
  if (exchange.isNumber()) {
    result = {KNAPPER_I64, 0, {}};
    return 0;
  }
  const knapper_tensor &input = call->inputs[0];
  int32_t more = exchange.way == "gather" ? 1 : 0;
  if (input.rank < 0 || input.rank + more > KNAPPER_MAX_RANK)
    return refuse(call, kDamaged);
  result.dtype = input.dtype;
  result.rank = input.rank + more;
  if (more)
    result.shape[0] = exchange.group;
  for (int32_t i = 0; i < input.rank; ++i)
    result.shape[i + more] = input.shape[i];
  return 0;
}

/// The part of the sum that member `own` makes, into everybody's results.
template <typename T>
void addPart(std::span<const DeviceGroup::Block> blocks, size_t own) {
  constexpr size_t line = 64 / sizeof(T), at_once = 1024;
  size_t count = blocks[0].bytes / sizeof(T);
  size_t part = (count / blocks.size() / line + 1) * line;
  size_t begin = std::min(count, own * part);
  size_t end = own + 1 == blocks.size() ? count : std::min(count, begin + part);
  T sums[at_once];
  for (size_t at = begin; at < end; at += at_once) {
    size_t some = std::min(at_once, end - at);
    memcpy(sums, static_cast<const T *>(blocks[0].data) + at, some * sizeof(T));
    for (const DeviceGroup::Block &block : blocks.subspan(1)) {
      const T *more = static_cast<const T *>(block.data) + at;
      for (size_t i = 0; i < some; ++i)
        sums[i] += more[i];
    }
    for (const DeviceGroup::Block &block : blocks)
      memcpy(static_cast<T *>(block.results) + at, sums, some * sizeof(T));
  }
}

/// Null: of a type that is not added here.
using AddPart = void (*)(std::span<const DeviceGroup::Block>, size_t);
AddPart addPartOf(knapper_dtype type) {
  switch (type) {
  case KNAPPER_F32:
    return addPart<float>;
  case KNAPPER_F64:
    return addPart<double>;
  case KNAPPER_I32:
  case KNAPPER_U32:
    return addPart<uint32_t>; // sums wrap
  case KNAPPER_I64:
  case KNAPPER_U64:
    return addPart<uint64_t>;
  default:
    return nullptr;
  }
}

int compute(void *, const knapper_call *call) {
  Exchange exchange = read(*call);
  if (!exchange.isValid(*call))
    return refuse(call, kDamaged);
  const DevicePlace *place = DevicePlace::here();
  if (!place)
    return refuse(call, "the program is for several devices, and runs on one; "
                        "run it by jax.jit over as many devices");
  const knapper_tensor &output = call->outputs[0];
  if (exchange.isNumber()) {
    memcpy(output.data, &place->device, sizeof(place->device));
    return 0;
  }
  auto count = static_cast<size_t>(exchange.group);
  std::vector<int64_t> everybody;
  std::span<const int64_t> members;
  size_t own = 0;
  auto device = static_cast<size_t>(place->device);
  bool permutes = exchange.way == "permute";
  if (permutes) {
    everybody.resize(exchange.devices.size());
    std::iota(everybody.begin(), everybody.end(), 0);
    members = everybody;
    own = device;
    if (device >= members.size() ||
        exchange.devices[device] >= static_cast<int64_t>(members.size()))
      return refuse(call, kDamaged);
  } else {
    for (size_t at = 0; at + count <= exchange.devices.size(); at += count)
      for (size_t i = 0; i < count; ++i)
        if (exchange.devices[at + i] == place->device) {
          members = exchange.devices.subspan(at, count);
          own = i;
        }
    if (members.empty())
      return refuse(call, kDamaged);
  }
  const knapper_tensor &input = call->inputs[0];
  bool adds = exchange.way == "sum";
  AddPart add = addPartOf(input.dtype);
  if (adds && !add)
    return refuse(call, kDamaged);
  size_t bytes = input.bytes, block = bytes / count;
  auto *to = static_cast<char *>(output.data);
  bool alike = true;
  std::string why = place->group.meet(
      members, own, exchange.site, {input.data, bytes, output.data},
      [&](std::span<const DeviceGroup::Block> blocks) {
        for (const DeviceGroup::Block &each : blocks)
          alike &= each.bytes == bytes;
        if (!alike || bytes == 0)
          return;
        if (adds) {
          add(blocks, own);
        } else if (permutes) {
          int64_t from = exchange.devices[device];
          if (from < 0)
            memset(to, 0, bytes);
          else
            memcpy(to, blocks[static_cast<size_t>(from)].data, bytes);
        } else if (exchange.way == "gather") {
          for (size_t i = 0; i < count; ++i)
            memcpy(to + i * bytes, blocks[i].data, bytes);
        } else {
          for (size_t i = 0; i < count; ++i)
            memcpy(to + i * block,
                   static_cast<const char *>(blocks[i].data) + own * block,
                   block);
        }
      });
  if (!why.empty())
    return refuse(call, why.c_str());
  return alike ? 0 : refuse(call, "the devices bring tensors of other sizes");
}

int guardedCompute(void *user, const knapper_call *call) {
  try {
    return compute(user, call);
  } catch (const std::exception &e) {
    return refuse(call, e.what());
  }
}

} // namespace

PjrtError *registerDeviceOperators() {
  knapper_operator exchange = KNAPPER_OPERATOR_INIT;
  exchange.domain = "knapper.devices";
  exchange.name = "Exchange";
  exchange.shape = shape;
  exchange.compute = guardedCompute;
  if (knapper_error *error = knapper().register_operator(&exchange))
    return fail(error);
  return nullptr;
}

} // namespace knapper::pjrt
