// Matmuls from the tensor level: schedule, tile program, image, call.
#include "codegen/schedule/core/Schedule.h"
#include "ir/config/MatmulCpuConfig.h"
#include "targets/cpu/KernelTest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <random>

using namespace knapper;

namespace {

// abs(x w + bias) with symbolic rows.
std::string source(int k, int n) {
  auto t = [](std::string dims) { return "tensor<" + dims + "xf32>"; };
  std::string ks = std::to_string(k), ns = std::to_string(n);
  std::string x = "tensor<?x" + ks + "xf32, #ts.dims<\"m\", " + ks + ">>",
              y = "tensor<?x" + ns + "xf32, #ts.dims<\"m\", " + ns + ">>",
              w = t(ks + "x" + ns), v = t(ns);
  return "func.func @f(%x: " + x + ", %w: " + w + ", %v: " + v + ") -> " + y +
         " {\n%r = ts.kernel matmul (%a = %x : " + x + ", %b = %w : " + w +
         ", %c = %v : " + v + ") -> " + y +
         " {\n%d = ts.dot %a, %b batch [] x [] contract [1] x [0] : " + x +
         ", " + w + "\n%e = ts.broadcast %c [1] : " + v + " to " + y +
         "\n%g = ts.add %d, %e : " + y + "\n%h = ts.abs %g : " + y +
         "\nts.yield %h : " + y + "\n}\nreturn %r : " + y + "\n}\n";
}

class Matmul : public testing::TestWithParam<std::string_view> {
protected:
  void run(int k, int n, bool packed, std::vector<int> rowCounts) {
    if (!runsHere(GetParam()))
      GTEST_SKIP() << "this machine does not run " << GetParam();
    std::string text = source(k, n);
    auto target = cpuTarget(GetParam());
    int64_t panel = 0;
    std::map<int, int64_t> grid;
    KernelJob job{
        "k",
        [&](mlir::MLIRContext &context,
            const TargetDesc &target) -> mlir::OwningOpRef<mlir::ModuleOp> {
          auto tensors =
              mlir::parseSourceString<mlir::ModuleOp>(text, &context);
          if (!tensors)
            return {};
          ts::KernelOp kernel;
          tensors->walk([&](ts::KernelOp op) { kernel = op; });
          mlir::OpBuilder builder(&context);
          if (packed)
            kernel->setAttr("ts.constants",
                            builder.getDenseBoolArrayAttr({false, true, true}));
          auto schedules = chooseSchedules(kernel, target);
          if (failed(schedules))
            return {};
          const Schedule &schedule = schedules->front();
          config::MatmulCpuConfig config;
          EXPECT_EQ(config::parse(schedule.parameters, config), "");
          panel = config.panel;
          for (int rows : rowCounts)
            grid[rows] = *schedule.grid.evaluate(
                [&](llvm::StringRef) -> std::optional<int64_t> {
                  return rows;
                });
          mlir::OwningOpRef<mlir::ModuleOp> module =
              mlir::ModuleOp::create(builder.getUnknownLoc());
          builder.setInsertionPointToEnd(module->getBody());
          if (failed(buildTileProgram(builder, kernel, schedule, target, "k",
                                      kernelSymbols(kernel))))
            return {};
          return module;
        }};
    mlir::DialectRegistry registry;
    registry.insert<ts::TsDialect, mlir::func::FuncDialect>();
    auto images = compileKernels({&job, 1}, {&*target, 1}, 1, &registry);
    ASSERT_TRUE(images) << images.error().message();
    auto loaded = ElfImage::load(
        std::as_bytes(std::span(images->front().image.code)), "test");
    ASSERT_TRUE(loaded);
    TestKernels kernels;
    kernels.image = std::move(*loaded);
    kernels.entries = images->front().image.entries;

    std::mt19937 random(7);
    auto numbers = [&](size_t count) {
      std::vector<float> v(count);
      for (float &x : v)
        x = int(random() % 9) - 4; // products and sums are exact
      return v;
    };
    std::vector<float> w = numbers(size_t(k) * n), v = numbers(n);
    std::vector<float> b = w;
    if (packed) { // [panel][k][columns], zero past the last, one more to
                  // prefetch
      b.assign((n + panel - 1) / panel * panel * k, 0);
      for (int i = 0; i < k; ++i)
        for (int j = 0; j < n; ++j)
          b[(j / panel * k + i) * panel + j % panel] = w[size_t(i) * n + j];
    }
    for (int rows : rowCounts) {
      std::vector<float> x = numbers(size_t(rows) * k),
                         y(size_t(rows) * n + 8, -5);
      kernels.call("k", {x.data(), b.data(), v.data(), y.data()}, {rows}, 0,
                   grid[rows]);
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < n; ++j) {
          float sum = v[j];
          for (int p = 0; p < k; ++p)
            sum += x[size_t(i) * k + p] * w[size_t(p) * n + j];
          ASSERT_EQ(y[size_t(i) * n + j], std::fabs(sum))
              << rows << " x " << n << " x " << k << " at " << i << ", " << j;
        }
      for (int i = 0; i < 8; ++i)
        ASSERT_EQ(y[size_t(rows) * n + i], -5) << "written past the end";
    }
  }
};

TEST_P(Matmul, Packed) {
  std::vector<int> rows = {1, 2, 3, 5, 7, 8, 9, 13, 47, 100, 401};
  run(64, 96, true, rows);
  run(30, 100, true, rows);
  run(7, 5, true, rows);
}

TEST_P(Matmul, InPlaceAndGathered) {
  run(64, 96, false, {1, 4, 6, 11, 50});
  run(33, 50, false, {1, 4, 6, 11, 50});
}

INSTANTIATE_TEST_SUITE_P(Isa, Matmul, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
