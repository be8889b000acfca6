// The C API as a C program sees it, linked against libknapper_rt: loading,
// errors, options, logs. RunApi_test has runs, OperatorApi_test operators.
#include "capi/testing/ScaleModule.h"
#include "capi/testing/TakeError.h"
#include "knapper/knapper.h"
#include "runtime/testing/TestArtefact.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using ::testing::HasSubstr;
using namespace knapper::testing;
using knapper::DType;

namespace {

// One heap: a second one would hold 64 MiB that a limit does not count, and
// running out of memory would take a minute.
[[maybe_unused]] const int oneHeap = mallopt(M_ARENA_MAX, 1);

} // namespace

TEST(CApi, LoadsInspectsRunsAndSaves) {
  std::string path = ::testing::TempDir() + "/capi.knap";
  {
    std::vector<std::byte> bytes = scaleFile();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<char *>(bytes.data()), bytes.size());
  }
  knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
  options.threads = 2;
  options.verify_constants = 1;
  knapper_module *module = nullptr;
  ASSERT_EQ(take(knapper_load(path.c_str(), &options, &module)), "no error");
  EXPECT_EQ(knapper_module_num_inputs(module), 1);
  EXPECT_EQ(knapper_module_num_outputs(module), 1);
  EXPECT_EQ(knapper_module_may_replace(module, 0, 0), 0);
  EXPECT_EQ(knapper_module_may_replace(module, 0, 1), 0);
  EXPECT_EQ(knapper_module_may_replace(module, -1, 7), 0);
  knapper_tensor_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(take(knapper_module_input(module, 0, &info)), "no error");
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.dtype, KNAPPER_F32);
  ASSERT_EQ(info.rank, 2);
  EXPECT_EQ(info.shape[0], -1);
  EXPECT_EQ(info.shape[1], 4);
  EXPECT_STREQ(info.dim_text[0], "n");
  EXPECT_THAT(take(knapper_module_output(module, 1, &info)),
              HasSubstr("there is no tensor 1 among 1"));
  // A caller of an older header has a shorter struct.
  info = {};
  info.size = offsetof(knapper_tensor_info, rank);
  info.rank = -7;
  ASSERT_EQ(take(knapper_module_input(module, 0, &info)), "no error");
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.rank, -7);
  EXPECT_EQ(info.shape, nullptr);

  Input x(5);
  knapper_result *result = nullptr;
  EXPECT_THAT(take(knapper_run(module, &x.tensor, -1, nullptr, 0, &result)),
              HasSubstr("-1 inputs at an address"));
  EXPECT_THAT(take(knapper_run(module, nullptr, 1, nullptr, 0, &result)),
              HasSubstr("1 inputs at NULL"));
  ASSERT_EQ(take(knapper_run(module, &x.tensor, 1, nullptr, 0, &result)),
            "no error");
  ASSERT_EQ(knapper_result_num_outputs(result), 1);
  knapper_tensor y;
  ASSERT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
  EXPECT_EQ(y.shape[0], 5);
  EXPECT_EQ(y.bytes, 80u);
  EXPECT_EQ(static_cast<float *>(y.data)[19], 7.0f);

  std::string copy = path + ".copy";
  ASSERT_EQ(take(knapper_module_save(module, copy.c_str())), "no error");
  EXPECT_EQ(std::filesystem::file_size(copy), std::filesystem::file_size(path));
  EXPECT_THAT(take(knapper_module_save(module, "/nowhere/at/all.knap")),
              HasSubstr("cannot write: No such file"));
  // The result outlives its module.
  knapper_module_release(module);
  EXPECT_EQ(static_cast<float *>(y.data)[0], 7.0f);
  knapper_result_release(result);
  std::filesystem::remove(path);
  std::filesystem::remove(copy);
}

TEST(CApi, TheExampleRuns) {
  std::string path = ::testing::TempDir() + "/example.knap";
  std::vector<std::byte> bytes = scaleFile();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<char *>(bytes.data()), bytes.size());
  auto output = [&](const std::string &arguments) {
    std::string command = KNAPPER_EXAMPLE " " + arguments + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    char text[1000] = {};
    (void)!fread(text, 1, sizeof text - 1, pipe);
    int status = pclose(pipe);
    return std::to_string(WEXITSTATUS(status)) + " " + text;
  };
  EXPECT_EQ(output(path + " 6"), "0 96 bytes of f32, first 3\n");
  EXPECT_THAT(output("/no/file"), HasSubstr("1 /no/file: cannot open"));
  std::filesystem::remove(path);
}

