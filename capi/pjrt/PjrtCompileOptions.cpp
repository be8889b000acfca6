// CompileOptionsProto, ExecutableBuildOptionsProto, OptionOverrideProto and
// DeviceAssignmentProto of OpenXLA: the fields that say something to us.
#include "capi/pjrt/PjrtCompileOptions.h"
#include "capi/pjrt/ProtoReader.h"
#include "runtime/base/EditDistance.h"
#include <algorithm>
#include <numeric>

namespace knapper::pjrt {

namespace {

PjrtError *damaged() {
  return fail(Code::invalidArgument,
              "the compile options are damaged; give a serialised "
              "CompileOptionsProto");
}

constexpr std::string_view kRows[] = {
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP) NAME,
#include "compiler/options/Options.def"
#undef OPTION
};

/// What the plugin decides, or what ends without an executable.
constexpr std::string_view kOwn[] = {"target",     "dim",     "stop-after",
                                     "start-from", "devices", "model-format"};

bool isOwn(std::string_view row) {
  return std::find(std::begin(kOwn), std::end(kOwn), row) != std::end(kOwn);
}

/// As Python spells it.
std::string spelt(std::string_view row) {
  std::string name(row);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

PjrtError *unknownOption(std::string_view name) {
  constexpr size_t longest = 64;
  if (name.size() > longest)
    for (name = name.substr(0, longest); // no part of a character
         !name.empty() && static_cast<uint8_t>(name.back()) >= 0x80;)
      name.remove_suffix(1);
  std::string nearest, all;
  size_t least = std::string::npos;
  for (std::string_view row : kRows) {
    if (isOwn(row))
      continue;
    std::string known = spelt(row);
    all += (all.empty() ? "" : ", ") + known;
    if (size_t d = editDistance(name, known); d < least) {
      least = d;
      nearest = known;
    }
  }
  return fail(Code::invalidArgument, "compiler_options: there is no option '" +
                                         std::string(name) +
                                         "' on knapper; the nearest is '" +
                                         nearest + "', and there are: " + all);
}

/// One entry of the map: a name and a value of one of four types.
PjrtError *readOverride(std::string_view entry, Settings &settings) {
  std::string_view name, value;
  ProtoReader reader(entry);
  while (reader.next()) {
    if (reader.isBytes() && reader.field == 1) {
      name = reader.bytes;
      if (!reader.isText())
        return damaged();
    } else if (reader.isBytes() && reader.field == 2) {
      value = reader.bytes;
    }
  }
  if (reader.damaged())
    return damaged();
  std::string text;
  ProtoReader option(value);
  while (option.next()) {
    if (option.isBytes() && option.field == 1) {
      text = option.bytes;
      if (!option.isText())
        return damaged();
    } else if (option.isNumber() && option.field == 2) {
      text = option.value ? "true" : "false";
    } else if (option.isNumber() && option.field == 3) {
      text = std::to_string(static_cast<int64_t>(option.value));
    } else if (option.isDouble() && option.field == 4) {
      text = std::to_string(std::bit_cast<double>(option.value));
    }
  }
  if (option.damaged())
    return damaged();
  for (std::string_view row : kRows) {
    if (name != spelt(row))
      continue;
    if (isOwn(row))
      return fail(Code::invalidArgument,
                  "compiler_options: '" + std::string(name) +
                      "' is the platform's own to choose; leave it out");
    settings.emplace_back(row, text);
    return nullptr;
  }
  return unknownOption(name);
}

PjrtError *oneReplica(uint64_t count) {
  if (count <= 1)
    return nullptr;
  return fail(Code::unimplemented,
              "the program is for " +
                  std::to_string(static_cast<int64_t>(count)) +
                  " replicas, and knapper runs one, of several partitions; use "
                  "jax.shard_map, or jax.pmap of JAX 0.8 and later");
}

/// What the options say of devices.
struct AskedDevices {
  uint64_t partitions = 1;
  int64_t ordinal = -1; ///< of one device, where no assignment says more
  bool isAssigned = false;
  std::vector<int64_t> devices;
};

/// The devices of one partition, one a replica.
PjrtError *readDevices(std::string_view bytes, AskedDevices &asked) {
  ProtoReader reader(bytes);
  std::vector<int64_t> devices;
  while (reader.next()) {
    if (reader.field != 1)
      continue;
    if (reader.isNumber()) {
      devices.push_back(static_cast<int64_t>(reader.value));
      continue;
    }
    ProtoReader packed(reader.bytes);
    while (packed.nextPacked())
      devices.push_back(static_cast<int64_t>(packed.value));
    if (packed.damaged())
      return damaged();
  }
  if (reader.damaged() || devices.size() != 1)
    return damaged();
  asked.devices.insert(asked.devices.end(), devices.begin(), devices.end());
  return nullptr;
}

PjrtError *readAssignment(std::string_view bytes, AskedDevices &asked) {
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  asked.devices.clear();
  asked.isAssigned = !bytes.empty();
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 1)
      error = oneReplica(reader.value);
    else if (reader.isBytes() && reader.field == 3)
      error = readDevices(reader.bytes, asked);
  }
  return error || !reader.damaged() ? error : damaged();
}

PjrtError *readBuildOptions(std::string_view bytes, AskedDevices &asked) {
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 1)
      asked.ordinal = static_cast<int64_t>(reader.value);
    else if (reader.isNumber() && reader.field == 4)
      error = oneReplica(reader.value);
    else if (reader.isNumber() && reader.field == 5)
      asked.partitions = std::max<uint64_t>(reader.value, 1);
    else if (reader.isBytes() && reader.field == 9)
      error = readAssignment(reader.bytes, asked);
  }
  return error || !reader.damaged() ? error : damaged();
}

PjrtError *placeOf(const AskedDevices &asked, std::vector<int64_t> &devices) {
  constexpr uint64_t most = 256;
  if (asked.partitions > most ||
      (asked.isAssigned && asked.devices.size() != asked.partitions))
    return fail(Code::invalidArgument,
                "the program is for " +
                    std::to_string(static_cast<int64_t>(asked.partitions)) +
                    " partitions and is put on " +
                    std::to_string(asked.devices.size()) +
                    " devices; give a device a partition, and at most " +
                    std::to_string(most));
  if (asked.isAssigned) {
    devices = asked.devices;
  } else if (asked.partitions > 1) {
    devices.resize(asked.partitions);
    std::iota(devices.begin(), devices.end(), 0);
  } else if (asked.ordinal >= 0) {
    devices = {asked.ordinal};
  }
  return nullptr;
}

} // namespace

PjrtError *readCompileOptions(std::string_view bytes, Settings &settings,
                              std::vector<int64_t> &devices) {
  AskedDevices asked;
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 2 && reader.value)
      error = fail(Code::unimplemented,
                   "the arguments come in a tuple; give them one by one");
    else if (reader.isBytes() && reader.field == 3)
      error = readBuildOptions(reader.bytes, asked);
    else if (reader.isBytes() && reader.field == 7)
      error = readOverride(reader.bytes, settings);
  }
  if (error || reader.damaged())
    return error ? error : damaged();
  return placeOf(asked, devices);
}

} // namespace knapper::pjrt
