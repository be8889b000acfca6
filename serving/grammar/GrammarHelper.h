// The process that compiles grammars: a grammar from a request may take any
// time and memory, and the library has no way to stop.
#pragma once

#include "serving/grammar/GrammarSpec.h"

#include "runtime/base/Error.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace knapper::serving {

/// A copy of this process without its threads, made by `start`, that holds the
/// vocabulary. Compiles run in copies of that one, one after another as long as
/// all goes well; a copy ends itself when a compile has used up its time or it
/// holds much, and fails to allocate beyond its memory. They end when this
/// process ends, and run at a lower priority. Thread-safe.
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
  /// A connection to one; closing it ends that.
  struct Copy {
    Copy() = default;
    Copy(Copy &&other) noexcept
        : file(std::exchange(other.file, -1)), refuses(other.refuses),
          isUsed(other.isUsed) {}
    Copy &operator=(Copy &&other) noexcept {
      std::swap(file, other.file);
      refuses = other.refuses;
      isUsed = other.isUsed;
      return *this;
    }
    ~Copy();
    int file = -1;
    bool refuses = false; ///< what follows is why it takes no grammar
    bool isUsed = false;  ///< it has compiled before
  };
  /// One that waits for a grammar; `fresh`: that has compiled nothing.
  Expected<Copy> readyCopy(bool fresh);
  /// What a copy makes of it. `broke`: it ended without an answer, and within
  /// its time.
  Expected<std::string> ask(Copy copy, const GrammarSpec &spec, bool &broke);

  GrammarHelper(int socket, int pid, GrammarLimits limits)
      : socket(socket), pid(pid), limits(limits) {}

  const int socket, pid;
  const GrammarLimits limits;
  std::mutex mutex;       ///< of the socket, and of what follows
  std::vector<Copy> idle; ///< as many as compile at once, at most
  std::atomic<bool> stopping = false;
};

} // namespace knapper::serving
