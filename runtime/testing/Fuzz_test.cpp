// Damaged artefacts: a file is refused with a UserError that says where, or it
// runs; it never crashes or hangs. Half of the mutations change bytes, half
// edit the header's tree and hash it again. What still loads is run: on the
// null driver whatever it says, on the CPU when the mutation left alone what
// kernels see (a .knap is native code: a launch that lies to a kernel is a
// program; one that lies to a vendor's library is not: KNAPPER_VENDOR_PATH says
// where oneDNN lies, without it such launches take compiled code).
//
// KNAPPER_FUZZ_CASES and KNAPPER_FUZZ_SEED change the extent; a failure prints
// the seed of its case.
#include "runtime/testing/TestArtefact.h"

#include "runtime/artefact/Format.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/profile/Describe.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <unistd.h>

using namespace knapper;
using namespace knapper::testing;

namespace {

/// Puts a library's choice before the launch's own: two matmuls of `rows` x 6
/// and 6 x 8 elements at the start of its first two arguments.
void offerMatmul(TestArtefact &a, fb::LaunchT &launch, uint32_t rows) {
  auto kernel = std::make_unique<fb::KernelT>();
  kernel->num_buffers = static_cast<uint32_t>(launch.args.size());
  kernel->library = fb::VendorLibrary::onednn;
  auto choice = std::make_unique<fb::ChoiceT>(*launch.choices[0]);
  choice->kernel = static_cast<uint32_t>(a.header.kernels.size());
  a.header.kernels.push_back(std::move(kernel));
  uint32_t zero = a.constant(0), one = a.constant(1), two = a.constant(2),
           six = a.constant(6), eight = a.constant(8);
  auto matrix = [&](uint32_t arg, uint32_t rowStride, uint32_t batchStride) {
    auto made = std::make_unique<fb::VendorMatrixT>();
    made->arg = arg;
    made->dtype = fb::DType::f32;
    made->offset = zero;
    made->batch_strides = {batchStride};
    made->row_stride = rowStride;
    made->column_stride = one;
    return made;
  };
  auto matmul = std::make_unique<fb::VendorMatmulT>();
  matmul->batch = {two};
  matmul->rows = rows;
  matmul->columns = eight;
  matmul->depth = six;
  matmul->lhs = matrix(0, six, a.mul(rows, six));
  matmul->rhs = matrix(1, eight, zero);
  matmul->result = matrix(2, eight, a.mul(rows, eight));
  matmul->bias = matrix(1, zero, zero);
  matmul->activation = fb::VendorActivation::relu;
  choice->matmul = std::move(matmul);
  launch.choices.insert(launch.choices.begin(), std::move(choice));
}

/// A little of everything: symbols (some late), temps, constants, If, While,
/// Repeat, Call, BindSymbol, SetSymbols, Assert, choices, a library's matmul,
/// checks.
TestArtefact original() {
  TestArtefact a({"x86-64-v3", "x86-64-v4"});
  uint32_t n = a.symbol("n", 1, 100000), k = a.symbol("k", 0, 1000, 1, true);
  uint32_t one = a.constant(1), four = a.constant(4), eight = a.constant(8);
  uint32_t bytes = a.mul(n, four);
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  uint32_t flag = a.input("flag", DType::i1, {});
  uint32_t limit = a.input("limit", DType::i64, {});
  uint32_t c = a.constantBuffer(std::vector<float>(4096, 1.0f));
  uint32_t t = a.temp(bytes, 0, 12);
  uint32_t count = a.temp(eight, 8, 9);
  uint32_t positive = a.temp(a.mul(k, four), 10, 11);
  uint32_t more = a.temp(one, 2, 6);
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  uint32_t counter = a.output("counter", DType::i64, {});
  uint32_t z = a.output("z", DType::f32, {k}, {"k"});
  uint32_t main = a.region(), condition = a.region(), body = a.region(),
           yes = a.region(), no = a.region(), shared = a.region();
  a.launch(main, "scale", {x, t}, n);                       // 0
  a.copy(main, limit, counter, eight);                      // 1
  a.whileLoop(main, more, condition, body);                 // 2
  a.launch(condition, "less", {counter, limit, more}, one); // 3
  a.launch(body, "count_up", {counter}, one, {four});       // 4
  a.ifElse(main, flag, yes, no);                            // 5
  a.launch(yes, "add", {t, c, y}, n);                       // 6
  a.copy(no, t, y, bytes);                                  // 7
  a.launch(main, "count_positive", {x, count}, one, {n});   // 8
  a.bindSymbol(main, count, k);                             // 9
  a.launch(main, "keep_positive", {x, positive}, one, {n}); // 10
  a.launch(main, "scale", {positive, z}, k);                // 11
  a.call(main, shared);                                     // 12
  a.copy(shared, t, y, bytes);                              // 13
  a.program().buffers[t]->last = 13;
  a.program().buffers[more]->last = 13;
  uint32_t iteration = a.symbol("iteration", 0, -1, 1, true),
           rows = a.symbol("rows", 0, -1, 1, true);
  uint32_t body2 = a.region(), next = a.op(fb::ScalarOp::add, iteration, one);
  uint32_t grown = a.temp(a.mul(rows, eight), 14, 18);
  a.repeat(main, iteration, a.constant(5), -1, body2); // 14
  a.setSymbols(body2, {{rows, next}});            // 15
  a.assertion(body2, a.op(fb::ScalarOp::le, rows, a.constant(5)),
              "too many");                                 // 16
  a.launch(body2, "count_positive", {x, grown}, one, {n}); // 17
  a.program().regions[body2]->instructions.back()->instruction.AsLaunch()->args
      [1] = fb::BufferRef(grown, a.mul(iteration, eight));
  a.copy(body2, limit, counter, eight); // 18
  uint32_t words = a.symbol("words", 0, 9, 1, true), three = a.constant(3);
  uint32_t split = a.temp(a.mul(a.mul(three, words), a.constant(16)), 20, 20);
  uint32_t line = a.temp(a.constant(48), 19, 20);
  uint32_t counts = a.output("counts", DType::i64, {three});
  auto attribute = [](fb::ExternalT &e, const char *name,
                      fb::AttributeKind kind) -> fb::AttributeT & {
    e.attributes.push_back(std::make_unique<fb::AttributeT>());
    e.attributes.back()->name = name;
    e.attributes.back()->kind = kind;
    return *e.attributes.back();
  };
  fb::ExternalT &made = a.external(main, "knapper", "StringConstant", {},
                                   {{line, DType::text, {three}}}); // 19
  attribute(made, "shape", fb::AttributeKind::integers).integers = {3};
  auto &values = attribute(made, "values", fb::AttributeKind::texts).texts;
  for (int i = 0; i < 3; ++i) {
    values.push_back(std::make_unique<fb::TextT>());
    values.back()->bytes = {'a', ' ', 'b'};
  }
  a.external(
      main, "knapper", "StringSplit", {{line, DType::text, {three}}},
      {{split, DType::text, {three, words}}, {counts, DType::i64, {three}}},
      {words}); // 20
  // rows of the matmul: n, which the constant's 4096 elements bound
  uint32_t sums = a.mul(a.mul(n, a.constant(2)), eight);
  uint32_t matmul = a.output("matmul", DType::f32, {sums}, {"sums"});
  offerMatmul(a, a.launch(main, "add", {c, c, matmul}, sums), n); // 21
  a.check(a.op(fb::ScalarOp::le, n, a.constant(256)), "too long");
  return a;
}

/// The tree of a file's header.
fb::ArtefactT unpack(std::span<const std::byte> bytes) {
  Prelude prelude;
  memcpy(&prelude, bytes.data(), sizeof prelude);
  fb::ArtefactT tree;
  fb::GetArtefact(bytes.data() + prelude.headerOffset)->UnPackTo(&tree);
  return tree;
}

/// The file with another header, hashed again.
std::vector<std::byte> repack(std::span<const std::byte> bytes,
                              const fb::ArtefactT &tree) {
  Prelude prelude;
  memcpy(&prelude, bytes.data(), sizeof prelude);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Artefact::Pack(builder, &tree), fb::ArtefactIdentifier());
  std::vector<std::byte> out(bytes.begin(),
                             bytes.begin() + prelude.headerOffset);
  auto *header = reinterpret_cast<std::byte *>(builder.GetBufferPointer());
  out.insert(out.end(), header, header + builder.GetSize());
  prelude.headerBytes = builder.GetSize();
  prelude.headerHash = hashBytes(header, builder.GetSize());
  memcpy(out.data(), &prelude, sizeof prelude);
  return out;
}

