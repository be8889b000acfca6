// What the machine can do, measured: fused multiply-adds of float32, matmuls
// of bf16 in tile registers where there are any, copies and reads of given
// sizes. Prints one JSON object.
//
//   knapper-peaks THREADS [COPY_BYTES | read=BYTES]...
//
// Copies read `bytes` and write `bytes`; the figure counts both. Source and
// target are the same memory in every repetition, as a kernel's are; reads are
// of huge pages, as weights are. The peak is the best of five, a copy's and a
// read's time the median; of small copies several are timed together, so that
// it is not the waiting for other threads that counts.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using Clock = std::chrono::steady_clock;

static double seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs `work(thread)` on all threads at once, `rounds` times; sorted seconds.
template <class Work>
static std::vector<double> measure(int threads, int rounds, Work work) {
  std::atomic<int> round{-1}, done{0};
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t)
    pool.emplace_back([&, t] {
      for (int r = 0; r < rounds; ++r) {
        while (round.load(std::memory_order_acquire) < r)
          _mm_pause();
        work(t);
        done.fetch_add(1, std::memory_order_release);
      }
    });
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) {
    auto start = Clock::now();
    round.store(r, std::memory_order_release);
    work(0);
    while (done.load(std::memory_order_acquire) < (r + 1) * (threads - 1))
      _mm_pause();
    times.push_back(seconds(start));
  }
  for (auto &thread : pool)
    thread.join();
  std::sort(times.begin(), times.end());
  return times;
}

constexpr int64_t Steps = 4000000;

// Twelve independent sums hide the latency of the two units.
__attribute__((target("avx512f"))) static double fma512() {
  __m512 sum[12], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-6f);
  for (auto &s : sum)
    s = _mm512_set1_ps(1);
  for (int64_t i = 0; i < Steps; ++i)
    for (auto &s : sum)
      asm volatile("vfmadd213ps %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
  float total = 0;
  for (auto &s : sum)
    total += _mm512_cvtss_f32(s);
  return total;
}

__attribute__((target("avx2,fma"))) static double fma256() {
  __m256 sum[12], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-6f);
  for (auto &s : sum)
    s = _mm256_set1_ps(1);
  for (int64_t i = 0; i < Steps; ++i)
    for (auto &s : sum)
      asm volatile("vfmadd213ps %2, %1, %0" : "+x"(s) : "x"(a), "x"(b));
  float total = 0;
  for (auto &s : sum)
    total += _mm256_cvtss_f32(s);
  return total;
}

/// Whether there are tile registers with matmuls of bf16, and the system lets
/// this process use them (and so the threads that it makes from here on).
static bool hasTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  return __builtin_cpu_supports("amx-tile") &&
         __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

constexpr int64_t TileSteps = 400000;

// Two by two tiles of sums, operands in registers: of numbers of all kinds, as
// zeros take less power and run at a higher clock.
__attribute__((target("amx-tile,amx-bf16"))) static void tileMatmuls() {
  alignas(64) uint8_t config[64] = {1};
  alignas(64) uint16_t values[4][16][32];
  for (int i = 0; i < 8; ++i) {
    config[16 + 2 * i] = 64;
    config[48 + i] = 16;
  }
  uint32_t seed = 1;
  for (auto &tile : values)
    for (auto &row : tile)
      for (uint16_t &x : row) { // 0.5 to 2 and their negatives
        seed = seed * 1664525 + 1013904223;
        x = static_cast<uint16_t>(0x3f00 + (seed >> 24) + (seed >> 8 & 0x8000));
      }
  asm volatile("ldtilecfg %0" ::"m"(config));
  int64_t step = 64;
  asm volatile(
      "tilezero %%tmm0\n tilezero %%tmm1\n"
      "tilezero %%tmm2\n tilezero %%tmm3\n"
      "tileloadd (%0,%4), %%tmm4\n tileloadd (%1,%4), %%tmm5\n"
      "tileloadd (%2,%4), %%tmm6\n tileloadd (%3,%4), %%tmm7" ::"r"(values[0]),
      "r"(values[1]), "r"(values[2]), "r"(values[3]), "r"(step)
      : "memory");
  for (int64_t i = 0; i < TileSteps; ++i)
    asm volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n"
                 "tdpbf16ps %tmm6, %tmm5, %tmm2\n"
                 "tdpbf16ps %tmm7, %tmm4, %tmm1\n"
                 "tdpbf16ps %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
}

__attribute__((target("avx2"))) static void
copyStreaming(char *to, const char *from, size_t bytes) {
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
    for (int j = 0; j < 4; ++j)
      _mm256_stream_si256(
          reinterpret_cast<__m256i *>(to + i) + j,
          _mm256_load_si256(reinterpret_cast<const __m256i *>(from + i) + j));
  }
  _mm_sfence();
}

