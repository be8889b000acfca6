// Profiles of runs as XSpace, the protobuf that trace viewers of OpenXLA read:
// a plane a device, with a line that has an event a launch.
#include "capi/pjrt/PjrtProfiler.h"
#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

namespace knapper::pjrt {

namespace {

class ProtoWriter {
public:
  void number(unsigned field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void bytes(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    text += value;
  }
  std::string text;

private:
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7)
      text += static_cast<char>((value & 127) | 128);
    text += static_cast<char>(value);
  }
};

/// Reads what knapper_profile writes, from one place on.
struct ProfileReader {
  std::string_view json;
  size_t at = 0;

  /// Goes behind `"key":`, unless the list that it is in ends before.
  bool find(std::string_view key) {
    std::string wanted = '"' + std::string(key) + "\":";
    size_t found = json.find(wanted, at);
    if (found == json.npos)
      return false;
    at = found + wanted.size();
    return true;
  }
  int64_t number() {
    while (at < json.size() && json[at] == ' ')
      ++at;
    int64_t value = 0;
    std::from_chars(json.data() + at, json.data() + json.size(), value);
    return value;
  }
  /// Escapes of quotes and backslashes are taken away, others stay.
  std::string text() {
    std::string value;
    at = json.find('"', at);
    if (at == json.npos) {
      at = json.size();
      return value;
    }
    for (++at; at < json.size() && json[at] != '"'; ++at) {
      if (json[at] == '\\' && at + 1 < json.size() &&
          (json[at + 1] == '"' || json[at + 1] == '\\'))
        ++at;
      value += json[at];
    }
    return value;
  }
};

/// A launch's name: what it computes, and the kernel.
std::vector<std::string> namesOf(ProfileReader &reader, size_t end) {
  std::vector<std::string> names;
  while (reader.find("kernel") && reader.at < end) {
    std::string kernel = reader.text(), origin;
    if (reader.find("origin"))
      origin = reader.text();
    names.push_back(origin.empty() ? kernel : kernel + ": " + origin);
  }
  return names;
}

} // namespace

namespace {

/// The plane of one device.
std::string planeOf(int device, const std::vector<const RecordedRun *> &runs,
                    int64_t start) {
  constexpr uint64_t picoseconds = 1000;
  std::map<std::string, uint64_t> kinds; // of events, by name
  ProtoWriter line;
  line.number(1, 1);
  line.bytes(2, "knapper kernels");
  line.number(3, static_cast<uint64_t>(start));
  for (const RecordedRun *run : runs) {
    ProfileReader reader{run->profile};
    size_t events = run->profile.find("\"events\":[");
    if (events == run->profile.npos)
      continue;
    std::vector<std::string> names = namesOf(reader, events);
    reader.at = events;
    while (reader.find("launch")) {
      auto launch = static_cast<size_t>(reader.number());
      if (launch >= names.size() || !reader.find("start_ns"))
        break;
      int64_t begin = run->start - start + reader.number();
      if (!reader.find("ns"))
        break;
      int64_t length = reader.number();
      ProtoWriter event;
      event.number(
          1, kinds.try_emplace(names[launch], kinds.size() + 1).first->second);
      event.number(2, static_cast<uint64_t>(std::max<int64_t>(begin, 0)) *
                          picoseconds);
      event.number(3, static_cast<uint64_t>(length) * picoseconds);
      line.bytes(4, event.text);
    }
  }
  ProtoWriter plane;
  plane.number(1, static_cast<uint64_t>(device) + 1);
  plane.bytes(2, "/device:CUSTOM:knapper:" + std::to_string(device));
  plane.bytes(3, line.text);
  for (const auto &[name, id] : kinds) {
    ProtoWriter kind, entry;
    kind.number(1, id);
    kind.bytes(2, name);
    entry.number(1, id);
    entry.bytes(2, kind.text);
    plane.bytes(4, entry.text);
  }
  return std::move(plane.text);
}

} // namespace

std::string toXSpace(const std::vector<RecordedRun> &runs, int64_t start) {
  std::map<int, std::vector<const RecordedRun *>> byDevice;
  for (const RecordedRun &run : runs)
    byDevice[run.device].push_back(&run);
  ProtoWriter space;
  for (const auto &[device, its] : byDevice)
    space.bytes(1, planeOf(device, its, start));
  return std::move(space.text);
}

} // namespace knapper::pjrt
