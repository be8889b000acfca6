#include "capi/pjrt/PjrtParts.h"
#include "capi/pjrt/PjrtExecutable.h"
#include <algorithm>
#include <charconv>

namespace knapper::pjrt {

namespace {

/// The lists of numbers in the list after "key":. False where it is none.
bool readLists(std::string_view text, std::string_view name,
               std::vector<std::vector<int64_t>> &lists) {
  std::string key = '"' + std::string(name) + "\":[";
  size_t at = text.find(key);
  if (at == text.npos)
    return false;
  const char *next = text.data() + at + key.size();
  const char *end = text.data() + text.size();
  lists.clear();
  bool inside = false;
  for (; next < end; ++next) {
    if (*next == '[' && !inside) {
      inside = true;
      lists.emplace_back();
    } else if (*next == ']') {
      if (!inside)
        return true;
      inside = false;
    } else if (*next != ',') {
      int64_t number = 0;
      auto [stop, code] = std::from_chars(next, end, number);
      if (code != std::errc() || !inside)
        return false;
      lists.back().push_back(number);
      next = stop - 1;
    }
  }
  return false;
}

void writeLists(std::string &text, std::string_view name,
                const std::vector<std::vector<int64_t>> &lists) {
  text += '"' + std::string(name) + "\":[";
  for (size_t i = 0; i < lists.size(); ++i) {
    text += i ? ",[" : "[";
    for (size_t j = 0; j < lists[i].size(); ++j)
      text += (j ? "," : "") + std::to_string(lists[i][j]);
    text += ']';
  }
  text += ']';
}

constexpr char kInputs[] = "argument_tiles", kOutputs[] = "result_tiles",
               kDevices[] = "device_ids";
constexpr size_t kMostDevices = 256;

/// The mark of a program of one device from before programs had parts. Clients'
/// caches may hold such bytes.
struct DeviceMark {
  char magic[8] = {'k', 'n', 'a', 'p', ' ', 'd', 'e', 'v'};
  int64_t device = 0;
};

/// At the end of a mark.
struct MarkEnd {
  char magic[8] = {'k', 'n', 'a', 'p', 'p', 'a', 'r', 't'};
  uint64_t bytes = 0; ///< of the text before
};

void addVarint(std::string &bytes, uint64_t value) {
  for (; value > 127; value >>= 7)
    bytes += static_cast<char>((value & 127) | 128);
  bytes += static_cast<char>(value);
}

void addField(std::string &bytes, uint64_t field, const std::string &value) {
  addVarint(bytes, field << 3 | 2);
  addVarint(bytes, value.size());
  bytes += value;
}

void addField(std::string &bytes, uint64_t field, uint64_t value) {
  addVarint(bytes, field << 3);
  addVarint(bytes, value);
}

template <typename Numbers> std::string packed(const Numbers &numbers) {
  std::string bytes;
  for (int64_t number : numbers)
    addVarint(bytes, static_cast<uint64_t>(number));
  return bytes;
}

} // namespace

bool ProgramParts::fit(const std::vector<std::vector<int64_t>> &tiles,
                       const std::vector<size_t> &ranks, size_t devices) {
  if (tiles.size() != ranks.size())
    return false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::vector<int64_t> &each = tiles[i];
    if (each.size() != ranks[i] + 1 + devices)
      return false;
    auto list = each.begin() + static_cast<ptrdiff_t>(ranks[i] + 1);
    size_t product = 1;
    for (auto count = each.begin(); count != list; ++count) {
      if (*count < 1 || *count > static_cast<int64_t>(devices / product))
        return false;
      product *= static_cast<size_t>(*count);
    }
    std::vector<int64_t> order(list, each.end());
    std::sort(order.begin(), order.end());
    for (size_t device = 0; device < devices; ++device)
      if (order[device] != static_cast<int64_t>(device))
        return false;
    if (product != devices)
      return false;
  }
  return true;
}

bool readTiles(std::string_view json, ProgramParts &parts) {
  return readLists(json, kInputs, parts.inputs) &&
         readLists(json, kOutputs, parts.outputs);
}

