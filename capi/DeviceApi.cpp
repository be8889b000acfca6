// Memory of a device and streams on it.
#include "capi/Handles.h"

#include "knapper/device.h"
#include "runtime/base/Json.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <thread>
#include <unordered_map>

using namespace knapper;
using namespace knapper::capi;

namespace {

/// A queue for copies that somebody waits for, one after the other.
struct CopyQueue {
  std::mutex mutex;
  std::unique_ptr<DeviceQueue> queue;

  template <typename Copy> Status run(Copy copy) {
    std::lock_guard lock(mutex);
    Status status = queue->begin();
    if (status)
      status = copy(*queue);
    if (Status end = queue->finish(); !end && status)
      status = std::move(end);
    return status;
  }
};

/// From here on threads with pinned memory copy faster than the driver does.
constexpr size_t kByThreads = size_t(4) << 20;
constexpr int32_t kMostThreads = 8;

} // namespace

struct knapper_device {
  std::shared_ptr<Device> device;
  CopyQueue writes, reads;
  std::mutex mutex; // guards what follows
  std::unordered_map<void *, std::unique_ptr<DeviceBuffer>> memory;
};

struct knapper_stream {
  std::shared_ptr<Device> device;
  std::mutex mutex; // guards the queue
  std::unique_ptr<DeviceQueue> queue;
};

struct knapper_mark {
  std::unique_ptr<DeviceEvent> event;
};

knapper_error *knapper_device_open(const char *kind, knapper_device **out) {
  return guarded([&]() -> Status {
    if (!out)
      return nullArgument("knapper_device_open", "out");
    *out = nullptr;
    auto made = std::make_unique<knapper_device>();
    ASSIGN_OR_RETURN(made->device, openDevice(kind));
    for (CopyQueue *each : {&made->writes, &made->reads}) {
      ASSIGN_OR_RETURN(each->queue, made->device->createQueue({.threads = 1}));
    }
    *out = made.release();
    return success();
  });
}

void knapper_device_release(knapper_device *device) { delete device; }

knapper_error *knapper_device_describe(const knapper_device *device,
                                       char **json) {
  return guarded([&]() -> Status {
    if (!device || !json)
      return nullArgument("knapper_device_describe",
                          device ? "json" : "device");
    *json = nullptr;
    JsonWriter text;
    text.beginObject().field("device", device->device->kind());
    TRY(device->device->describe(text, false));
    text.endObject();
    return copyString(text.text(), json);
  });
}

int knapper_device_addresses_host(const knapper_device *device) {
  return device && device->device->addressesHost();
}

uint64_t knapper_device_free_bytes(const knapper_device *device) {
  return device ? device->device->freeBytes().value_or(0) : 0;
}

knapper_error *knapper_device_allocate(knapper_device *device, size_t bytes,
                                       void **out) {
  return guarded([&]() -> Status {
    if (!device || !out)
      return nullArgument("knapper_device_allocate", device ? "out" : "device");
    *out = nullptr;
    if (bytes == 0)
      return success();
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> made,
                     device->device->allocate(bytes, MemoryKind::device));
    void *address = made->address();
    std::lock_guard lock(device->mutex);
    device->memory[address] = std::move(made);
    *out = address;
    return success();
  });
}

void knapper_device_free(knapper_device *device, void *memory) {
  if (!device || !memory)
    return;
  std::unique_ptr<DeviceBuffer> last;
  std::lock_guard lock(device->mutex);
  if (auto found = device->memory.find(memory); found != device->memory.end()) {
    last = std::move(found->second);
    device->memory.erase(found);
  }
}

knapper_error *knapper_device_write(knapper_device *device, void *target,
                                    const void *source, size_t bytes) {
  return guarded([&]() -> Status {
    if (!device || (bytes && (!target || !source)))
      return nullArgument("knapper_device_write", !device   ? "device"
                                                  : !target ? "target"
                                                            : "host_source");
    if (bytes == 0)
      return success();
    if (bytes >= kByThreads) {
      UploadPart part = {target, bytes, source};
      unsigned cores = std::max(1u, std::thread::hardware_concurrency());
      return device->device->uploadAll(
          {&part, 1}, std::min(kMostThreads, static_cast<int32_t>(cores)));
    }
    return device->writes.run([&](DeviceQueue &queue) {
      return queue.upload(target, source, bytes);
    });
  });
}

knapper_error *knapper_device_read(knapper_device *device, void *target,
                                   const void *source, size_t bytes) {
  return guarded([&]() -> Status {
    if (!device || (bytes && (!target || !source)))
      return nullArgument("knapper_device_read", !device   ? "device"
                                                 : !target ? "host_target"
                                                           : "source");
    if (bytes == 0)
      return success();
    return device->reads.run([&](DeviceQueue &queue) {
      return queue.download(target, source, bytes);
    });
  });
}

knapper_error *knapper_stream_create(knapper_device *device,
                                     knapper_stream **out) {
  return guarded([&]() -> Status {
    if (!device || !out)
      return nullArgument("knapper_stream_create", device ? "out" : "device");
    *out = nullptr;
    if (!device->device->hasStreams())
      return userError(
          cat("the device '", device->device->kind(), "' has no streams"),
          "knapper_stream_create",
          "run without one: knapper_run ends when the outputs are "
          "written");
    auto made = std::make_unique<knapper_stream>();
    made->device = device->device;
    ASSIGN_OR_RETURN(made->queue, device->device->createQueue({}));
    TRY(made->queue->begin());
    *out = made.release();
    return success();
  });
}

void knapper_stream_release(knapper_stream *stream) {
  if (!stream)
    return;
  (void)stream->queue->finish();
  delete stream;
}

void *knapper_stream_handle(const knapper_stream *stream) {
  return stream ? stream->queue->ownStream() : nullptr;
}

knapper_error *knapper_stream_wait_for_others(knapper_stream *stream) {
  return guarded([&]() -> Status {
    if (!stream)
      return nullArgument("knapper_stream_wait_for_others", "stream");
    std::lock_guard lock(stream->mutex);
    return stream->queue->waitForOthers();
  });
}

knapper_error *knapper_stream_mark(knapper_stream *stream, knapper_mark **out) {
  return guarded([&]() -> Status {
    if (!stream || !out)
      return nullArgument("knapper_stream_mark", stream ? "out" : "stream");
    *out = nullptr;
    auto made = std::make_unique<knapper_mark>();
    std::lock_guard lock(stream->mutex);
    ASSIGN_OR_RETURN(made->event, stream->queue->record());
    *out = made.release();
    return success();
  });
}

int knapper_mark_reached(const knapper_mark *mark) {
  return !mark || mark->event->done();
}

knapper_error *knapper_mark_wait(const knapper_mark *mark) {
  return guarded([&]() -> Status {
    if (!mark)
      return nullArgument("knapper_mark_wait", "mark");
    return mark->event->wait();
  });
}

void knapper_mark_release(knapper_mark *mark) { delete mark; }
