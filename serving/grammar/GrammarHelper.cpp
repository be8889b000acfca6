#include "serving/grammar/GrammarHelper.h"

#include "runtime/base/PassDescriptor.h"
#include "serving/grammar/CloseDescriptors.h"
#include "serving/grammar/GrammarLibrary.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace knapper::serving {
namespace {

// What an answer begins with; a copy that waits for a grammar says so first.
constexpr char ready = 'b', made = 'm', refused = 'r';

struct Header {
  GrammarKind kind;
  bool closed;
  uint64_t bytes;
};

Error systemError(const char *what) {
  return deviceError(std::string(what) + ": " + strerror(errno),
                     "the process that compiles grammars");
}

//===----------------------------------------------------------------------===//
// In the helper
//===----------------------------------------------------------------------===//

bool writeAll(int file, const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = send(file, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool readAll(int file, void *data, size_t bytes) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t got = read(file, at, bytes);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

/// What ends in the middle is known by its length.
void sendText(int file, char kind, const std::string &text) {
  uint64_t bytes = text.size();
  if (writeAll(file, &kind, 1) && writeAll(file, &bytes, sizeof(bytes)))
    writeAll(file, text.data(), text.size());
}

/// What is mapped, in bytes; 0 where nobody says so.
uint64_t mappedBytes() {
  char text[64] = {};
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  uint64_t pages = 0;
  if (file >= 0 && read(file, text, sizeof(text) - 1) > 0)
    pages = strtoull(text, nullptr, 10);
  if (file >= 0)
    close(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Memory beyond what is mapped now fails to allocate.
bool limitMemory(uint64_t more) {
  uint64_t mapped = mappedBytes();
  rlimit limit{mapped + more, RLIM_INFINITY}; // another for the next compile
  return mapped > 0 && setrlimit(RLIMIT_AS, &limit) == 0;
}

/// How much longer than its processor time a compile may take by the clock: on
/// a busy machine it waits for a core.
double patienceOf(const GrammarLimits &limits) {
  constexpr double times = 6, least = 5;
  return std::max(limits.seconds * times, least);
}

/// 0 stops it.
bool startTimer(__itimer_which which, double after) {
  auto whole = static_cast<time_t>(after);
  itimerval timer{};
  timer.it_value.tv_sec = whole;
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::max(
      (after - static_cast<double>(whole)) * 1e6, after > 0 ? 1.0 : 0.0));
  return setitimer(which, &timer, nullptr) == 0; // its signal ends all
}

bool limitSeconds(const GrammarLimits &limits) {
  return startTimer(ITIMER_PROF, limits.seconds) &&
         startTimer(ITIMER_REAL, patienceOf(limits));
}

bool stopTimers() {
  return startTimer(ITIMER_PROF, 0) && startTimer(ITIMER_REAL, 0);
}

/// Compiles one grammar after another: what it learns about rules makes the
/// next ones cheaper. It ends with the first that is refused, whose remains are
/// not known, and once it holds much: with the compile under way it never has
/// more than 1 1/4 times the limit of one, beyond what the helper has.
[[noreturn]] void answer(int file, const GrammarLibrary &library,
                         const GrammarLimits &limits) {
  constexpr int most = 512, share = 4;
  uint64_t held = mappedBytes() + limits.memoryBytes / share;
  for (int i = 0; i < most; ++i) {
    Header header{};
    GrammarSpec spec;
    if (!writeAll(file, &ready, 1) || !readAll(file, &header, sizeof(header)) ||
        header.bytes > limits.specBytes || !limitSeconds(limits))
      break;
    if (!limitMemory(limits.memoryBytes)) {
      sendText(file, refused, "cannot be compiled where /proc is missing");
      break;
    }
    spec.kind = header.kind;
    spec.closed = header.closed;
    spec.text.resize(header.bytes);
    if (!readAll(file, spec.text.data(), spec.text.size()))
      break;
    Expected<std::string> text = library.compile(spec);
    sendText(file, text ? made : refused, text ? *text : text.error().what);
    if (!text || !stopTimers() || mappedBytes() > held)
      break;
  }
  _exit(0);
}

[[noreturn]] void serve(int socket, const GrammarVocabulary &vocabulary,
                        const GrammarLimits &limits) {
  // Those who end the server signal its group: it ends when the server does.
  for (int number = 1; number < NSIG; ++number)
    signal(number, SIG_DFL);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
    signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_IGN); // nobody waits for what it starts
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_NAME, "knapper-grammar");
  // Those who decode come first.
  constexpr int behind = 5;
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + behind);
  constexpr int at = 3; // behind the standard streams
  if (socket != at) {
    dup2(socket, at);
    socket = at;
  }
  closeDescriptors(at + 1);
  int null = open("/dev/null", O_RDWR);
  for (int stream = 0; stream < at && null >= 0; ++stream)
    dup2(null, stream);
  if (null >= at)
    close(null);
  auto library = GrammarLibrary::create(vocabulary);
  if (library) {
    // Not while the model is loaded, unless somebody waits.
    constexpr int quiet = 2000; // milliseconds
    pollfd waits{socket, POLLIN, 0};
    poll(&waits, 1, quiet);
    (*library)->warm();
  }
  while (true) {
    int file = receiveDescriptor(socket);
    if (file < 0)
      _exit(0);
    if (!library) {
      sendText(file, refused, library.error().what);
    } else if (fork() == 0) {
      close(socket);
      prctl(PR_SET_PDEATHSIG, SIGKILL); // it ends with the helper
      answer(file, **library, limits);
    }
    close(file);
  }
}

/// Reads until there are `least` bytes, or the other end closes; false: not in
/// time, or `stopping`.
bool readUntil(int file, std::string &text, double seconds, size_t least,
               const std::atomic<bool> &stopping) {
  constexpr int64_t slice = 50; // milliseconds
  auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  char part[1 << 16];
  while (text.size() < least && !stopping) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{file, POLLIN, 0};
    if (left.count() <= 0)
      return false;
    int ready = poll(&wait, 1,
                     static_cast<int>(std::min<int64_t>(left.count(), slice)));
    if (ready == 0 || (ready < 0 && errno == EINTR))
      continue;
    if (ready < 0)
      return false;
    ssize_t got = read(file, part, std::min(sizeof(part), least - text.size()));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return true;
    text.append(part, static_cast<size_t>(got));
  }
  return !stopping;
}

} // namespace

