// Mutexes that a child of fork finds free.
#pragma once

#include <mutex>
#include <pthread.h>

namespace knapper {

/// The process's mutex for what `Owner` guards. A child has only the thread
/// that forked: a mutex that another held would stay held there, and what it
/// guards half changed. So a fork waits until it has this one, and both
/// processes go on with it free. Hold it for milliseconds at most, and call
/// nothing of the user's: the thread that forks may hold what that waits for
/// (Python's lock).
template <typename Owner> std::mutex &forkMutex() {
  static std::mutex mutex;
  static const int registered = pthread_atfork(
      [] { forkMutex<Owner>().lock(); }, [] { forkMutex<Owner>().unlock(); },
      [] { forkMutex<Owner>().unlock(); });
  (void)registered;
  return mutex;
}

} // namespace knapper
