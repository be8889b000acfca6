// Operators of the host's inside a run.
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/operators/Registry.h"
#include "runtime/testing/RemoteDevice.h"
#include "runtime/testing/TestArtefact.h"

#include <gmock/gmock.h>

using namespace knapper;
using namespace knapper::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

std::vector<std::string> strings(const knapper_tensor &t) {
  auto *data = static_cast<const knapper_string *>(t.data);
  std::vector<std::string> out;
  for (size_t i = 0; i < t.bytes / sizeof *data; ++i)
    out.emplace_back(data[i].data, data[i].size);
  return out;
}
/// y = -x; fails for the number 13.
int negate(void *, const knapper_call *call) {
  auto *x = static_cast<const float *>(call->inputs[0].data);
  auto *y = static_cast<float *>(call->outputs[0].data);
  for (size_t i = 0; i < call->outputs[0].bytes / 4; ++i) {
    if (x[i] == 13) {
      call->fail(call, "13 has no negative");
      return 1;
    }
    y[i] = -x[i];
  }
  return 0;
}

/// The numbers above 0, as many as there are.
int positiveShape(void *, const knapper_call *call,
                  knapper_result_shape *results) {
  results[0] = {KNAPPER_F32, 1, {-1}};
  if (!call->running)
    return 0;
  auto *x = static_cast<const float *>(call->inputs[0].data);
  results[0].shape[0] = 0;
  for (size_t i = 0; i < call->inputs[0].bytes / 4; ++i)
    results[0].shape[0] += x[i] > 0;
  return 0;
}
int positive(void *, const knapper_call *call) {
  auto *x = static_cast<const float *>(call->inputs[0].data);
  auto *y = static_cast<float *>(call->outputs[0].data);
  for (size_t i = 0; i < call->inputs[0].bytes / 4; ++i)
    if (x[i] > 0)
      *y++ = x[i];
  return 0;
}

/// y = -x by the device: neither reads nor waits here.
int negateThere(void *, const knapper_call *call) {
  auto *x = static_cast<const float *>(call->inputs[0].data);
  auto *y = static_cast<float *>(call->outputs[0].data);
  auto work = [x, y, size = call->outputs[0].bytes / 4] {
    for (size_t i = 0; i < size; ++i)
      y[i] = -x[i];
  };
  if (call->stream)
    static_cast<RemoteStream *>(call->stream)->work.push_back(work);
  else
    work();
  return 0;
}

/// Every string twice.
int twice(void *, const knapper_call *call) {
  auto *x = static_cast<const knapper_string *>(call->inputs[0].data);
  auto *y = static_cast<knapper_string *>(call->outputs[0].data);
  for (size_t i = 0; i < call->inputs[0].bytes / sizeof *x; ++i) {
    auto *made = static_cast<char *>(call->allocate(call, 2 * x[i].size));
    if (!made)
      return 1;
    memcpy(made, x[i].data, x[i].size);
    memcpy(made + x[i].size, x[i].data, x[i].size);
    y[i] = {made, 2 * x[i].size};
  }
  return 0;
}

class External : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    add("Negate", nullptr, negate);
    add("Positive", positiveShape, positive);
    add("Twice", nullptr, twice);
    add("NegateThere", nullptr, negateThere, true);
  }
  static void add(const char *name, decltype(knapper_operator::shape) shape,
                  decltype(knapper_operator::compute) compute,
                  bool onDevice = false) {
    knapper_operator op = KNAPPER_OPERATOR_INIT;
    op.domain = "test";
    op.name = name;
    op.shape = shape;
    op.compute = compute;
    op.on_device = onDevice;
    ASSERT_TRUE(registerOperator(op));
  }
  std::shared_ptr<Device> device() const {
    return std::string(GetParam()) == "cpu" ? cpu::device() : remoteDevice();
  }
};

/// y = -(x*2+1)*2+1.
TestArtefact negating(const char *op = "Negate") {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0), bytes = a.mul(n, a.constant(4));
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  uint32_t s = a.temp(bytes, 0, 1), t = a.temp(bytes, 1, 2);
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, s}, n);
  a.external(main, "test", op, {{s, DType::f32, {n}}}, {{t, DType::f32, {n}}});
  a.launch(main, "scale", {t, y}, n);
  return a;
}

} // namespace

