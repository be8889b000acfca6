#include "runtime/drivers/cpu/Peaks.h"

#include "runtime/base/CacheFolder.h"
#include "runtime/base/Text.h"
#include "runtime/drivers/cpu/CpuInfo.h"
#include "runtime/drivers/cpu/ThreadPool.h"
#include "runtime/memory/Block.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <immintrin.h>
#include <unistd.h>

namespace knapper::cpu {
namespace {

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sixteen independent accumulators hide the latency of two units. The asm
// keeps them in registers and alive.
constexpr int kAccumulators = 16;

__attribute__((target("avx512f"))) double fma512(int64_t rounds) {
  __m512 acc[kAccumulators];
  for (__m512 &a : acc)
    a = _mm512_set1_ps(1.0f);
  __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kAccumulators; ++i) {
      acc[i] = _mm512_fmadd_ps(acc[i], x, y);
      asm volatile("" : "+v"(acc[i]));
    }
  }
  for (int i = 1; i < kAccumulators; ++i)
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  asm volatile("" ::"v"(acc[0]));
  return double(rounds) * kAccumulators * 16 * 2;
}

__attribute__((target("avx2,fma"))) double fma256(int64_t rounds) {
  // AVX2 has sixteen registers: twelve accumulators and the operands.
  constexpr int accumulators = 12;
  __m256 acc[accumulators];
  for (__m256 &a : acc)
    a = _mm256_set1_ps(1.0f);
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma clang loop unroll(full)
    for (int i = 0; i < accumulators; ++i) {
      acc[i] = _mm256_fmadd_ps(acc[i], x, y);
      asm volatile("" : "+x"(acc[i]));
    }
  }
  for (int i = 1; i < accumulators; ++i)
    acc[0] = _mm256_add_ps(acc[0], acc[i]);
  asm volatile("" ::"x"(acc[0]));
  return double(rounds) * accumulators * 8 * 2;
}

__attribute__((target("avx2"))) void copyStreaming(char *to, const char *from,
                                                   size_t bytes) {
  for (size_t i = 0; i < bytes; i += 128) {
    for (int k = 0; k < 4; ++k)
      _mm256_stream_si256(reinterpret_cast<__m256i *>(to + i + 32 * k),
                          _mm256_load_si256(reinterpret_cast<const __m256i *>(
                              from + i + 32 * k)));
  }
  _mm_sfence();
}

/// One measured job: every worker does its part, the caller times it.
struct Work {
  enum Kind { fma, copy, stream } kind;
  int workers;
  int64_t rounds;
  char *to, *from;
  size_t bytes;
};

void workPart(void *argument, int worker, void *) {
  Work &work = *static_cast<Work *>(argument);
  if (work.kind == Work::fma) {
    isaRank("x86-64-v4") ? fma512(work.rounds) : fma256(work.rounds);
    return;
  }
  size_t part = work.bytes / work.workers / 4096 * 4096;
  char *to = work.to + worker * part, *from = work.from + worker * part;
  if (work.kind == Work::copy)
    memcpy(to, from, part);
  else
    copyStreaming(to, from, part);
}

/// Best of several repetitions, in units (flops or bytes) a second.
double rate(ThreadPool &pool, Work work, double budget) {
  double units =
      work.kind == Work::fma
          ? double(work.workers) * work.rounds *
                (isaRank("x86-64-v4") ? 16.0 * 16 * 2 : 12.0 * 8 * 2)
          : 2.0 * (work.bytes / work.workers / 4096 * 4096) * work.workers;
  double best = 0, end = seconds() + budget;
  int repetitions = 0;
  do {
    double start = seconds();
    if (work.workers > 1)
      pool.run(work.workers, workPart, &work, nullptr);
    else
      workPart(&work, 0, nullptr);
    best = std::max(best, units / (seconds() - start));
  } while (++repetitions < 3 || seconds() < end);
  return best;
}

// Share of the wanted processor time that a measurement must have got to be
// kept: below it the machine was busy with something else.
constexpr double kUndisturbed = 0.95;

/// Seconds that this process's threads have run.
double processorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

