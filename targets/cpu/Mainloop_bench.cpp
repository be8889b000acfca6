// How much of one core's FMA peak the main loop of a matmul reaches,
// operands in L2.  targets_cpu_mainloop_bench [BMxBN...]
#include "targets/cpu/KernelTest.h"

#include <chrono>
#include <cstdio>

using namespace knapper;

namespace {

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// f32 FMA peak of this core in FLOP/s: independent multiply-adds in registers.
double peak512() {
  double best = 0;
  for (int round = 0; round < 30; ++round) {
    double start = seconds();
    long n = 200000;
    asm volatile("1:\n"
                 ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
                 "vfmadd231ps %%zmm31, %%zmm31, %%zmm\\r\n"
                 ".endr\n"
                 "dec %0\n jnz 1b"
                 : "+r"(n)
                 :
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                   "xmm14", "xmm15");
    best = std::max(best, 200000.0 * 16 * 32 / (seconds() - start));
  }
  return best;
}
double peak256() {
  double best = 0;
  for (int round = 0; round < 30; ++round) {
    double start = seconds();
    long n = 200000;
    asm volatile("1:\n"
                 ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11\n"
                 "vfmadd231ps %%ymm15, %%ymm15, %%ymm\\r\n"
                 ".endr\n"
                 "dec %0\n jnz 1b"
                 : "+r"(n)
                 :
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm15");
    best = std::max(best, 200000.0 * 12 * 16 / (seconds() - start));
  }
  return best;
}

/// How A is read: rows in place, packed, or rows of which some may be missing.
enum class Form { rows, packed, ragged };

std::string source(int bm, int bn, Form form) {
  std::string m = std::to_string(bm), n = std::to_string(bn);
  std::string type = "vector<" + m + "x" + n + "xf32>";
  std::string text =
      "tile.func @mm(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>,"
      " %y: !tile.buffer<f32>, %k: index, %rows: index) {\n"
      "%p = tile.program_id\n%c0 = arith.constant 0 : index\n"
      "%c1 = arith.constant 1 : index\n%bm = arith.constant " +
      m + " : index\n%bn = arith.constant " + n +
      " : index\n%row = arith.muli %p, %bm : index\n"
      "%aoff = arith.muli %row, %k : index\n"
      "%acc = tile.mainloop A(%a[%aoff], row " +
      (form == Form::packed   ? "%c1, k %bm"
       : form == Form::ragged ? "%k, k %c1, rows %rows"
                              : "%k, k %c1") +
      ") B(%b[%c0], k %bn) over %k {b_alignment = 64} : !tile.buffer<f32>, "
      "!tile.buffer<f32> -> " +
      type + "\n";
  for (int i = 0; i < bm; ++i) {
    std::string r = std::to_string(i);
    text += "%r" + r + " = vector.extract %acc[" + r + "] : vector<" + n +
            "xf32> from " + type + "\n%c_" + r + " = arith.constant " + r +
            " : index\n%i" + r + " = arith.addi %row, %c_" + r +
            " : index\n%o" + r + " = arith.muli %i" + r +
            ", %bn : index\ntile.store %r" + r + ", %y[%o" + r + "] : vector<" +
            n + "xf32>, !tile.buffer<f32>\n";
  }
  return text + "tile.return\n}\n";
}

void measure(std::string_view isa, double peak, int bm, int bn, Form form) {
  auto kernels = compileText(source(bm, bn, form), "mm", isa);
  if (!kernels) {
    printf("%s\n", kernels.error().message().c_str());
    return;
  }
  const int k = 512, programs = 16;
  auto aligned = [](size_t n) {
    return static_cast<float *>(std::aligned_alloc(64, (n * 4 + 63) / 64 * 64));
  };
  float *a = aligned(size_t(programs) * bm * k), *b = aligned(size_t(bn) * k),
        *y = aligned(size_t(programs) * bm * bn);
  for (int i = 0; i < programs * bm * k; ++i)
    a[i] = float(i % 7) - 3;
  for (int i = 0; i < bn * k; ++i)
    b[i] = float(i % 5) - 2;
  double best = 1e9;
  for (int round = 0; round < 200; ++round) {
    double start = seconds();
    (*kernels)->call("mm", {a, b, y}, {k, bm}, 0, programs);
    best = std::min(best, seconds() - start);
  }
  double flops = 2.0 * programs * bm * bn * k / best;
  auto &t = (*kernels)->times;
  printf(
      "%s %2dx%-2d %s: %6.1f GFLOP/s %5.1f %%   compile ms: build %.1f lower "
      "%.1f optimise %.1f emit %.1f\n",
      isa.data(), bm, bn,
      form == Form::packed   ? "packed A"
      : form == Form::ragged ? "ragged A"
                             : "rows of A",
      flops * 1e-9, 100 * flops / peak, t.build * 1e3, t.lower * 1e3,
      t.optimise * 1e3, t.emit * 1e3);
  std::free(a), std::free(b), std::free(y);
}

} // namespace

int main() {
  if (runsHere("x86-64-v4")) {
    double peak = peak512();
    printf("peak, 512-bit: %.1f GFLOP/s\n", peak * 1e-9);
    for (auto [bm, bn] : {std::pair(8, 48),
                          {6, 64},
                          {8, 32},
                          {9, 48},
                          {12, 32},
                          {14, 32},
                          {4, 64},
                          {1, 64},
                          {7, 48}})
      for (Form form : {Form::rows, Form::packed, Form::ragged})
        measure("x86-64-v4", peak, bm, bn, form);
  }
  double peak = peak256();
  printf("peak, 256-bit: %.1f GFLOP/s\n", peak * 1e-9);
  for (auto [bm, bn] : {std::pair(6, 16), {4, 24}})
    for (Form form : {Form::rows, Form::packed, Form::ragged})
      measure("x86-64-v3", peak, bm, bn, form);
  return 0;
}