struct Mutator {
  std::mt19937_64 random;

  uint64_t below(uint64_t n) { return n ? random() % n : 0; }
  template <typename T> T &any(std::vector<T> &list) {
    return list[below(list.size())];
  }
  /// A library's kernel has no code.
  fb::KernelCodeT &anyCode(fb::ArtefactT &tree) {
    for (;;)
      if (auto &codes = any(tree.kernels)->codes; !codes.empty())
        return *any(codes);
  }
  /// A number that is likely to be near some limit.
  uint64_t number(uint64_t near) {
    switch (below(8)) {
    case 0:
      return 0;
    case 1:
      return near + 1;
    case 2:
      return near - 1;
    case 3:
      return ~uint64_t(0);
    case 4:
      return uint64_t(1) << below(64);
    case 5:
      return near * 2 + below(3);
    default:
      return below(40);
    }
  }

  std::vector<std::byte> changeBytes(std::vector<std::byte> bytes) {
    Prelude prelude;
    memcpy(&prelude, bytes.data(), sizeof prelude);
    for (uint64_t n = 1 + below(8); n > 0; --n) {
      uint64_t at = below(2) ? prelude.headerOffset + below(prelude.headerBytes)
                    : below(2) ? below(sizeof prelude)
                               : below(bytes.size());
      at = std::min<uint64_t>(at, bytes.size() - 1);
      switch (below(4)) {
      case 0:
        bytes[at] ^= std::byte(1 << below(8));
        break;
      case 1:
        bytes[at] = std::byte(below(256));
        break;
      case 2: {
        uint32_t word = static_cast<uint32_t>(number(below(bytes.size())));
        memcpy(bytes.data() + at, &word,
               std::min<size_t>(4, bytes.size() - at));
        break;
      }
      case 3:
        if (below(20) == 0)
          bytes.resize(1 + below(bytes.size()));
        break;
      }
    }
    // Mostly the hash is made right again: the verifier has to find it.
    if (below(4) && bytes.size() > sizeof prelude) {
      Prelude now;
      memcpy(&now, bytes.data(), sizeof now);
      if (now.headerOffset <= bytes.size() &&
          now.headerBytes <= bytes.size() - now.headerOffset) {
        now.headerHash =
            hashBytes(bytes.data() + now.headerOffset, now.headerBytes);
        memcpy(bytes.data(), &now, sizeof now);
      }
    }
    return bytes;
  }

