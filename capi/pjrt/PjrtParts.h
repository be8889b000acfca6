//===- PjrtParts.h - Programs that run on several devices together --------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <string_view>
#include <vector>

namespace knapper::pjrt {

/// Where a program runs, and which part of each array lies on which device.
struct ProgramParts {
  /// Ids, by number of the partition.
  std::vector<int64_t> devices = {0};
  /// By argument and result: into how many parts each dim is cut, how many
  /// devices have the same part, then partitions in the order of parts. Empty
  /// for one device.
  std::vector<std::vector<int64_t>> inputs, outputs;

  bool areSeveral() const { return devices.size() > 1; }
  /// Whether the tiles are those of arrays of these ranks.
  static bool fit(const std::vector<std::vector<int64_t>> &tiles,
                  const std::vector<size_t> &ranks, size_t devices);
};

/// Reads `argument_tiles` and `result_tiles` of what knapper_inspect says.
/// False where they are not there.
bool readTiles(std::string_view json, ProgramParts &parts);

/// Behind an artefact that is not for device 0 alone: for which devices, and in
/// which parts. Clients load it without saying so again.
std::string partsMark(const ProgramParts &parts);
/// Takes the mark off; the parts of device 0 where there is none. An error
/// where it is damaged.
PjrtError *takePartsMark(std::string_view &artefact, ProgramParts &parts);

/// A serialised OpSharding of one array.
std::string opSharding(const std::vector<int64_t> &tiles, size_t devices);
/// A serialised DeviceAssignmentProto of one replica.
std::string deviceAssignment(const std::vector<int64_t> &devices);

void setShardingExtension(PjrtApi &api);

} // namespace knapper::pjrt