std::string partsMark(const ProgramParts &parts) {
  if (parts.devices == ProgramParts().devices)
    return "";
  std::string text;
  writeLists(text, kDevices, {parts.devices});
  writeLists(text, kInputs, parts.inputs);
  writeLists(text, kOutputs, parts.outputs);
  MarkEnd end;
  end.bytes = text.size();
  text.append(reinterpret_cast<const char *>(&end), sizeof(end));
  return text;
}

PjrtError *takePartsMark(std::string_view &artefact, ProgramParts &parts) {
  parts = ProgramParts();
  MarkEnd end, wanted;
  DeviceMark old, before;
  static_assert(sizeof(old) == sizeof(end));
  if (artefact.size() < sizeof(end))
    return nullptr;
  memcpy(&end, artefact.data() + artefact.size() - sizeof(end), sizeof(end));
  memcpy(&old, &end, sizeof(old));
  if (memcmp(old.magic, before.magic, sizeof(old.magic)) == 0) {
    parts.devices = {old.device};
    artefact.remove_suffix(sizeof(old));
    return nullptr;
  }
  if (memcmp(end.magic, wanted.magic, sizeof(end.magic)) != 0)
    return nullptr;
  std::string_view rest = artefact.substr(0, artefact.size() - sizeof(end));
  std::vector<std::vector<int64_t>> devices;
  if (end.bytes <= rest.size()) {
    std::string_view text = rest.substr(rest.size() - end.bytes);
    if (readLists(text, kDevices, devices) && readTiles(text, parts) &&
        devices.size() == 1 && !devices[0].empty() &&
        devices[0].size() <= kMostDevices) {
      parts.devices = devices[0];
      artefact = rest.substr(0, rest.size() - end.bytes);
      return nullptr;
    }
  }
  return fail(Code::invalidArgument,
              "the executable's bytes are damaged: serialise it again");
}

std::string opSharding(const std::vector<int64_t> &tiles, size_t devices) {
  size_t counts = tiles.size() - devices; // of parts by dim, and of copies
  bool isWhole = std::all_of(tiles.begin(),
                             tiles.begin() + static_cast<ptrdiff_t>(counts - 1),
                             [](int64_t count) { return count == 1; });
  std::string bytes;
  if (isWhole)
    return bytes; // REPLICATED is the default
  constexpr uint64_t other = 3;
  bool isCopied = tiles[counts - 1] > 1;
  std::span<const int64_t> all(tiles);
  addField(bytes, 1, other);
  addField(bytes, 3, packed(all.first(counts - (isCopied ? 0 : 1))));
  addField(bytes, 4, packed(all.last(devices)));
  if (isCopied)
    addField(bytes, 6, uint64_t(1));
  return bytes;
}

std::string deviceAssignment(const std::vector<int64_t> &devices) {
  std::string bytes;
  addField(bytes, 1, uint64_t(1));
  addField(bytes, 2, devices.size());
  for (int64_t device : devices) {
    std::string one;
    addField(one, 1, packed(std::span(&device, 1)));
    addField(bytes, 3, one);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// The extension
//===----------------------------------------------------------------------===//

namespace {

struct ShardingsOfExecutable : Head {
  PjrtExecutable *executable;
  size_t count;
  const char *const *shardings;
  const size_t *sizes;
};

struct ShardingExtension : Extension {
  PjrtError *(*parameters)(ShardingsOfExecutable *);
  PjrtError *(*outputs)(ShardingsOfExecutable *);
};

PjrtError *give(const OpShardings &list, ShardingsOfExecutable &a) {
  a.count = list.texts.size();
  a.shardings = list.data.empty() ? nullptr : list.data.data();
  a.sizes = list.data.empty() ? nullptr : list.sizes.data();
  return nullptr;
}

PjrtError *parameters(ShardingsOfExecutable &a) {
  return give(a.executable->program->inputShardings, a);
}

PjrtError *outputs(ShardingsOfExecutable &a) {
  return give(a.executable->program->outputShardings, a);
}

} // namespace

void setShardingExtension(PjrtApi &api) {
  static ShardingExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = ExtensionType::shardings;
  extension.next = static_cast<Extension *>(api.extension_start);
  extension.parameters = guarded<parameters>;
  extension.outputs = guarded<outputs>;
  api.extension_start = &extension;
}

} // namespace knapper::pjrt