  /// Edits what a vendor's library is asked for.
  void editMatmul(fb::ProgramT &p, fb::VendorMatmulT &matmul) {
    auto value = [&] {
      return uint32_t(below(4) ? below(p.values.size())
                               : number(p.values.size()));
    };
    std::unique_ptr<fb::VendorMatrixT> *sides[] = {
        &matmul.lhs, &matmul.rhs, &matmul.result, &matmul.bias};
    std::unique_ptr<fb::VendorMatrixT> &side = *sides[below(4)];
    if (below(2) && side) {
      uint32_t *fields[] = {&side->offset, &side->row_stride,
                            &side->column_stride};
      switch (below(5)) {
      case 0:
        side->arg = uint32_t(number(2));
        break;
      case 1:
        side->dtype = fb::DType(below(14));
        break;
      case 2:
        side->batch_strides.resize(below(3), value());
        break;
      default:
        *fields[below(3)] = value();
      }
      return;
    }
    uint32_t *sizes[] = {&matmul.rows, &matmul.columns, &matmul.depth};
    switch (below(6)) {
    case 0:
      side = nullptr;
      break;
    case 1:
      matmul.batch.resize(below(3), value());
      break;
    case 2:
      matmul.activation = fb::VendorActivation(below(5));
      matmul.tf32 ^= below(2);
      break;
    default:
      *sizes[below(3)] = value();
    }
  }

