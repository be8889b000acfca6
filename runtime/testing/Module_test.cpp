// What a module does whatever its program: inputs that it refuses, guards,
// threads, memory that it keeps. Programs_test has what programs compute.
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/null/NullDevice.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <limits>
#include <new>
#include <thread>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::HasSubstr;

#if !defined(__has_feature) ||                                                 \
    !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#define COUNT_ALLOCATIONS 1
static std::atomic<uint64_t> allocations{0};
void *operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void *memory = malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
#endif

namespace {

using ModulePtr = std::shared_ptr<Module>;

} // namespace

TEST(Module, RefusesWrongInputsBeforeAKernelRuns) {
  ModulePtr m = rowProgram().load();
  std::vector<float> x(100);
  RunResult result;
  auto attempt = [&](std::vector<int64_t> shape, knapper_dtype dtype,
                     size_t bytes) {
    knapper_tensor t = {x.data(), bytes, dtype,
                        static_cast<int32_t>(shape.size()), shape.data()};
    Status s = m->run({&t, 1}, {}, result);
    EXPECT_TRUE(s || s.error().kind == ErrorKind::user);
    EXPECT_TRUE(result.outputs().empty());
    return errorOf(s);
  };
  EXPECT_THAT(attempt({4}, KNAPPER_F32, 400),
              HasSubstr("input 'x': expected f32[rows, cols], got f32[4]"));
  EXPECT_THAT(attempt({2, 2}, KNAPPER_I64, 400),
              HasSubstr("expected f32[rows, cols], got i64[2, 2]"));
  EXPECT_THAT(attempt({2, 2}, KNAPPER_F32, 15),
              HasSubstr("takes 16 bytes, 15 were given"));
  EXPECT_THAT(attempt({-2, 2}, KNAPPER_F32, 400), HasSubstr("not negative"));
  EXPECT_THAT(attempt({INT64_MAX, INT64_MAX}, KNAPPER_F32, 400),
              HasSubstr("fit in memory"));
  EXPECT_THAT(attempt({1, 0}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 0, it must be at least 1"));
  EXPECT_THAT(attempt({0, 5000}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 5000, it may be at most 4096"));
  EXPECT_THAT(attempt({0, 4097}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 4097, it may be at most 4096"));
  EXPECT_THAT(attempt({100, 1}, KNAPPER_F32, 400),
              HasSubstr("node: too many rows"));
  EXPECT_THAT(errorOf(m->run({}, {}, result)),
              HasSubstr("the model has 1 inputs, 0 were given"));
}

TEST(Module, ChecksDimsThatAreExpressionsOrRepeat) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 1, -1, 2);
  uint32_t twice = a.mul(n, a.constant(2));
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  a.input("unused", DType::f32, {twice, n}, {"2*n", "n"});
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, y}, n);
  ModulePtr m = a.load();
  std::vector<float> data(64);
  std::vector<int64_t> one = {4}, two = {8, 4};
  knapper_tensor inputs[] = {tensor(data, one), tensor(data, two)};
  RunResult result;
  EXPECT_TRUE(m->run(inputs, {}, result));
  two = {7, 4};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("dim 0 must be 8"));
  two = {8, 2};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("dim 1 must be 4: that is 'n' in an earlier dim"));
  one = {3};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("size 'n' is 3, it must be a multiple of 2"));
}

TEST(Module, GuardsChooseAmongKernels) {
  // n < 4: y = x*2+1, else y = x + x.
  VectorProgram p;
  TestArtefact &a = p.artefact;
  p.addTwice();
  // Same arguments for both choices: scale with a third, unused buffer.
  p.scale();
  auto &instructions = a.program().regions[0]->instructions;
  auto *add = instructions[0]->instruction.AsLaunch();
  auto *scale = instructions[1]->instruction.AsLaunch();
  scale->choices[0]->guard = a.op(fb::ScalarOp::lt, p.n, a.constant(4));
  a.header.kernels[scale->choices[0]->kernel]->num_buffers = 3;
  std::swap(add->args[1], add->args[2]); // in, out, in
  a.header.kernels[add->choices[0]->kernel]->codes[0]->entry =
      kernelEntry("x86-64-v3", "add");
  add->choices.insert(add->choices.begin(), std::move(scale->choices[0]));
  // add reads buffers 0 and 1, writes 2: give it (x, y, x)'s neighbour order.
  instructions.pop_back();
  ModulePtr m = a.load();
  auto run = [&](int64_t size) {
    std::vector<float> data(size, 5.0f);
    std::vector<float> out(size, 0.0f);
    std::vector<int64_t> shape = {size};
    knapper_tensor input = tensor(data, shape), output = tensor(out, shape);
    RunResult result;
    Status s = m->run({&input, 1}, {&output, 1}, result);
    EXPECT_TRUE(s) << errorOf(s);
    // add wrote x + y into x's place, y stays 0; scale wrote y.
    return std::pair(data[0], out[0]);
  };
  EXPECT_EQ(run(3), std::pair(5.0f, 11.0f));
  EXPECT_EQ(run(4), std::pair(5.0f, 0.0f));
}

