// What the opaque types of the C API are, and how C++ results become C ones.
#pragma once

#include "knapper/knapper.h"
#include "runtime/base/Error.h"
#include "runtime/execute/Module.h"
#include "runtime/execute/WorkQueue.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

struct knapper_error {
  knapper::Error error;
  std::string message; // the whole text
};

struct knapper_module {
  std::shared_ptr<knapper::Module> module;
  mutable std::mutex mutex;                  // guards what follows
  mutable std::string description;           // JSON, made when first asked for
  std::unique_ptr<knapper::WorkQueue> queue; // started by the first async run
};

struct knapper_result {
  knapper::RunResult result;
};

namespace knapper::capi {

/// Never null and never throws: when there is no memory for an error, a
/// DeviceError that was made beforehand.
knapper_error *toC(Error error) noexcept;
knapper_error *outOfMemory() noexcept;
/// Of any other exception; null for one that is not of the standard library. A
/// refused thread is a DeviceError.
knapper_error *unexpected(const std::exception *exception) noexcept;

/// Runs `body` (returns Status); exceptions of the standard library end here.
template <typename F> knapper_error *guarded(F &&body) noexcept {
  try {
    Status status = body();
    return status ? nullptr : toC(status.takeError());
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  } catch (const std::length_error &) {
    return outOfMemory();
  } catch (const std::exception &e) {
    return unexpected(&e);
  } catch (...) {
    return unexpected(nullptr);
  }
}

/// An argument of a function of the C API that must not be NULL, and is.
inline Error nullArgument(const char *function, const char *argument) {
  return userError(std::string(argument) + " is NULL", function);
}

/// A copy for the caller, released by knapper_string_release.
Status copyString(const std::string &text, char **out);

/// How to load the file that the module is made of; options may be NULL.
Expected<ArtefactLoadOptions>
artefactOptions(const knapper_load_options *options);

/// The kind of device that these options, else the environment, want; empty for
/// the one that is found. An error for what is no kind of device: whether the
/// machine has one is not looked at.
Expected<std::string_view> wantedDevice(const knapper_load_options &options);

/// The machine's device of this kind; NULL: as knapper_load_options says. A
/// DeviceError where there is none.
Expected<std::shared_ptr<Device>> openDevice(const char *kind);

/// Where the artefact has code for no device of the machine.
enum class NoDevice {
  isError,
  describes, ///< a module to save and explain: its runs are the DeviceError
};

/// Checks load options (may be NULL) and makes a module of a loaded artefact.
Status openModule(std::shared_ptr<const Artefact> artefact,
                  const knapper_load_options *options, knapper_module **out,
                  NoDevice noDevice = NoDevice::isError);

/// Copies a size-tagged struct over `defaults`: what the caller's version does
/// not have keeps its default; what we do not know must be zero.
template <typename T>
Expected<T> readOptions(const T *from, const T &defaults, const char *name) {
  if (!from)
    return defaults;
  if (from->size < sizeof(size_t) || from->size > 65536)
    return userError(std::string("the size of ") + name + " is " +
                         std::to_string(from->size),
                     name, "initialise the struct with its *_INIT macro");
  T options = defaults;
  memcpy(&options, from, from->size < sizeof(T) ? from->size : sizeof(T));
  auto *bytes = reinterpret_cast<const unsigned char *>(from);
  for (size_t i = sizeof(T); i < from->size; ++i)
    if (bytes[i] != 0)
      return userError(std::string("a field of ") + name +
                           " is set that this library does not know",
                       name, "use a library as new as the header");
  options.size = sizeof(T);
  return options;
}

} // namespace knapper::capi