  /// Edits the tree; returns whether kernels may notice.
  bool editTree(fb::ArtefactT &tree) {
    fb::ProgramT &p = *tree.programs[0];
    auto value = [&] { return uint32_t(number(p.values.size())); };
    auto valid = [&] { return uint32_t(below(p.values.size())); };
    auto bufferIndex = [&] { return uint32_t(number(p.buffers.size())); };
    fb::RegionT &region = *any(p.regions);
    fb::InstructionBoxT *box =
        region.instructions.empty() ? nullptr : any(region.instructions).get();
    switch (below(24)) {
    case 0:
      any(p.values) = fb::Scalar(fb::ScalarOp(below(18)), value(), value(),
                                 int64_t(number(10)));
      return true;
    case 1:
      any(p.values) = fb::Scalar(fb::ScalarOp(below(16)), valid(), valid(),
                                 int64_t(number(10)));
      return true;
    case 2:
      any(p.symbols)->max = int64_t(number(4));
      return true;
    case 3:
      any(p.symbols)->from_buffer ^= 1;
      return true;
    case 4: {
      fb::TensorSignatureT &t = *any(below(2) ? p.inputs : p.outputs);
      t.dims.push_back(below(2) ? valid() : value());
      t.dim_text.resize(t.dims.size() - (below(8) == 0));
      return true;
    }
    case 5:
      any(below(2) ? p.inputs : p.outputs)->dtype = fb::DType(below(12));
      return true;
    case 6:
      any(p.buffers)->bytes = below(2) ? valid() : value();
      return true;
    case 7:
      any(p.buffers)->first = uint32_t(number(18));
      return false; // overlapping temps stay inside the arena
    case 8:
      any(p.buffers)->last = uint32_t(number(18));
      return false;
    case 9:
      any(p.buffers)->kind = fb::BufferKind(below(5));
      return true;
    case 10: {
      fb::BufferT &b = *any(p.buffers);
      b.index = uint32_t(number(3));
      b.constant_offset = number(4096 * 4);
      b.constant_bytes = number(4096 * 4);
      return true;
    }
    case 11:
      if (auto *l = box ? box->instruction.AsLaunch() : nullptr) {
        fb::ChoiceT &c = *any(l->choices);
        uint32_t *fields[] = {&c.guard,   &c.kernel, &c.grid,  &c.grain,
                              &c.scratch, &l->flops, &l->bytes};
        *fields[below(7)] = below(2) ? valid() : value();
        if (!l->args.empty() && below(3) == 0)
          any(l->args) = fb::BufferRef(bufferIndex(), value());
      }
      return true;
    case 12:
      if (auto *c = box ? box->instruction.AsCopy() : nullptr) {
        (below(2) ? c->source : c->target) =
            std::make_unique<fb::BufferRef>(bufferIndex(), valid());
        c->bytes = valid();
      }
      return true; // a copy may feed a kernel's index
    case 13:
      if (auto *i = box ? box->instruction.AsIf() : nullptr)
        i->then_region = uint32_t(number(p.regions.size()));
      else if (auto *w = box ? box->instruction.AsWhile() : nullptr)
        w->body_region = uint32_t(number(p.regions.size()));
      else if (auto *call = box ? box->instruction.AsCall() : nullptr)
        call->region = uint32_t(number(p.regions.size()));
      else if (auto *r = box ? box->instruction.AsRepeat() : nullptr) {
        switch (below(4)) {
        case 0:
          r->body_region = uint32_t(number(p.regions.size()));
          break;
        case 1:
          r->counter = uint32_t(number(p.symbols.size()));
          break;
        case 2:
          r->trips = value();
          break;
        case 3:
          r->condition =
              below(2)
                  ? nullptr
                  : std::make_unique<fb::BufferRef>(bufferIndex(), valid());
          break;
        }
      } else if (auto *set = box ? box->instruction.AsSetSymbols() : nullptr) {
        if (below(3) == 0)
          set->symbols.push_back(uint32_t(number(p.symbols.size())));
        if (below(3) == 0)
          set->values.push_back(valid());
        if (!set->values.empty())
          any(set->values) = value();
      } else if (auto *a = box ? box->instruction.AsAssert() : nullptr) {
        if (below(4) == 0)
          a->check = nullptr;
        else
          a->check->value = value();
      }
      return true;
    case 14:
      if (!region.instructions.empty())
        region.instructions.erase(region.instructions.begin() +
                                  below(region.instructions.size()));
      return true;
    case 15:
      if (box)
        any(p.regions)->instructions.push_back(
            std::make_unique<fb::InstructionBoxT>(*box));
      return true;
    case 16:
      any(tree.sections)->offset = number(8192) & ~uint64_t(below(2) * 4095);
      return true;
    case 17:
      any(tree.sections)->bytes = number(8192);
      return true;
    case 18:
      anyCode(tree).entry = number(4096);
      return true;
    case 19:
      anyCode(tree).target = uint32_t(number(2));
      any(tree.targets)->isa = below(2) ? "x86-64-v3" : "z80";
      any(tree.targets)->program = uint32_t(number(2));
      return true;
    default:
      for (auto &i : p.regions[0]->instructions)
        if (auto *l = i->instruction.AsLaunch())
          for (auto &c : l->choices)
            if (c->matmul)
              editMatmul(p, *c->matmul);
      return false; // the library's calls are checked, unlike kernels
    }
    return true;
  }
};

/// Ends runs that a mutation made endless.
class Watchdog {
public:
  int32_t cancel = 0;
  Watchdog() {
    thread = std::thread([this] {
      while (!stop.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        if (running.load() && ++ticks > 10)
          std::atomic_ref<int32_t>(cancel).store(1);
      }
    });
  }
  ~Watchdog() {
    stop = true;
    thread.join();
  }
  void begin() {
    ticks = 0;
    std::atomic_ref<int32_t>(cancel).store(0);
    running = true;
  }
  void end() { running = false; }

private:
  std::atomic<bool> stop{false}, running{false};
  std::atomic<int> ticks{0};
  std::thread thread;
};

