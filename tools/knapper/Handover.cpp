#include "tools/knapper/Handover.h"

#include "runtime/base/PassDescriptor.h"
#include "runtime/base/SystemError.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace knapper::cli {
namespace {

constexpr char serving = 's'; ///< what the new server says at last

Error systemError(const char *what, const std::string &path) {
  return deviceError(std::string(what) + ": " + systemErrorText(errno), path);
}

bool addressOf(const std::string &path, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return false;
  memcpy(address.sun_path, path.data(), path.size());
  return true;
}

bool isOurUser(int connection) {
  ucred other{};
  socklen_t size = sizeof(other);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == geteuid();
}

} // namespace

Expected<std::unique_ptr<Handover>> Handover::join(const std::string &path) {
  sockaddr_un address;
  if (!addressOf(path, address))
    return userError("is empty or too long for a socket", path,
                     "a path of at most 107 bytes");
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode))
    return userError("is there and no socket", path, "another path");
  std::unique_ptr<Handover> made(new Handover(path));
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0)
    return systemError("no socket", path);
  timeval patience{10, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(connection, reinterpret_cast<sockaddr *>(&address),
              sizeof(address)) != 0) {
    close(connection); // nobody is there, or has been
    return made;
  }
  made->previous = connection;
  if (!isOurUser(connection))
    return userError("belongs to a server of another user", path,
                     "another path");
  made->taken = receiveDescriptor(connection);
  if (made->taken < 0)
    return deviceError("the server there gave no socket", path,
                       "end it, and start this one again");
  return made;
}

Status Handover::offer(int listening) {
  // By another name first, so that there is always a server at the path.
  std::string fresh = path + ".new";
  sockaddr_un address;
  if (!addressOf(fresh, address))
    return userError("is too long for a socket", path,
                     "a path of at most 103 bytes");
  unlink(fresh.c_str());
  place = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (place < 0 ||
      bind(place, reinterpret_cast<sockaddr *>(&address), sizeof(address)) !=
          0 ||
      chmod(fresh.c_str(), 0600) != 0 || listen(place, 4) != 0 ||
      rename(fresh.c_str(), path.c_str()) != 0)
    return systemError("cannot be made", path);
  if (previous >= 0) {
    send(previous, &serving, 1, MSG_NOSIGNAL);
    close(std::exchange(previous, -1));
  }
  thread = std::thread([this, listening] { serve(listening); });
  return success();
}

void Handover::serve(int listening) {
  while (!ending) {
    pollfd wait{place, POLLIN, 0};
    if (poll(&wait, 1, 200) <= 0)
      continue;
    int connection = accept4(place, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0)
      continue;
    // It may load its model before it says that it serves, or never say it.
    bool gone =
        !isOurUser(connection) || !sendDescriptor(connection, listening);
    while (!gone && !ending) {
      pollfd answer{connection, POLLIN, 0};
      if (poll(&answer, 1, 200) <= 0)
        continue;
      char said = 0;
      gone = true;
      if (recv(connection, &said, 1, 0) == 1 && said == serving) {
        replaced = true;
        kill(getpid(), SIGTERM);
      }
    }
    close(connection);
    if (replaced)
      return;
  }
}

Handover::~Handover() {
  ending = true;
  if (thread.joinable())
    thread.join();
  if (place >= 0 && !replaced)
    unlink(path.c_str());
  for (int file : {previous, taken, place})
    if (file >= 0)
      close(file);
}

} // namespace knapper::cli
