// The extension by which clients (jax.profiler) record what the device does.
#include "capi/pjrt/PjrtProfiler.h"
#include "capi/pjrt/PjrtExecutable.h"
#include <algorithm>
#include <chrono>

namespace knapper::pjrt {

namespace {

/// A recording of a client's. It asks for none of our clients by name, so
/// recordings are the process's.
struct ProfileRecording {
  int64_t start = 0; ///< nanoseconds after 1970
  std::vector<RecordedRun> runs;
  std::string serialised; ///< once it was asked for
};

struct Recordings {
  std::mutex mutex;
  std::vector<ProfileRecording *> active;
  std::atomic<size_t> count = 0;
};

Recordings &recordings() {
  static auto *all = new Recordings; // runs may end after static objects have
  return *all;
}

int64_t now() {
  return std::chrono::nanoseconds(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The interface's own structs: errors carry a pointer of the caller's.
struct ErrorArguments {
  size_t struct_size;
  void *priv;
  PjrtError *error;
};
struct MessageArguments : ErrorArguments {
  const char *message; // out
  size_t message_size;
};
struct CodeArguments : ErrorArguments {
  int code; // out
};
struct CreateArguments {
  size_t struct_size;
  const char *options;
  size_t options_size;
  ProfileRecording *recording; // out
};
struct RecordingArguments {
  size_t struct_size;
  ProfileRecording *recording;
};
struct CollectArguments : RecordingArguments {
  uint8_t *buffer; ///< of the caller's; null: of ours, until the destruction
  size_t buffer_size;
};

struct ProfilerTable {
  size_t struct_size;
  void *priv;
  void (*errorDestroy)(ErrorArguments *);
  void (*errorMessage)(MessageArguments *);
  PjrtError *(*errorCode)(CodeArguments *);
  PjrtError *(*create)(CreateArguments *);
  PjrtError *(*destroy)(RecordingArguments *);
  PjrtError *(*start)(RecordingArguments *);
  PjrtError *(*stop)(RecordingArguments *);
  PjrtError *(*collect)(CollectArguments *);
};

struct ProfilerExtension : Extension {
  ProfilerTable *table;
  int64_t context; ///< of calls' extensions alone
};

void errorDestroy(ErrorArguments *a) { release(a->error); }

void errorMessage(MessageArguments *a) {
  a->message = a->error->message.c_str();
  a->message_size = a->error->message.size();
}

PjrtError *errorCode(CodeArguments *a) {
  a->code = static_cast<int>(a->error->code);
  return nullptr;
}

PjrtError *create(CreateArguments &a) {
  a.recording = new ProfileRecording;
  return nullptr;
}

PjrtError *start(RecordingArguments &a) {
  Recordings &all = recordings();
  std::lock_guard lock(all.mutex);
  a.recording->start = now();
  if (std::find(all.active.begin(), all.active.end(), a.recording) ==
      all.active.end())
    all.active.push_back(a.recording);
  all.count = all.active.size();
  return nullptr;
}

PjrtError *stop(RecordingArguments &a) {
  Recordings &all = recordings();
  std::lock_guard lock(all.mutex);
  std::erase(all.active, a.recording);
  all.count = all.active.size();
  return nullptr;
}

PjrtError *destroy(RecordingArguments &a) {
  (void)stop(a);
  delete a.recording;
  return nullptr;
}

PjrtError *collect(CollectArguments &a) {
  ProfileRecording &recording = *a.recording;
  {
    std::lock_guard lock(recordings().mutex);
    if (recording.serialised.empty())
      recording.serialised = toXSpace(recording.runs, recording.start);
  }
  if (a.buffer)
    memcpy(a.buffer, recording.serialised.data(),
           std::min(a.buffer_size, recording.serialised.size()));
  else // clients read from here, or ask again with memory of their own
    a.buffer = reinterpret_cast<uint8_t *>(recording.serialised.data());
  a.buffer_size = recording.serialised.size();
  return nullptr;
}

/// As `guarded` does it, of structs without the interface's head.
template <auto Function, typename Arguments>
PjrtError *caught(Arguments *arguments) noexcept {
  try {
    return Function(*arguments);
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  } catch (const std::exception &e) {
    return unexpected(e.what());
  }
}

} // namespace

bool isRecorded() {
  return recordings().count.load(std::memory_order_relaxed) != 0;
}

void recordRun(const RecordedRun &run) {
  Recordings &all = recordings();
  std::lock_guard lock(all.mutex);
  for (ProfileRecording *each : all.active)
    each->runs.push_back(run);
}

void setProfilerExtension(PjrtApi &api) {
  static ProfilerTable table = [] {
    ProfilerTable made{};
    made.struct_size = sizeof(made);
    made.errorDestroy = errorDestroy;
    made.errorMessage = errorMessage;
    made.errorCode = errorCode;
    made.create = caught<create>;
    made.destroy = caught<destroy>;
    made.start = caught<start>;
    made.stop = caught<stop>;
    made.collect = caught<collect>;
    return made;
  }();
  static ProfilerExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = ExtensionType::profiler;
  extension.table = &table;
  extension.next = static_cast<Extension *>(api.extension_start);
  api.extension_start = &extension;
}

} // namespace knapper::pjrt