//===----------------------------------------------------------------------===//
// In the process that asks
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<GrammarHelper>>
GrammarHelper::start(const GrammarVocabulary &vocabulary,
                     const GrammarLimits &limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return systemError("no socket");
  // Signals of this process must not run its handlers in the copy.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  if (pid == 0)
    serve(ends[1], vocabulary, limits);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return systemError("no process");
  }
  return std::unique_ptr<GrammarHelper>(
      new GrammarHelper(ends[0], pid, limits));
}

GrammarHelper::~GrammarHelper() {
  close(socket);
  // It holds nothing that must be kept, and may be in the middle of its start.
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

static Error gone() {
  return deviceError("ended", "the process that compiles grammars",
                     "restart the server; is memory short?");
}

Expected<GrammarHelper::Copy> GrammarHelper::readyCopy(bool fresh) {
  while (true) {
    Copy copy;
    if (!fresh) {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        copy = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!copy.isUsed) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return systemError("no socket");
      copy.file = ends[0];
      bool sent = false;
      {
        std::lock_guard lock(mutex);
        sent = sendDescriptor(socket, ends[1]);
      }
      close(ends[1]);
      if (!sent)
        return gone();
    }
    std::string said;
    constexpr double startSeconds = 60; // the vocabulary is sorted first
    bool inTime = readUntil(copy.file, said, startSeconds, 1, stopping);
    // One that compiled before may have ended since.
    if (inTime && said.empty() && copy.isUsed)
      continue;
    if (!inTime || said.empty())
      return gone();
    copy.refuses = said[0] != ready;
    return copy;
  }
}

GrammarHelper::Copy::~Copy() {
  if (file >= 0)
    close(file);
}

Expected<std::string> GrammarHelper::compile(const GrammarSpec &spec) {
  if (spec.text.size() > limits.specBytes)
    return userError("is larger than " +
                         std::to_string(limits.specBytes >> 20) + " MiB",
                     "grammar", "a smaller grammar");
  ASSIGN_OR_RETURN(Copy copy, readyCopy(/*fresh=*/false));
  bool isUsed = copy.isUsed, broke = false;
  Expected<std::string> made = ask(std::move(copy), spec, broke);
  if (!broke || !isUsed || stopping)
    return made;
  // Somebody ended it, which says nothing about the grammar.
  ASSIGN_OR_RETURN(copy, readyCopy(/*fresh=*/true));
  return ask(std::move(copy), spec, broke);
}

Expected<std::string> GrammarHelper::ask(Copy copy, const GrammarSpec &spec,
                                         bool &broke) {
  auto start = std::chrono::steady_clock::now();
  constexpr double grace = 5; // it ends itself
  double most = patienceOf(limits) + grace;
  Header header{spec.kind, spec.closed, spec.text.size()};
  if (!copy.refuses &&
      (!writeAll(copy.file, &header, sizeof(header)) ||
       !writeAll(copy.file, spec.text.data(), spec.text.size()))) {
    broke = true;
    return gone();
  }
  // Of an answer: what it is, its length, itself.
  char kind = refused;
  uint64_t bytes = 0;
  std::string head, text;
  size_t headBytes = sizeof(bytes) + !copy.refuses;
  bool ended = readUntil(copy.file, head, most, headBytes, stopping);
  if (head.size() == headBytes) {
    kind = copy.refuses ? refused : head[0];
    memcpy(&bytes, head.data() + headBytes - sizeof(bytes), sizeof(bytes));
    if (bytes > limits.resultBytes)
      return userError("is larger than " +
                           std::to_string(limits.resultBytes >> 20) +
                           " MiB when it is compiled",
                       "grammar", "a smaller grammar");
    ended = readUntil(copy.file, text, most, bytes, stopping);
  }
  if (stopping)
    return gone();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  bool isWhole = head.size() == headBytes && text.size() == bytes;
  if (!ended || (!isWhole && took.count() >= limits.seconds)) {
    char limit[64];
    snprintf(limit, sizeof(limit), "%.3g s", limits.seconds);
    return userError(std::string("takes more than ") + limit + " to compile",
                     "grammar", "a smaller grammar");
  }
  broke = !isWhole;
  if (broke)
    return userError("needs more than " +
                         std::to_string(limits.memoryBytes >> 20) +
                         " MiB of memory to compile",
                     "grammar", "a smaller grammar");
  if (kind == refused)
    return userError(std::move(text), "grammar");
  copy.isUsed = true;
  std::lock_guard lock(mutex);
  idle.push_back(std::move(copy));
  return text;
}

} // namespace knapper::serving