/// Letters and digits of what the figures depend on.
std::string cacheFile(const std::string &folder) {
  std::string key =
      cat(processorName(), "-", runnableIsas(), "-", availableCores());
  for (char &c : key)
    if (!isalnum(static_cast<unsigned char>(c)))
      c = '-';
  return cat(folder, "/peaks-", key);
}

bool readCache(const std::string &path, Peaks &peaks) {
  FILE *file = fopen(path.c_str(), "re");
  if (!file)
    return false;
  bool good = fscanf(file, "knapper-peaks-1 %lf %lf %lf %lf", &peaks.fmaGflops,
                     &peaks.fmaGflopsOneCore, &peaks.copyGbps,
                     &peaks.copyGbpsOneCore) == 4 &&
              peaks.fmaGflops > 0 && peaks.fmaGflopsOneCore > 0 &&
              peaks.copyGbps > 0 && peaks.copyGbpsOneCore > 0;
  fclose(file);
  return good;
}

void writeCache(const std::string &folder, const std::string &path,
                const Peaks &peaks) {
  if (!makeCacheFolder(folder))
    return;
  std::string temporary = cat(path, ".", getpid(), ".tmp");
  FILE *file = fopen(temporary.c_str(), "wxe");
  if (!file)
    return;
  fprintf(file, "knapper-peaks-1 %.6g %.6g %.6g %.6g\n", peaks.fmaGflops,
          peaks.fmaGflopsOneCore, peaks.copyGbps, peaks.copyGbpsOneCore);
  if (fclose(file) != 0 || rename(temporary.c_str(), path.c_str()) != 0)
    unlink(temporary.c_str());
}

Expected<Peaks> measurePeaks(int threads) {
  constexpr size_t kCopyBytes = size_t(128) << 20;
  Expected<Block> to = Block::allocate(kCopyBytes);
  if (!to)
    return to.takeError();
  Expected<Block> from = Block::allocate(kCopyBytes);
  if (!from)
    return from.takeError();
  memset(to->data(), 1, kCopyBytes);
  memset(from->data(), 2, kCopyBytes);
  ThreadPool pool;
  int workers = pool.tryAcquire(threads, 0, 1000000);
  Peaks peaks;
  double wanted = 0, got = processorSeconds();
  for (int n : {1, workers}) {
    double start = seconds();
    Work work{Work::fma,
              n,
              200000,
              static_cast<char *>(to->data()),
              static_cast<char *>(from->data()),
              kCopyBytes};
    double flops = rate(pool, work, 0.15);
    work.kind = Work::copy;
    double copied = rate(pool, work, 0.15);
    work.kind = Work::stream;
    copied = std::max(copied, rate(pool, work, 0.15));
    (n == 1 ? peaks.fmaGflopsOneCore : peaks.fmaGflops) = flops * 1e-9;
    (n == 1 ? peaks.copyGbpsOneCore : peaks.copyGbps) = copied * 1e-9;
    // Workers spin from start to end, used or not.
    wanted += (seconds() - start) * workers;
  }
  if (workers > 1) {
    pool.release();
  } else {
    peaks.fmaGflops = peaks.fmaGflopsOneCore;
    peaks.copyGbps = peaks.copyGbpsOneCore;
  }
  peaks.undisturbed = processorSeconds() - got > kUndisturbed * wanted;
  // More workers can use what one does.
  peaks.fmaGflops = std::max(peaks.fmaGflops, peaks.fmaGflopsOneCore);
  peaks.copyGbps = std::max(peaks.copyGbps, peaks.copyGbpsOneCore);
  return peaks;
}

} // namespace

Expected<Peaks> machinePeaks(IsaLevel level) {
  if (level == IsaLevel::belowV3)
    return userError("this processor is below x86-64-v3 (AVX2, FMA, BMI, "
                     "F16C), code for which the peaks are measured with",
                     "cpu", "use a newer machine");
  std::string folder = cacheFolder();
  std::string path = folder.empty() ? "" : cacheFile(folder);
  Peaks peaks;
  if (!path.empty() && readCache(path, peaks))
    return peaks;
  Expected<Peaks> measured = measurePeaks(availableCores());
  // Figures of a busy machine serve once; they are not kept.
  if (measured && !path.empty() && measured->undisturbed)
    writeCache(folder, path, *measured);
  return measured;
}

} // namespace knapper::cpu