// Eight sums, so that no one chain of additions is waited for.
__attribute__((target("avx2"))) static long long readAll(const char *from,
                                                         size_t bytes) {
  __m256i sum[8] = {};
  for (size_t i = 0; i + 256 <= bytes; i += 256)
    for (int j = 0; j < 8; ++j)
      sum[j] = _mm256_add_epi64(
          sum[j],
          _mm256_load_si256(reinterpret_cast<const __m256i *>(from + i) + j));
  long long total = 0;
  for (auto &s : sum)
    total += _mm256_extract_epi64(s, 0) + _mm256_extract_epi64(s, 2);
  return total;
}

/// A field of one measurement: {"bytes": ..., "gbps": ...}.
static bool readOf(size_t whole, int threads) {
  constexpr size_t page = 2 << 20;
  whole = (whole + page - 1) / page * page;
  char *from = static_cast<char *>(std::aligned_alloc(page, whole));
  if (!from || !whole)
    return false;
  madvise(from, whole, MADV_HUGEPAGE); // a hint
  std::memset(from, 1, whole);
  size_t part = whole / threads / 256 * 256;
  volatile long long sink = 0;
  int rounds =
      std::clamp(static_cast<int>(4e9 / static_cast<double>(whole)), 8, 2000);
  double time = measure(threads, rounds, [&](int t) {
    sink = readAll(from + t * part, part);
  })[rounds / 2];
  std::printf("{\"bytes\": %zu, \"gbps\": %.2f}", part * threads,
              static_cast<double>(part * threads) * 1e-9 / time);
  std::free(from);
  return true;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    std::fprintf(stderr,
                 "usage: knapper-peaks THREADS [COPY_BYTES | read=BYTES]...\n");
    return 2;
  }
  bool wide = __builtin_cpu_supports("avx512f");
  volatile double sink = 0;
  double time =
      measure(threads, 5, [&](int) { sink = wide ? fma512() : fma256(); })[0];
  double flops = 2.0 * 12 * (wide ? 16 : 8) * Steps * threads;
  std::printf("{\"threads\": %d, \"isa\": \"%s\", \"fma_gflops\": %.1f, ",
              threads, wide ? "avx512" : "avx2", flops / time * 1e-9);
  if (hasTiles()) {
    time = measure(threads, 5, [&](int) { tileMatmuls(); })[0];
    std::printf("\"tile_bf16_gflops\": %.1f, ",
                2.0 * 4 * 16 * 16 * 32 * TileSteps * threads / time * 1e-9);
  }
  std::printf("\"copies\": [");
  const char *separator = "";
  for (int i = 2; i < argc; ++i) {
    if (std::strncmp(argv[i], "read=", 5) == 0)
      continue;
    size_t bytes = std::strtoull(argv[i], nullptr, 10) / threads / 128 * 128;
    size_t whole = bytes * threads;
    char *from =
        static_cast<char *>(std::aligned_alloc(4096, (whole | 4095) + 1));
    char *to =
        static_cast<char *>(std::aligned_alloc(4096, (whole | 4095) + 1));
    if (!from || !to || !whole) {
      std::fprintf(stderr, "knapper-peaks: cannot copy %s bytes\n", argv[i]);
      return 2;
    }
    std::memset(from, 1, whole);
    std::memset(to, 2, whole);
    constexpr size_t Together = 4 << 20;
    int each = static_cast<int>(std::max<size_t>(1, Together / whole));
    int rounds =
        std::max(8, static_cast<int>(1e9 / static_cast<double>(whole) / each));
    rounds = std::min(rounds, 2000);
    auto repeat = [&](auto copy) {
      return measure(threads, rounds, [&](int t) {
        for (int k = 0; k < each; ++k) {
          copy(to + t * bytes, from + t * bytes, bytes);
          asm volatile("" ::: "memory");
        }
      })[rounds / 2];
    };
    double plain = repeat([](char *to, const char *from, size_t bytes) {
      std::memcpy(to, from, bytes);
    });
    double streaming = repeat(copyStreaming);
    double moved = 2.0 * static_cast<double>(whole) * each * 1e-9;
    std::printf("%s{\"bytes\": %zu, \"memcpy_gbps\": %.2f, "
                "\"streaming_gbps\": %.2f}",
                separator, whole, moved / plain, moved / streaming);
    separator = ", ";
    std::free(from);
    std::free(to);
  }
  std::printf("], \"reads\": [");
  separator = "";
  for (int i = 2; i < argc; ++i) {
    if (std::strncmp(argv[i], "read=", 5) != 0)
      continue;
    std::printf("%s", separator);
    if (!readOf(std::strtoull(argv[i] + 5, nullptr, 10), threads)) {
      std::fprintf(stderr, "knapper-peaks: cannot read %s bytes\n",
                   argv[i] + 5);
      return 2;
    }
    separator = ", ";
  }
  std::printf("]}\n");
  return 0;
}
