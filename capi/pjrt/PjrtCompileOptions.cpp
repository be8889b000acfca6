// CompileOptionsProto, ExecutableBuildOptionsProto, OptionOverrideProto and
// DeviceAssignmentProto of OpenXLA: the fields that say something to us.
#include "capi/pjrt/PjrtCompileOptions.h"
#include "capi/pjrt/ProtoReader.h"
#include "runtime/base/EditDistance.h"
#include <algorithm>

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
constexpr std::string_view kOwn[] = {"target", "dim", "stop-after",
                                     "start-from", "model-format"};

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

PjrtError *oneDevice(std::string_view what, uint64_t count) {
  if (count <= 1)
    return nullptr;
  return fail(Code::unimplemented,
              "the program is for " +
                  std::to_string(static_cast<int64_t>(count)) + " " +
                  std::string(what) +
                  ", and programs of knapper run on one device each; jit "
                  "without shardings over several devices");
}

/// The device of the one computation.
PjrtError *readDevices(std::string_view bytes, int64_t &device) {
  ProtoReader reader(bytes);
  while (reader.next()) {
    if (reader.field != 1)
      continue;
    if (reader.isNumber()) {
      device = static_cast<int64_t>(reader.value);
      continue;
    }
    ProtoReader packed(reader.bytes);
    while (packed.nextPacked())
      device = static_cast<int64_t>(packed.value);
    if (packed.damaged())
      return damaged();
  }
  return reader.damaged() ? damaged() : nullptr;
}

PjrtError *readAssignment(std::string_view bytes, int64_t &device) {
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 1)
      error = oneDevice("replicas", reader.value);
    else if (reader.isNumber() && reader.field == 2)
      error = oneDevice("partitions", reader.value);
    else if (reader.isBytes() && reader.field == 3)
      error = readDevices(reader.bytes, device);
  }
  return error || !reader.damaged() ? error : damaged();
}

PjrtError *readBuildOptions(std::string_view bytes, int64_t &device) {
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 4)
      error = oneDevice("replicas", reader.value);
    else if (reader.isNumber() && reader.field == 5)
      error = oneDevice("partitions", reader.value);
    else if (reader.isBytes() && reader.field == 9)
      error = readAssignment(reader.bytes, device);
  }
  return error || !reader.damaged() ? error : damaged();
}

} // namespace

PjrtError *readCompileOptions(std::string_view bytes, Settings &settings,
                              int64_t &device) {
  ProtoReader reader(bytes);
  PjrtError *error = nullptr;
  while (!error && reader.next()) {
    if (reader.isNumber() && reader.field == 2 && reader.value)
      error = fail(Code::unimplemented,
                   "the arguments come in a tuple; give them one by one");
    else if (reader.isBytes() && reader.field == 3)
      error = readBuildOptions(reader.bytes, device);
    else if (reader.isBytes() && reader.field == 7)
      error = readOverride(reader.bytes, settings);
  }
  return error || !reader.damaged() ? error : damaged();
}

} // namespace knapper::pjrt
