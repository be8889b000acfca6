// File descriptors from one process to another, by a Unix socket (SCM_RIGHTS).
#pragma once

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace knapper {

/// A message of one byte and room for one descriptor.
struct DescriptorMessage {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  DescriptorMessage() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  DescriptorMessage(const DescriptorMessage &) = delete;
};

/// Sends a duplicate of `file`, which stays the caller's. False: the other end
/// is gone.
inline bool sendDescriptor(int socket, int file) {
  DescriptorMessage sent;
  cmsghdr *head = CMSG_FIRSTHDR(&sent.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &file, sizeof(file));
  ssize_t done;
  do
    done = sendmsg(socket, &sent.message, MSG_NOSIGNAL);
  while (done < 0 && errno == EINTR);
  return done == 1;
}

/// Waits for a descriptor, which is the caller's to close; closed by exec. -1:
/// the other end is gone, or sent something else.
inline int receiveDescriptor(int socket) {
  DescriptorMessage received;
  ssize_t done;
  do
    done = recvmsg(socket, &received.message, MSG_CMSG_CLOEXEC);
  while (done < 0 && errno == EINTR);
  cmsghdr *head = CMSG_FIRSTHDR(&received.message);
  if (done <= 0 || !head || head->cmsg_type != SCM_RIGHTS)
    return -1;
  int file;
  memcpy(&file, CMSG_DATA(head), sizeof(file));
  return file;
}

} // namespace knapper
