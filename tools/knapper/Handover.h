// A restart that refuses nobody: the new server takes the listening socket of
// the one that runs.
#pragma once

#include "runtime/base/Error.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

namespace knapper::cli {

/// The meeting place of two servers: a socket in the file system that only this
/// user may open. Used by one thread.
class Handover {
public:
  /// Asks the server that offers its socket at `path`, if one does. UserError
  /// where the path can be no such socket.
  static Expected<std::unique_ptr<Handover>> join(const std::string &path);
  ~Handover();

  /// The listening socket that was taken, which the caller owns; -1: nobody
  /// offered one.
  int takeSocket() { return std::exchange(taken, -1); }
  /// This server answers at the socket now: the one before it may end, and the
  /// next one finds ours here. `listening` stays the caller's.
  Status offer(int listening);
  /// Another server answers at the socket. SIGTERM was sent to this process.
  bool isReplaced() const { return replaced; }

private:
  explicit Handover(std::string path) : path(std::move(path)) {}
  void serve(int listening);

  const std::string path;
  int previous = -1; ///< connection to the server before
  int taken = -1;
  int place = -1; ///< our own end of the path
  std::atomic<bool> replaced{false}, ending{false};
  std::thread thread;
};

} // namespace knapper::cli
