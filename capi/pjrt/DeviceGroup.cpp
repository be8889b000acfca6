#include "capi/pjrt/DeviceGroup.h"

namespace knapper::pjrt {

std::string
DeviceGroup::meet(std::span<const int64_t> members, size_t own, int64_t site,
                  Block brought,
                  const std::function<void(std::span<const Block>)> &use) {
  std::unique_lock lock(mutex);
  if (!failure.empty())
    return failure;
  std::vector<int64_t> key(members.begin(), members.end());
  std::shared_ptr<Meeting> &open = meetings[key];
  if (!open) {
    open = std::make_shared<Meeting>();
    open->site = site;
    open->blocks.resize(members.size());
  }
  std::shared_ptr<Meeting> meeting = open;
  if (meeting->site != site) {
    fail(
        "the devices came to different places of the program; let all of "
        "them take the same branches and iterations of loops that communicate");
    return failure;
  }
  meeting->blocks[own] = brought;
  if (++meeting->arrived == members.size()) {
    meetings.erase(key);
    waiting -= members.size() - 1;
    changed.notify_all();
  } else {
    ++waiting;
    checkWaiting();
    changed.wait(lock, [&] {
      return meeting->arrived == members.size() || !failure.empty();
    });
    if (meeting->arrived != members.size())
      return failure;
  }
  lock.unlock();
  use(meeting->blocks);
  lock.lock();
  // Also after a failure: the others still read what this one brought.
  if (++meeting->used == members.size())
    changed.notify_all();
  else
    changed.wait(lock, [&] { return meeting->used == members.size(); });
  return "";
}

void DeviceGroup::leave(int64_t device, const std::string &error) {
  std::lock_guard lock(mutex);
  --live;
  try {
    if (!error.empty())
      fail("device " + std::to_string(device) + " of the run failed: " + error);
    else
      checkWaiting();
  } catch (const std::bad_alloc &) { // the others must be told all the same
    fail("out of memory");
  }
}

void DeviceGroup::fail(const std::string &why) {
  if (!failure.empty())
    return;
  failure = why;
  changed.notify_all();
}

void DeviceGroup::checkWaiting() {
  if (live > 0 && waiting == live)
    fail("the devices of the run wait for each other; let all of them take "
         "the same branches and iterations of loops that communicate");
}

// A run is on one thread, and operators are called on it.
static thread_local const DevicePlace *current = nullptr;

DevicePlace::DevicePlace(DeviceGroup &group, int64_t device)
    : group(group), device(device) {
  current = this;
}

DevicePlace::~DevicePlace() { current = nullptr; }

const DevicePlace *DevicePlace::here() { return current; }

} // namespace knapper::pjrt