TEST(CApi, ErrorsHaveKindWhereAndHint) {
  knapper_module *module = nullptr;
  knapper_error *error = knapper_load("/does/not/exist", nullptr, &module);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_USER);
  EXPECT_STREQ(knapper_error_get_where(error), "/does/not/exist");
  EXPECT_STREQ(knapper_error_get_hint(error),
               "check the path and its permissions");
  EXPECT_THAT(take(error), HasSubstr("/does/not/exist: cannot open: No such"));
  EXPECT_EQ(module, nullptr);
  EXPECT_THAT(take(knapper_load("/a\x1b[2J\nb", nullptr, &module)),
              HasSubstr("/a\\x1b[2J\\x0ab: cannot open"));
  EXPECT_THAT(take(knapper_load("/", nullptr, &module)),
              HasSubstr("not a regular file"));
  EXPECT_THAT(take(knapper_load(nullptr, nullptr, &module)),
              HasSubstr("path is NULL"));
  EXPECT_THAT(take(knapper_load_memory("KNAPPER", 7, nullptr, &module)),
              HasSubstr("not a Knapper artefact"));
}

TEST(CApi, OptionsAreCheckedNotIgnored) {
  std::vector<std::byte> bytes = scaleFile();
  knapper_module *module = nullptr;
  auto attempt = [&](auto edit) {
    knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
    edit(options);
    return take(
        knapper_load_memory(bytes.data(), bytes.size(), &options, &module));
  };
  EXPECT_THAT(attempt([](auto &o) { o.threads = -1; }),
              HasSubstr("threads is -1"));
  EXPECT_THAT(attempt([](auto &o) { o.verify_constants = 3; }),
              HasSubstr("verify_constants is 3"));
  EXPECT_THAT(attempt([](auto &o) { o.spin_microseconds = -7; }),
              HasSubstr("spin_microseconds is -7"));
  EXPECT_THAT(attempt([](auto &o) { o.spin_microseconds = 1000001; }),
              HasSubstr("spin_microseconds is 1000001"));
  EXPECT_THAT(attempt([](auto &o) { o.isa = "z80"; }),
              HasSubstr("cannot use code for 'z80'"));
  EXPECT_THAT(attempt([](auto &o) { o.size = 0; }), HasSubstr("*_INIT macro"));
  // A struct of an older header ends early; a newer one may add zeros only.
  struct Newer {
    knapper_load_options known = KNAPPER_LOAD_OPTIONS_INIT;
    int64_t added = 0;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(take(knapper_load_memory(bytes.data(), bytes.size(), &newer.known,
                                     &module)),
            "no error");
  knapper_module_release(module);
  newer.added = 1;
  EXPECT_THAT(take(knapper_load_memory(bytes.data(), bytes.size(), &newer.known,
                                       &module)),
              HasSubstr("does not know"));
  EXPECT_EQ(attempt([](auto &o) { o.size = sizeof(size_t) + 4; }), "no error");
  knapper_module_release(module);
  setenv("KNAPPER_ISA", "x86-64-v9", 1);
  EXPECT_THAT(attempt([](auto &) {}), HasSubstr("'x86-64-v9'"));
  EXPECT_EQ(attempt([](auto &o) { o.isa = "x86-64-v3"; }), "no error");
  knapper_module_release(module);
  unsetenv("KNAPPER_ISA");
}

TEST(CApi, ThreadsFollowTheEnvironment) {
  std::vector<std::byte> bytes = scaleFile();
  auto threads = [&](int32_t wanted) -> std::string {
    knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
    options.threads = wanted;
    knapper_module *module = nullptr;
    std::string error = take(
        knapper_load_memory(bytes.data(), bytes.size(), &options, &module));
    if (!module)
      return error;
    const char *json = nullptr;
    EXPECT_EQ(take(knapper_module_describe(module, &json)), "no error");
    std::string text = json;
    knapper_module_release(module);
    size_t at = text.find("\"threads\":");
    return text.substr(at + 10, text.find(',', at) - at - 10);
  };
  const char *variables[] = {"KNAPPER_THREADS", "OMP_NUM_THREADS"};
  for (const char *variable : variables)
    unsetenv(variable);
  std::string cores = threads(0);
  EXPECT_EQ(threads(3), "3");
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(threads(0), "1");
  EXPECT_EQ(threads(3), "3");
  setenv("OMP_NUM_THREADS", "1,4", 1);
  EXPECT_EQ(threads(0), "1");
  for (const char *text : {"4096", "0", "-1", "", "many", "1x"}) {
    setenv("OMP_NUM_THREADS", text, 1);
    EXPECT_EQ(threads(0), cores) << text;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("KNAPPER_THREADS", "5", 1);
  EXPECT_EQ(threads(0), "5");
  EXPECT_EQ(threads(2), "2");
  setenv("KNAPPER_THREADS", "0", 1);
  EXPECT_EQ(threads(0), cores);
  for (const char *text : {"two", "-1", "1,2", "3x"}) {
    setenv("KNAPPER_THREADS", text, 1);
    EXPECT_THAT(threads(0),
                HasSubstr("environment variable KNAPPER_THREADS: '"));
  }
  for (const char *variable : variables)
    unsetenv(variable);
}

TEST(CApi, DamagedConstantsAreFoundBeforeTheyAreUsed) {
  TestArtefact a;
  uint32_t n = a.symbol("n"), four = a.constant(4);
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  std::vector<float> data(600000, 0.5f); // three pieces
  uint32_t c = a.constantBuffer(data);
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  a.launch(a.region(), "add", {x, c, y}, n);
  (void)four;
  std::vector<std::byte> good = a.bytes();
  std::vector<float> in(100, 1.0f), out(100);
  std::vector<int64_t> shape = {100};
  knapper_tensor from = knapper::testing::tensor(in, shape),
                 to = knapper::testing::tensor(out, shape);
  auto attempt = [&](const std::vector<std::byte> &bytes, int32_t verify) {
    knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
    options.verify_constants = verify;
    options.threads = 2;
    knapper_module *module = nullptr;
    std::string error = take(
        knapper_load_memory(bytes.data(), bytes.size(), &options, &module));
    if (!module)
      return "load: " + error;
    for (int run = 0; run < 2; ++run) { // the second finds it too
      knapper_result *result = nullptr;
      error = take(knapper_run(module, &from, 1, &to, 1, &result));
      knapper_result_release(result);
    }
    knapper_module_release(module);
    return error;
  };
  for (int32_t verify : {0, 1, 2}) {
    EXPECT_EQ(attempt(good, verify), "no error");
    EXPECT_EQ(out[99], 1.5f);
  }
  for (size_t at : {4096ul, 4096ul + (1 << 20), 4096ul + 4 * 600000 - 1}) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte(1);
    out[0] = -7;
    EXPECT_THAT(attempt(bad, KNAPPER_VERIFY_BEFORE_USE),
                HasSubstr("memory: the artefact is damaged at offset 0x"));
    EXPECT_EQ(out[0], -7.0f);
    EXPECT_THAT(
        attempt(bad, KNAPPER_VERIFY_AT_LOAD),
        HasSubstr("load: memory: the artefact is damaged at offset 0x"));
    EXPECT_EQ(attempt(bad, KNAPPER_VERIFY_NOT), "no error");
  }
}

TEST(CApi, ListsTheMachine) {
  char *json = nullptr;
  ASSERT_EQ(take(knapper_devices(0, &json)), "no error");
  EXPECT_THAT(json, HasSubstr(R"([{"device":"cpu","name":")"));
  EXPECT_THAT(json, HasSubstr(R"("cores":)"));
  knapper_string_release(json);
}

TEST(CApi, RunningOutOfMemoryIsADeviceError) {
  // A copy of the bytes that no address space holds.
  knapper_module *module = nullptr;
  knapper_error *error =
      knapper_load_memory(&module, size_t(1) << 60, nullptr, &module);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_DEVICE);
  EXPECT_THAT(take(error), HasSubstr("cannot allocate 1152921504606846976"));
}

TEST(CApi, ExceptionsOfTheLibraryEndInside) {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the sanitizer owns the address space";
#endif
  LoadedScale m;
  Input x(1);
  std::vector<float> out(4);
  knapper_tensor y = knapper::testing::tensor(out, x.shape);
  pid_t child = fork();
  if (child == 0) {
    // Results are kept until there is no memory for another.
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &limit);
    for (int i = 0; i < 10000000; ++i) {
      knapper_result *result = nullptr;
      knapper_error *error =
          knapper_run(m.module, &x.tensor, 1, &y, 1, &result);
      if (!error)
        continue;
      bool good = knapper_error_get_kind(error) == KNAPPER_ERROR_DEVICE &&
                  strstr(knapper_error_get_message(error), "out of memory");
      knapper_error_release(error);
      _exit(good ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CApi, TheRuntimeAloneDoesNotCompile) {
  EXPECT_EQ(knapper_has_compiler(), 0);
  EXPECT_STREQ(knapper_version(), "0.1.0");
  knapper_module *module = nullptr;
  char *text = nullptr;
  for (knapper_error *error :
       {knapper_compile(nullptr, nullptr, &module),
        knapper_inspect(nullptr, &text), knapper_explain(nullptr, &text),
        knapper_explain_with(nullptr, nullptr, &text, nullptr)}) {
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_USER);
    EXPECT_THAT(take(error), HasSubstr("it has no compiler"));
  }
}

TEST(CApi, LogsOnlyWhenAsked) {
  std::vector<std::string> lines;
  auto callback = [](void *user, knapper_log_level, const char *text) {
    static_cast<std::vector<std::string> *>(user)->push_back(text);
  };
  knapper_set_log_callback(callback, &lines, KNAPPER_LOG_WARNING);
  {
    LoadedScale quiet;
  }
  EXPECT_TRUE(lines.empty());
  knapper_set_log_callback(callback, &lines, KNAPPER_LOG_INFO);
  {
    LoadedScale talks;
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("loaded memory: 1 kernels, 1 launches"));
  knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
  {
    LoadedScale quiet;
  }
  EXPECT_EQ(lines.size(), 1u);
}

TEST(CApi, LogCallbacksMaySetAnother) {
  static int calls;
  static knapper_log_callback self;
  calls = 0;
  self = [](void *, knapper_log_level, const char *) {
    ++calls;
    LoadedScale inner; // logs, too: one level deeper
    knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
  };
  knapper_set_log_callback(
      [](void *, knapper_log_level, const char *) {
        ++calls;
        knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
        knapper_set_log_callback(self, nullptr, KNAPPER_LOG_INFO);
      },
      nullptr, KNAPPER_LOG_INFO);
  {
    LoadedScale once;
  }
  EXPECT_EQ(calls, 1);
  knapper_set_log_callback(
      [](void *, knapper_log_level, const char *) {
        ++calls;
        knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
      },
      nullptr, KNAPPER_LOG_INFO);
  {
    LoadedScale twice, silent;
  }
  EXPECT_EQ(calls, 2);
}

TEST(CApi, SettingALogCallbackWaitsForTheFormerOne) {
  struct State {
    std::atomic<bool> running = false, ended = false;
  } state;
  knapper_set_log_callback(
      [](void *user, knapper_log_level, const char *) {
        auto *state = static_cast<State *>(user);
        state->running = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        state->ended = true;
      },
      &state, KNAPPER_LOG_INFO);
  std::thread other([] { LoadedScale talks; });
  while (!state.running)
    std::this_thread::yield();
  knapper_set_log_callback(nullptr, nullptr, KNAPPER_LOG_OFF);
  EXPECT_TRUE(state.ended);
  other.join();
}

TEST(CApi, HandlesThatAreNull) {
  EXPECT_EQ(knapper_module_num_inputs(nullptr), 0);
  EXPECT_EQ(knapper_module_num_outputs(nullptr), 0);
  EXPECT_EQ(knapper_module_may_replace(nullptr, 0, 0), 0);
  EXPECT_EQ(knapper_result_num_outputs(nullptr), 0);
  EXPECT_EQ(knapper_event_done(nullptr), 1);
  EXPECT_EQ(knapper_event_wait_for(nullptr, 1), 1);
  knapper_event_cancel(nullptr);
  EXPECT_EQ(knapper_error_get_kind(nullptr), KNAPPER_ERROR_INTERNAL);
  for (auto text : {knapper_error_get_message, knapper_error_get_where,
                    knapper_error_get_hint})
    EXPECT_STREQ(text(nullptr), "");
  knapper_tensor_info info = {};
  info.size = sizeof info;
  EXPECT_THAT(take(knapper_module_input(nullptr, 0, &info)),
              HasSubstr("module is NULL"));
  EXPECT_THAT(take(knapper_module_output(nullptr, 0, &info)),
              HasSubstr("module is NULL"));
  knapper_module_release(nullptr);
  knapper_result_release(nullptr);
  knapper_error_release(nullptr);
}

TEST(CApi, DtypesHaveSizesAndNames) {
  EXPECT_EQ(knapper_dtype_size(KNAPPER_BF16), 2u);
  EXPECT_EQ(knapper_dtype_size(static_cast<knapper_dtype>(99)), 0u);
  EXPECT_STREQ(knapper_dtype_name(KNAPPER_I64), "i64");
}