/// Also again, and with nothing to do.
static void runsAtSeveralSizes(Module &m) {
  RunResult result;
  for (size_t size : {3, 0, 5, 5, 3}) {
    std::vector<float> x(size, 2.0f);
    std::vector<int64_t> shape{static_cast<int64_t>(size)};
    knapper_tensor input = tensor(x, shape);
    Status s = m.run({&input, 1}, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    EXPECT_EQ(floats(result.outputs()[0]), std::vector<float>(size, -9.0f));
  }
}

TEST_P(External, RunsBetweenLaunches) {
  runsAtSeveralSizes(*negating().load({}, device()));
}

TEST_P(External, OneOfTheDeviceRunsInItsQueue) {
  runsAtSeveralSizes(*negating("NegateThere").load({}, device()));
}

// What it gave its stream is in the caller's graph; one of the host's would
// wait.
TEST_F(External, OneOfTheDeviceIsCaptured) {
  std::shared_ptr<Device> remote = remoteDevice();
  auto x = std::move(*remote->allocate(8, MemoryKind::device));
  auto y = std::move(*remote->allocate(8, MemoryKind::device));
  auto *in = static_cast<float *>(x->address());
  auto *out = static_cast<float *>(y->address());
  std::vector<int64_t> shape{2};
  knapper_tensor given = {in, 8, KNAPPER_F32, 1, shape.data()};
  knapper_tensor made = {out, 8, KNAPPER_F32, 1, shape.data()};
  RemoteStream stream{{}, true};
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  auto m = negating("NegateThere").load({}, remote);
  Status s = m->run({&given, 1}, {&made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  for (float value : {2.0f, 3.0f}) {
    in[0] = in[1] = value;
    for (auto &command : stream.work)
      command();
    EXPECT_THAT(std::vector(out, out + 2),
                ElementsAre(-4 * value - 1, -4 * value - 1));
  }
  auto waits = negating().load({}, remote);
  EXPECT_THAT(errorOf(waits->run({&given, 1}, {&made, 1}, unused, options)),
              HasSubstr("which a capture cannot"));
}

TEST_P(External, AFailureNamesTheNodeAndTheNextRunIsWhole) {
  auto m = negating().load({}, device());
  RunResult result;
  std::vector<float> x{6, 1};
  std::vector<int64_t> shape{2};
  knapper_tensor input = tensor(x, shape);
  Status s = m->run({&input, 1}, {}, result);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::user);
  EXPECT_THAT(errorOf(s), HasSubstr("Negate_node: 13 has no negative"));
  x[0] = 5;
  s = m->run({&input, 1}, {}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(-21, -5));
}

TEST_P(External, GivesSizesThatOnlyTheRunKnows) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0);
  uint32_t found = a.symbol("found", 0, 3, 1, true);
  uint32_t bytes = a.mul(found, a.constant(4));
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  uint32_t kept = a.temp(bytes, 0, 1);
  uint32_t y = a.output("y", DType::f32, {found}, {"found"});
  uint32_t main = a.region();
  a.external(main, "test", "Positive", {{x, DType::f32, {n}}},
             {{kept, DType::f32, {found}}}, {found});
  a.launch(main, "scale", {kept, y}, found);
  auto m = a.load({}, device());
  RunResult result;
  auto run = [&](std::vector<float> data) {
    std::vector<int64_t> shape{static_cast<int64_t>(data.size())};
    knapper_tensor input = tensor(data, shape);
    return m->run({&input, 1}, {}, result);
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    Status s = run({1, -2, 3});
    ASSERT_TRUE(s) << errorOf(s);
    EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(3, 7));
    s = run({-1});
    ASSERT_TRUE(s) << errorOf(s);
    EXPECT_THAT(floats(result.outputs()[0]), ElementsAre());
  }
  EXPECT_THAT(errorOf(run({1, 2, 3, 4})),
              HasSubstr("size 'found' is 4, it may be at most 3"));
}

TEST_P(External, StringsOutliveTheirInputs) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0), bytes = a.mul(n, a.constant(16));
  uint32_t x = a.input("x", DType::text, {n}, {"n"});
  uint32_t once = a.temp(bytes, 0, 1);
  uint32_t y = a.output("y", DType::text, {n}, {"n"});
  uint32_t same = a.output("same", DType::text, {n}, {"n"});
  uint32_t main = a.region();
  a.external(main, "test", "Twice", {{x, DType::text, {n}}},
             {{once, DType::text, {n}}});
  a.external(main, "test", "Twice", {{once, DType::text, {n}}},
             {{y, DType::text, {n}}});
  a.copy(main, x, same, bytes);
  auto m = a.load({}, device());
  RunResult result;
  std::vector<int64_t> shape{3};
  for (std::string word : {"ab", "a longer word than the first one"}) {
    std::string text = word;
    std::vector<knapper_string> words{
        {text.data(), text.size()}, {nullptr, 0}, {"z\0z", 3}};
    knapper_tensor input{words.data(), 48, KNAPPER_STRING, 1, shape.data()};
    Status s = m->run({&input, 1}, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    text.assign(text.size(), '?'); // the result has bytes of its own
    EXPECT_THAT(strings(result.outputs()[0]),
                ElementsAre(word + word + word + word, "",
                            std::string("z\0zz\0zz\0zz\0z", 12)));
    EXPECT_THAT(strings(result.outputs()[1]),
                ElementsAre(word, "", std::string("z\0z", 3)));
  }
  std::vector<knapper_string> bad{{nullptr, 0}, {nullptr, 4}, {nullptr, 0}};
  knapper_tensor input{bad.data(), 48, KNAPPER_STRING, 1, shape.data()};
  EXPECT_THAT(errorOf(m->run({&input, 1}, {}, result)),
              HasSubstr("input 'x': string 1 has 4 bytes at NULL"));
}