void runOnce(Module &m, Watchdog &dog) {
  std::vector<knapper_tensor> inputs;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::vector<int64_t>> data; // aligned for everything
  const Program &p = m.program();
  for (const Program::Tensor &t : p.inputs) {
    shapes.emplace_back();
    int64_t elements = 1;
    for (int64_t d : t.staticDims) {
      shapes.back().push_back(d >= 0 && d < 64 ? d : 16);
      elements = std::min<int64_t>(elements * shapes.back().back(), 1 << 16);
    }
    data.emplace_back(elements + 1, 0);
    inputs.push_back({data.back().data(), data.back().size() * 8,
                      static_cast<knapper_dtype>(t.dtype),
                      static_cast<int32_t>(t.dims.size()),
                      shapes.back().data()});
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i].shape = shapes[i].data();
  RunResult result;
  dog.begin();
  for (int round = 0; round < 2; ++round) {
    Status s = m.run(inputs, {}, result, {.cancel = Cancel(&dog.cancel)});
    if (!s) {
      EXPECT_NE(s.error().kind, ErrorKind::internal) << s.error().message();
      break;
    }
  }
  dog.end();
}

} // namespace

TEST(Fuzz, DamagedArtefactsAreRefusedOrRun) {
  const char *casesText = getenv("KNAPPER_FUZZ_CASES");
  const char *seedText = getenv("KNAPPER_FUZZ_SEED");
  uint64_t cases = casesText ? strtoull(casesText, nullptr, 10) : 1000;
  uint64_t seed = seedText ? strtoull(seedText, nullptr, 10) : 1;
  std::vector<std::byte> good = original().bytes();
  auto cpu = cpu::device();
  auto null = null::device();
  {
    auto m = loadBytes(good, {}, cpu);
    ASSERT_TRUE(m) << m.error().message();
    Watchdog dog;
    runOnce(**m, dog);
    ASSERT_FALSE(dog.cancel);
  }
  Watchdog dog;
  uint64_t refused = 0, nullRuns = 0, cpuRuns = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    SCOPED_TRACE("KNAPPER_FUZZ_SEED=" + std::to_string(seed + i) +
                 " KNAPPER_FUZZ_CASES=1");
    // With one case the parity of the seed decides, as it did in the series.
    bool structured = (seed + i) % 2;
    Mutator mutator{std::mt19937_64((seed + i) * 7919)};
    std::vector<std::byte> bytes;
    bool kernelsMayNotice = true;
    if (structured) {
      fb::ArtefactT tree = unpack(good);
      kernelsMayNotice = false;
      for (uint64_t n = 1 + mutator.below(3); n > 0; --n)
        kernelsMayNotice |= mutator.editTree(tree);
      bytes = repack(good, tree);
    } else {
      bytes = mutator.changeBytes(good);
    }
    auto start = std::chrono::steady_clock::now();
    auto artefact =
        Artefact::loadMemory(bytes, {i % 3 == 0 ? ConstantChecks::atLoad
                                                : ConstantChecks::beforeUse});
    if (!artefact) {
      ++refused;
      EXPECT_EQ(artefact.error().kind, ErrorKind::user);
      EXPECT_NE(artefact.error().message().find("offset"), std::string::npos)
          << artefact.error().message();
      continue;
    }
    auto onNull = Module::load(*artefact, null, {});
    if (!onNull) {
      ++refused;
      EXPECT_EQ(onNull.error().kind, ErrorKind::user)
          << onNull.error().message();
    } else {
      ++nullRuns;
      describeModule(**onNull);
      runOnce(**onNull, dog);
    }
    auto onCpu = Module::load(*artefact, cpu, {});
    if (!onCpu) {
      EXPECT_EQ(onCpu.error().kind, ErrorKind::user) << onCpu.error().message();
    } else if (!kernelsMayNotice) {
      ++cpuRuns;
      runOnce(**onCpu, dog);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(120));
    if (::testing::Test::HasFailure())
      break;
  }
  printf("%llu cases: %llu refused, %llu run on null, %llu run on cpu\n",
         static_cast<unsigned long long>(cases),
         static_cast<unsigned long long>(refused),
         static_cast<unsigned long long>(nullRuns),
         static_cast<unsigned long long>(cpuRuns));
  if (cases >= 1000) {
    EXPECT_GT(refused, cases / 4);
    EXPECT_GT(nullRuns, cases / 20);
    EXPECT_GT(cpuRuns, 0u);
  }
}
