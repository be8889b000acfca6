// The Nth allocation fails, for every N until a call needs fewer: each failure
// is a DeviceError, nothing leaks, and the next call works. The allocator of
// the process is this file's, so that the library's calls, those of the C++
// runtime inside it and its threads are all seen.
#include "knapper/knapper.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

/// What fails: the allocation of this number, alone or with all that follow.
struct {
  std::atomic<bool> armed{false};
  std::atomic<int64_t> count{0};
  int64_t from = 0;
  bool onwards = false;
} injection;

std::atomic<int64_t> liveBlocks{0}, mappedBytes{0};

bool fails() {
  if (!injection.armed.load(std::memory_order_relaxed))
    return false;
  int64_t number = ++injection.count;
  return injection.onwards ? number >= injection.from
                           : number == injection.from;
}

void *counted(void *block) {
  if (block)
    ++liveBlocks;
  return block;
}

void arm(int64_t from, bool onwards) {
  injection.count = 0;
  injection.from = from;
  injection.onwards = onwards;
  injection.armed = true;
}
/// Whether anything failed.
bool disarm() {
  injection.armed = false;
  return injection.count >= injection.from;
}

} // namespace

#pragma GCC visibility push(default) // the library must find them
extern "C" {

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t size) {
  if (!fails())
    return counted(__libc_malloc(size));
  errno = ENOMEM;
  return nullptr;
}
void *calloc(size_t count, size_t size) {
  if (!fails())
    return counted(__libc_calloc(count, size));
  errno = ENOMEM;
  return nullptr;
}
void *realloc(void *block, size_t size) {
  if (fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  void *moved = __libc_realloc(block, size);
  return block ? moved : counted(moved);
}
void *memalign(size_t alignment, size_t size) {
  if (!fails())
    return counted(__libc_memalign(alignment, size));
  errno = ENOMEM;
  return nullptr;
}
void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
void free(void *block) {
  if (block)
    --liveBlocks;
  __libc_free(block);
}

static size_t wholePages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

void *mmap(void *at, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  if (fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  auto result = reinterpret_cast<void *>(
      syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  // Over a range that is mapped already nothing is added.
  if (result != MAP_FAILED && !(flags & MAP_FIXED))
    mappedBytes += static_cast<int64_t>(wholePages(bytes));
  return result;
}
int munmap(void *at, size_t bytes) noexcept {
  mappedBytes -= static_cast<int64_t>(wholePages(bytes));
  return static_cast<int>(syscall(SYS_munmap, at, bytes));
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*start)(void *), void *argument) {
  static auto real = reinterpret_cast<decltype(&pthread_create)>(
      dlsym(RTLD_NEXT, "pthread_create"));
  return fails() ? EAGAIN : real(thread, attributes, start, argument);
}

} // extern "C"
#pragma GCC visibility pop

namespace {

/// The model of tests/compat: launches on two threads, a loop, a constant, a
/// size that the run computes. Sizes differ from call to call, so that memory
/// is planned again.
const std::string path = KNAPPER_COMPAT_FILE;

std::vector<char> bytesOf(const std::string &file) {
  std::ifstream stream(file, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(stream), {});
}

knapper_load_options twoThreads() {
  knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
  options.threads = 2;
  return options;
}

struct CallInputs {
  int64_t shape[2];
  int64_t limit = 10;
  std::vector<float> data;
  knapper_tensor tensors[2];
  explicit CallInputs(int64_t rows)
      : shape{rows, 3}, data(static_cast<size_t>(rows) * 3, 2.0f) {
    tensors[0] = {data.data(), data.size() * 4, KNAPPER_F32, 2, shape};
    tensors[1] = {&limit, sizeof limit, KNAPPER_I64, 0, nullptr};
  }
};

void expectRight(knapper_result *result, int64_t rows) {
  ASSERT_NE(result, nullptr);
  knapper_tensor y = {}, z = {};
  ASSERT_EQ(knapper_result_output(result, 0, &y), nullptr);
  ASSERT_EQ(knapper_result_output(result, 2, &z), nullptr);
  ASSERT_EQ(y.shape[0], rows);
  EXPECT_EQ(static_cast<float *>(y.data)[rows - 1], 15); // 3 * (2 * 2 + 1)
  EXPECT_EQ(z.shape[0], rows * 3);
}

/// What a call that ran under injection has to show.
void expectDeviceError(knapper_error *error) {
  EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_DEVICE)
      << knapper_error_get_message(error);
  EXPECT_STRNE(knapper_error_get_message(error), "");
  knapper_error_release(error);
}

knapper_module *load() {
  knapper_load_options options = twoThreads();
  knapper_module *module = nullptr;
  EXPECT_EQ(knapper_load(path.c_str(), &options, &module), nullptr);
  return module;
}

/// Nothing may be needed to give something back.
template <typename T> void release(void (*function)(T *), T *object) {
  arm(1, true);
  function(object);
  disarm();
  EXPECT_EQ(injection.count, 0) << "a release allocates";
}

void runsRight(knapper_module *module, int64_t rows) {
  CallInputs inputs(rows);
  knapper_result *result = nullptr;
  ASSERT_EQ(knapper_run(module, inputs.tensors, 2, nullptr, 0, &result),
            nullptr);
  expectRight(result, rows);
  release(knapper_result_release, result);
}

/// A call under injection: its error, or null and `check` of what it gave.
struct FailingCall {
  const char *name;
  std::function<knapper_error *(knapper_module *)> make;
  std::function<void()> check; ///< takes the outcome of a call that succeeded
};

/// The calls on a module; `rows` is the size of the next run.
std::vector<FailingCall> callsOn(std::shared_ptr<CallInputs> &inputs,
                                 std::shared_ptr<knapper_result *> result,
                                 std::shared_ptr<char *> text) {
  auto right = [&inputs, result] {
    expectRight(*result, inputs->shape[0]);
    release(knapper_result_release, *result);
    *result = nullptr;
  };
  auto told = [text] {
    ASSERT_NE(*text, nullptr);
    knapper_string_release(*text);
    *text = nullptr;
  };
  std::string copy = testing::TempDir() + "/out_of_memory.knap";
  return {
      {"run",
       [&inputs, result](knapper_module *module) {
         return knapper_run(module, inputs->tensors, 2, nullptr, 0,
                            result.get());
       },
       right},
      {"run_async",
       [&inputs, result](knapper_module *module) {
         knapper_event *event = nullptr;
         if (knapper_error *error = knapper_run_async(module, inputs->tensors,
                                                      2, nullptr, 0, &event))
           return error;
         return knapper_event_wait(event, result.get());
       },
       right},
      {"profile",
       [&inputs, text](knapper_module *module) {
         return knapper_profile(module, inputs->tensors, 2, text.get());
       },
       told},
      {"devices",
       [text](knapper_module *) { return knapper_devices(0, text.get()); },
       told},
      {"describe",
       [](knapper_module *module) {
         const char *json = nullptr;
         return knapper_module_describe(module, &json);
       },
       [] {}},
      {"save",
       [copy](knapper_module *module) {
         return knapper_module_save(module, copy.c_str());
       },
       [copy] {
         EXPECT_EQ(bytesOf(copy), bytesOf(path));
         std::filesystem::remove(copy);
       }},
  };
}

/// In a process of its own: true if `body` returned without a failed check.
bool inAChild(const std::function<void()> &body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(600);
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

constexpr int64_t kMost = 100000; // allocations: more is a hang

} // namespace

/// First of all: the first calls of a process, when nothing is set up yet.
TEST(OutOfMemory, FirstCallsOfAProcess) {
  for (bool onwards : {false, true}) {
    bool last = false;
    for (int64_t n = 1; !last; ++n) {
      ASSERT_LT(n, kMost);
      SCOPED_TRACE(testing::Message() << n << (onwards ? " and all" : ""));
      int channel[2];
      ASSERT_EQ(pipe(channel), 0);
      bool good = inAChild([&] {
        knapper_load_options options = twoThreads();
        knapper_module *module = nullptr;
        knapper_result *result = nullptr;
        CallInputs inputs(5);
        arm(n, onwards);
        knapper_error *error = knapper_load(path.c_str(), &options, &module);
        if (!error)
          error = knapper_run(module, inputs.tensors, 2, nullptr, 0, &result);
        char hit = disarm();
        if (error)
          expectDeviceError(error);
        else
          expectRight(result, 5);
        if (!module)
          module = load();
        runsRight(module, 7);
        (void)!write(channel[1], &hit, 1);
      });
      EXPECT_TRUE(good);
      char hit = 1;
      if (good) {
        ASSERT_EQ(read(channel[0], &hit, 1), 1);
      }
      close(channel[0]);
      close(channel[1]);
      ASSERT_FALSE(HasFailure());
      last = !hit;
    }
  }
}

TEST(OutOfMemory, Load) {
  std::vector<char> file = bytesOf(path);
  knapper_load_options options = twoThreads();
  for (bool memory : {false, true})
    for (bool onwards : {false, true}) {
      auto make = [&](knapper_module **module) {
        return memory ? knapper_load_memory(file.data(), file.size(), &options,
                                            module)
                      : knapper_load(path.c_str(), &options, module);
      };
      knapper_module_release(load());
      bool hit = true;
      for (int64_t n = 1; hit; ++n) {
        ASSERT_LT(n, kMost);
        SCOPED_TRACE(testing::Message() << (memory ? "memory, " : "file, ") << n
                                        << (onwards ? " and all" : ""));
        int64_t blocks = liveBlocks, mapped = mappedBytes;
        knapper_module *module = nullptr;
        arm(n, onwards);
        knapper_error *error = make(&module);
        hit = disarm();
        ASSERT_GT(injection.count, 0) << "the library's allocator is another";
        if (error) {
          EXPECT_TRUE(hit);
          EXPECT_EQ(module, nullptr);
          expectDeviceError(error);
          ASSERT_EQ(make(&module), nullptr);
        }
        release(knapper_module_release, module);
        EXPECT_EQ(liveBlocks, blocks);
        EXPECT_EQ(mappedBytes, mapped);
        ASSERT_FALSE(HasFailure());
      }
    }
}

TEST(OutOfMemory, CallsOnAModule) {
  std::shared_ptr<CallInputs> inputs = std::make_shared<CallInputs>(2);
  auto result = std::make_shared<knapper_result *>(nullptr);
  auto text = std::make_shared<char *>(nullptr);
  for (const FailingCall &call : callsOn(inputs, result, text))
    for (bool onwards : {false, true}) {
      bool hit = true;
      int64_t blocks = 0, mapped = 0;
      for (int64_t n = 0; hit; ++n) { // 0: nothing fails, caches are filled
        ASSERT_LT(n, kMost);
        SCOPED_TRACE(testing::Message()
                     << call.name << ", " << n << (onwards ? " and all" : ""));
        if (n <= 1) {
          blocks = liveBlocks;
          mapped = mappedBytes;
        }
        // Large enough for two threads, small ones between.
        int64_t rows = n % 2 ? 3 + n : 40000;
        inputs = std::make_shared<CallInputs>(rows);
        knapper_module *module = load();
        arm(n == 0 ? kMost : n, onwards);
        knapper_error *error = call.make(module);
        hit = disarm() || n == 0;
        if (error) {
          EXPECT_TRUE(hit);
          expectDeviceError(error);
          ASSERT_EQ(call.make(module), nullptr);
        }
        call.check();
        runsRight(module, rows + 1);
        release(knapper_module_release, module);
        inputs = std::make_shared<CallInputs>(2);
        if (n > 0) {
          EXPECT_EQ(liveBlocks, blocks);
          EXPECT_EQ(mappedBytes, mapped);
        }
        ASSERT_FALSE(HasFailure());
      }
    }
}