TEST_P(External, StringsOfTheCallersArrayToo) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0);
  uint32_t x = a.input("x", DType::text, {n}, {"n"});
  uint32_t y = a.output("y", DType::text, {n}, {"n"});
  uint32_t main = a.region();
  a.external(main, "test", "Twice", {{x, DType::text, {n}}},
             {{y, DType::text, {n}}});
  auto m = a.load({}, device());
  RunResult result;
  std::vector<int64_t> shape{1};
  std::string text = "ab";
  knapper_string word{text.data(), 2}, out{};
  knapper_tensor input{&word, 16, KNAPPER_STRING, 1, shape.data()};
  knapper_tensor output{&out, 16, KNAPPER_STRING, 1, shape.data()};
  for (const char *other : {"ab", "cd", "ef"}) { // the same call again
    text = other;
    Status s = m->run({&input, 1}, {&output, 1}, result);
    ASSERT_TRUE(s) << errorOf(s);
    EXPECT_EQ(std::string(out.data, out.size), text + text);
  }
}

INSTANTIATE_TEST_SUITE_P(OnDevices, External,
                         ::testing::Values("cpu", "remote"));

TEST_F(External, AnUnregisteredOperatorIsNamedWhenLoading) {
  add("Gone", nullptr, negate);
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  a.external(a.region(), "test", "Gone", {{x, DType::f32, {n}}},
             {{y, DType::f32, {n}}});
  auto m = a.load();
  ASSERT_TRUE(unregisterOperator("test", "Gone"));
  auto refused = loadBytes(a.bytes());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::user);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("operator test.Gone is not registered"));
  EXPECT_THAT(refused.error().hint, HasSubstr("--operators"));
  std::vector<float> data{1}; // who has loaded it keeps it
  std::vector<int64_t> shape{1};
  knapper_tensor input = tensor(data, shape);
  RunResult result;
  Status s = m->run({&input, 1}, {}, result);
  EXPECT_TRUE(s) << errorOf(s);
}

TEST_F(External, AnotherShapeThanCompiledIsRefused) {
  TestArtefact a;
  uint32_t n = a.symbol("n"), two = a.constant(2);
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {two});
  a.external(a.region(), "test", "Negate", {{x, DType::f32, {n}}},
             {{y, DType::f32, {two}}});
  auto m = a.load();
  std::vector<float> data{1, 2, 3};
  std::vector<int64_t> shape{3};
  knapper_tensor input = tensor(data, shape);
  RunResult result;
  EXPECT_THAT(errorOf(m->run({&input, 1}, {}, result)),
              HasSubstr("Negate_node: result 0 of the operator is f32[3], the "
                        "model was compiled for f32[2]"));
}

TEST_F(External, BytesOfKernelsAreNeverStrings) {
  TestArtefact a;
  uint32_t n = a.symbol("n"), bytes = a.mul(n, a.constant(16));
  uint32_t x = a.input("x", DType::f64, {n});
  uint32_t t = a.temp(bytes, 0, 2);
  uint32_t y = a.output("y", DType::text, {n});
  uint32_t main = a.region();
  a.copy(main, x, t, bytes);
  a.copy(main, t, y, bytes);
  EXPECT_THAT(loadBytes(a.bytes()).error().message(),
              HasSubstr("holds strings and something else"));
  TestArtefact b;
  uint32_t one = b.constant(1);
  uint32_t z = b.output("z", DType::text, {one});
  b.launch(b.region(), "level", {z}, one);
  EXPECT_THAT(loadBytes(b.bytes()).error().message(),
              HasSubstr("holds strings and something else"));
}

TEST_F(External, AttributesReachTheOperator) {
  add(
      "Fill",
      [](void *, const knapper_call *call, knapper_result_shape *results) {
        results[0] = {KNAPPER_F32, 1, {call->attributes[0].ints[0]}};
        return 0;
      },
      [](void *, const knapper_call *call) {
        auto *y = static_cast<float *>(call->outputs[0].data);
        for (int i = 0; i < call->attributes[0].ints[0]; ++i)
          y[i] = call->attributes[1].floats[i];
        return call->inputs[0].rank == -1 ? 0 : 1;
      });
  TestArtefact a;
  uint32_t two = a.constant(2);
  uint32_t y = a.output("y", DType::f32, {two});
  fb::ExternalT &e =
      a.external(a.region(), "test", "Fill", {}, {{y, DType::f32, {two}}});
  e.inputs.push_back(std::make_unique<fb::ExternalTensorT>()); // left out
  for (auto kind : {fb::AttributeKind::integer, fb::AttributeKind::reals}) {
    e.attributes.push_back(std::make_unique<fb::AttributeT>());
    e.attributes.back()->kind = kind;
  }
  e.attributes[0]->integers = {2};
  e.attributes[1]->reals = {1.5f, 2.5f};
  auto m = a.load();
  RunResult result;
  Status s = m->run({}, {}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(1.5f, 2.5f));
  e.attributes[0]->integers = {2, 3};
  EXPECT_THAT(loadBytes(a.bytes()).error().message(),
              HasSubstr("is not whole"));
}