TEST(Module, ManyThreadsRunOneModule) {
  ModulePtr m = rowProgram().load({.threads = 2});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      RunResult result;
      std::vector<float> x;
      for (int i = 0; i < 200; ++i) {
        int64_t rows = 1 + (i + t) % 9, cols = 16 + (i * 7 + t) % 50;
        Status s = runRows(*m, rows, cols, result, x);
        wrong += !s || floats(result.outputs()[0]) != rowResult(x, rows, cols);
      }
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Module, SpreadsALaunchOverAsManyThreadsAsTheGrainAllows) {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  a.input("size", DType::i1, {n});
  uint32_t y = a.output("y", DType::i32, {n});
  uint32_t main = a.region();
  fb::LaunchT &launch = a.launch(main, "workers", {y}, n);
  launch.choices[0]->grain = a.constant(4);
  ModulePtr m = a.load({.threads = 3});
  auto workers = [&](int64_t size) {
    std::vector<char> data(size);
    RunResult result;
    Status s = runVector(*m, data, result, DType::i1);
    EXPECT_TRUE(s) << errorOf(s);
    auto *out = static_cast<int *>(result.outputs()[0].data);
    return std::vector<int>(out, out + size);
  };
  EXPECT_THAT(workers(10), Each(3));
  EXPECT_THAT(workers(5), Each(2)); // the grain
  EXPECT_THAT(workers(3), Each(1));
}

TEST(Module, ARepeatedRunAllocatesNothing) {
#ifndef COUNT_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer owns the allocator";
#else
  ModulePtr m = rowProgram().load({.threads = 2});
  std::vector<float> x(200);
  std::vector<int64_t> shape = {10, 20};
  knapper_tensor input = tensor(x, shape);
  RunResult result;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(m->run({&input, 1}, {}, result));
  void *memory = result.outputs()[0].data;
  uint64_t before = allocations.load();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(m->run({&input, 1}, {}, result));
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_EQ(result.outputs()[0].data, memory);
#endif
}

TEST(Module, BitsDoNotDependOnTheCallersFloatMode) {
  VectorProgram p;
  p.addTwice();
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040); // flush denormals to zero, read them as zero
  ModulePtr m = p.artefact.load({.threads = 2});
  float denormal = std::numeric_limits<float>::denorm_min();
  std::vector<float> data(1000, denormal);
  RunResult result;
  Status s = runVector(*m, data, result);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(after, before | 0x8040);
  EXPECT_EQ(floats(result.outputs()[0]),
            std::vector<float>(1000, 2 * denormal));
}

TEST(Module, ALaunchCostsLittle) {
  VectorProgram p;
  for (int i = 0; i < 1000; ++i)
    p.scale();
  for (int threads : {1, 2}) {
    ModulePtr m = p.artefact.load({.threads = threads});
    std::vector<float> data(2);
    std::vector<int64_t> shape = {2};
    knapper_tensor input = tensor(data, shape);
    RunResult result;
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(m->run({&input, 1}, {}, result));
      times.push_back(std::chrono::duration<double, std::micro>(
                          std::chrono::steady_clock::now() - start)
                          .count() /
                      1000);
    }
    std::sort(times.begin(), times.end());
    printf("%d threads: %.3f us a launch, best %.3f us\n", threads,
           times[times.size() / 2], times[0]);
    EXPECT_LT(times[0], 5.0);
  }
}

TEST(Module, TheNullDriverRunsEverythingButKernels) {
  ModulePtr m = rowProgram().load({}, null::device());
  RunResult result;
  std::vector<float> x;
  Status s = runRows(*m, 5, 7, result, x);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(result.outputs()[0].shape[0], 5);
}

TEST(Module, BadThreadsIsRefusedAtLoad) {
  TestArtefact a = rowProgram();
  auto m = loadBytes(a.bytes(), {.threads = -3});
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(),
              HasSubstr("option threads: threads is -3, it must be 0"));
}

TEST(Binding, ScratchPastTheBoundIsRefused) {
  TestArtefact a = rowProgram();
  for (auto &box : a.program().regions[0]->instructions)
    if (fb::LaunchT *launch = box->instruction.AsLaunch())
      launch->choices[0]->scratch = a.constant((int64_t(1) << 32) + 1);
  std::vector<int64_t> symbols = {8, 100};
  ModulePtr m = a.load();
  auto b = m->binding(symbols);
  ASSERT_FALSE(b);
  EXPECT_THAT(b.error().message(), HasSubstr("scratch 4294967297"));
}

TEST(Binding, PlansAndExplains) {
  TestArtefact a = rowProgram();
  ModulePtr m = a.load();
  std::vector<int64_t> symbols = {8, 100};
  auto b = m->binding(symbols);
  ASSERT_TRUE(b);
  EXPECT_EQ((*b)->arenaBytes, 8 * 100 * 4 + 64u);
  EXPECT_EQ((*b)->scratch, 256u);
  EXPECT_EQ(expressionText(m->program(), 2), "rows*cols");
}
