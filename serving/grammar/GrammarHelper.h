// The process that compiles grammars: a grammar from a request may take any
// time and memory, and the library has no way to stop.
#pragma once

#include "serving/grammar/GrammarSpec.h"

#include "runtime/base/Error.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace knapper::serving {

/// A copy of this process without its threads, made by `start`, that holds the
/// vocabulary. Each compile runs in a copy of that one, which ends itself when
/// it has used up its time, and fails to allocate beyond its memory. It ends
/// when this process ends. Thread-safe.
class GrammarHelper {
public:
  /// Best early: the less memory the process has, the cheaper is the copy.
  /// DeviceError where there are no more processes or descriptors.
  static Expected<std::unique_ptr<GrammarHelper>>
  start(const GrammarVocabulary &vocabulary, const GrammarLimits &limits);
  ~GrammarHelper();

  /// The compiled form; blocks. UserError for what the library refuses and for
  /// a grammar that needs more than the limits, DeviceError where the helper
  /// is gone.
  Expected<std::string> compile(const GrammarSpec &spec);
  /// Ends the compiles that wait, and those to come, with a DeviceError.
  void stop() { stopping = true; }

private:
  GrammarHelper(int socket, int pid, GrammarLimits limits)
      : socket(socket), pid(pid), limits(limits) {}

  const int socket, pid;
  const GrammarLimits limits;
  std::mutex mutex; ///< of the socket
  std::atomic<bool> stopping = false;
};

} // namespace knapper::serving
