// Time of every function of one argument, on arguments in L1: nanoseconds an
// element for each instruction set, and the compile time.
//   knapper_math_bench [lanes]

#include "targets/cpu/testing/math/Unary.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace knapper;
using namespace knapper::vecmath::testing;

static double nanoseconds(const Kernels &kernels, const std::string &name,
                          const std::vector<float> &x,
                          std::vector<float> &out) {
  double best = 1e9;
  for (int round = 0; round < 30; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 8; ++i)
      kernels.call(name, {x.data(), out.data()}, x.size());
    std::chrono::duration<double, std::nano> t =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, t.count() / (8.0 * x.size()));
  }
  return best;
}

int main(int argc, char **argv) {
  unsigned lanes = argc > 1 ? std::atoi(argv[1]) : 16;
  std::vector<float> x(3072), out(3072);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = (float(i * 2654435761u % 4096) / 2048 - 1) * 6;
  auto isas = isasHere();
  std::vector<Function> functions = functionsOf(unaryFunctions());
  functions.push_back({"copy", 1, 1, [](auto &, auto, mlir::ValueRange v) {
                         return mlir::SmallVector<mlir::Value>{v[0]};
                       }});
  std::printf("| function, %u lanes |", lanes);
  for (std::string_view isa : isas)
    std::printf(" %s ns/element | compile ms |", isa.data());
  std::printf("\n");
  for (const Function &f : functions) {
    std::printf("| %s |", f.name.c_str());
    for (std::string_view isa : isas) {
      auto kernels = Kernels::compile(f, "f32", lanes, isa);
      if (!kernels) {
        std::fprintf(stderr, "%s\n", kernels.error().message().c_str());
        return 1;
      }
      double ns = nanoseconds(**kernels, f.name, x, out);
      std::printf(" %.3f | %.2f |", ns, (*kernels)->times.total() * 1e3);
    }
    std::printf("\n");
  }
}
