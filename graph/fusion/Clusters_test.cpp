// Partitions of random blocks beside what a search of the whole graph says.
#include "graph/fusion/Clusters.h"
#include "graph/fusion/FormKernels.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

#include <ctime>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

using Id = Clusters::Id;

struct ClustersTest : ::testing::Test {
  MLIRContext context;
  ClustersTest() { context.loadDialect<TsDialect, func::FuncDialect>(); }

  /// A function of sums of earlier values: the one before, where `chain`, and
  /// others of any distance.
  OwningOpRef<ModuleOp> make(unsigned count, bool chain, unsigned seed) {
    std::mt19937 random(seed);
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    Type type = RankedTensorType::get({64}, builder.getF32Type());
    auto function = func::FuncOp::create(
        loc, "main", builder.getFunctionType({type}, {type}));
    module->push_back(function);
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    SmallVector<Value> values{block->getArgument(0)};
    for (unsigned i = 0; i < count; ++i) {
      Value first = chain ? values.back() : values[random() % values.size()];
      values.push_back(AddOp::create(builder, loc, type, first,
                                     values[random() % values.size()]));
    }
    func::ReturnOp::create(builder, loc, values.back());
    return module;
  }
  static SmallVector<Operation *> opsOf(ModuleOp module) {
    Block &block = (*module.getOps<func::FuncOp>().begin()).getBody().front();
    return llvm::map_to_vector(block.without_terminator(),
                               [](Operation &op) { return &op; });
  }
};

/// The clusters that a cluster's results lead to, by the ops alone.
llvm::DenseSet<Id> readersOf(const Clusters &clusters, Id id) {
  llvm::DenseSet<Id> found;
  for (Operation *op : clusters.ops(id))
    for (Operation *user : op->getUsers())
      if (std::optional<Id> other = clusters.of(user))
        found.insert(*other);
  found.erase(id);
  return found;
}

/// Is there a way from `a` to `b` through a third?
bool standsBetween(const Clusters &clusters, Id a, Id b) {
  llvm::DenseSet<Id> seen;
  SmallVector<Id> work;
  for (Id next : readersOf(clusters, a))
    if (next != b && seen.insert(next).second)
      work.push_back(next);
  while (!work.empty())
    for (Id next : readersOf(clusters, work.pop_back_val())) {
      if (next == b)
        return true;
      if (seen.insert(next).second)
        work.push_back(next);
    }
  return false;
}

void expectOrder(const Clusters &clusters) {
  llvm::DenseMap<Id, size_t> place;
  for (auto [i, id] : llvm::enumerate(clusters.inOrder()))
    place[id] = i;
  for (Id id : clusters.inOrder()) {
    llvm::DenseSet<Id> readers = readersOf(clusters, id);
    SmallVector<Id> consumers = clusters.consumers(id);
    EXPECT_EQ(consumers.size(), readers.size());
    for (Id reader : consumers) {
      EXPECT_TRUE(readers.contains(reader));
      EXPECT_LT(place[id], place[reader]);
      EXPECT_TRUE(llvm::is_contained(clusters.producers(reader), id));
    }
  }
}

TEST_F(ClustersTest, MergesKeepAnOrderAndRefuseCycles) {
  unsigned merged = 0, refused = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    OwningOpRef<ModuleOp> module = make(60, seed % 2, seed);
    Clusters clusters(opsOf(*module), {});
    std::mt19937 random(seed);
    for (unsigned i = 0; i < 150; ++i) {
      SmallVector<Id> order = clusters.inOrder();
      Id a = order[random() % order.size()], b = order[random() % order.size()];
      if (a == b)
        continue;
      bool cycle =
          standsBetween(clusters, a, b) || standsBetween(clusters, b, a);
      ASSERT_EQ(clusters.mayMerge(a, b), !cycle);
      cycle ? ++refused : ++merged;
      if (!cycle)
        clusters.merge(a, b);
    }
    expectOrder(clusters);
  }
  EXPECT_GT(merged, 500u);
  EXPECT_GT(refused, 500u);
}

TEST_F(ClustersTest, WhatIsReadAgainStandsBetweenNoMore) {
  OwningOpRef<ModuleOp> module = make(3, true, 0);
  SmallVector<Operation *> ops = opsOf(*module);
  ops[2]->setOperands({ops[0]->getResult(0), ops[0]->getResult(0)});
  ops[1]->setOperands({ops[0]->getResult(0), ops[0]->getResult(0)});
  ops[2]->setOperand(1, ops[1]->getResult(0));
  Clusters clusters(ops, {});
  Id first = *clusters.of(ops[0]), last = *clusters.of(ops[2]);
  EXPECT_FALSE(clusters.mayMerge(first, last));
  ops[2]->setOperand(1, ops[0]->getResult(0));
  clusters.readEdges();
  EXPECT_TRUE(clusters.mayMerge(first, last));
}

TEST_F(ClustersTest, LabelsWithoutRoomAreGivenAnew) {
  OwningOpRef<ModuleOp> module = make(400, true, 1);
  SmallVector<Operation *> ops = opsOf(*module);
  Clusters clusters(ops, {});
  Id first = *clusters.of(ops.front());
  for (unsigned i = 1; i < 300; ++i) {
    ASSERT_TRUE(clusters.mayMerge(first, *clusters.of(ops[i])));
    first = clusters.merge(first, *clusters.of(ops[i]));
  }
  // Each is placed between the cluster and the one before.
  for (unsigned i = 299; i > 0; --i)
    clusters.split(ops[i], /*before=*/false);
  clusters.readEdges();
  EXPECT_EQ(clusters.inOrder().size(), 400u);
  expectOrder(clusters);
}

/// Of this thread, which other work does not lengthen.
double secondsToForm(func::FuncOp function) {
  constexpr config::Machine machine{.keptBytes = 4 << 20,
                                    .fmaFlops = 4e11,
                                    .copyBandwidth = 2e10,
                                    .cacheBandwidth = 1e11,
                                    .launchSeconds = 2e-6};
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  EXPECT_TRUE(succeeded(formKernels(function, machine)));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

TEST_F(ClustersTest, TimeIsThatOfTheOps) {
  double seconds[2] = {1e9, 1e9}; // the least of three
  for (unsigned i = 0; i < 6; ++i) {
    OwningOpRef<ModuleOp> module = make(i % 2 ? 9000 : 1500, true, 7);
    double taken = secondsToForm(*module->getOps<func::FuncOp>().begin());
    seconds[i % 2] = std::min(seconds[i % 2], taken);
  }
  // 6 times the ops; a square would be 36 times the time.
  EXPECT_LT(seconds[1], 14 * seconds[0]);
}

} // namespace
