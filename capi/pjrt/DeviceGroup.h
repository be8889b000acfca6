//===- DeviceGroup.h - The devices of one run meet ------------------------===//
//
// A program for several devices runs on a thread each, and hands blocks of
// memory to the others where it says so. Who comes first waits: for the others,
// for the first error of any of them, or until nobody is left who could come.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace knapper::pjrt {

/// One run of a program on devices 0 to n - 1. Thread-safe.
class DeviceGroup {
public:
  explicit DeviceGroup(size_t devices) : live(devices) {}
  DeviceGroup(const DeviceGroup &) = delete;
  DeviceGroup &operator=(const DeviceGroup &) = delete;

  struct Block {
    const void *data = nullptr;
    size_t bytes = 0;
    void *results = nullptr; ///< where others may write
  };
  /// Meets `members`, of which the caller is number `own`; all of them name the
  /// same members and the same `site`, a place in the program. `use` is called
  /// when all are there, with what each of them brought, which stays until all
  /// have used it. Empty: done, else why the others did not come.
  std::string meet(std::span<const int64_t> members, size_t own, int64_t site,
                   Block brought,
                   const std::function<void(std::span<const Block>)> &use);
  /// The device's run has ended. Its `error`, unless empty, ends the others
  /// that wait now or later.
  void leave(int64_t device, const std::string &error);

private:
  struct Meeting {
    int64_t site;
    std::vector<Block> blocks;
    size_t arrived = 0, used = 0;
  };

  void fail(const std::string &why);
  /// Where everybody waits, nobody comes.
  void checkWaiting();

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int64_t>, std::shared_ptr<Meeting>> meetings;
  size_t live, waiting = 0; ///< devices; those that wait for others
  std::string failure;
};

/// Which of the devices of a run this thread is, as long as the object lives.
class DevicePlace {
public:
  DevicePlace(DeviceGroup &group, int64_t device);
  ~DevicePlace();
  DevicePlace(const DevicePlace &) = delete;
  DevicePlace &operator=(const DevicePlace &) = delete;
  /// Null: the thread runs no program of several devices.
  static const DevicePlace *here();

  DeviceGroup &group;
  const int64_t device;
};

} // namespace knapper::pjrt
