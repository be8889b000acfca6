#include "targets/cpu/testing/Tiles.h"

#include "runtime/drivers/cpu/CpuInfo.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

namespace knapper::tiles {
namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

struct Registers {
  bool configured = false;
  uint8_t rows[kTiles] = {};
  uint16_t rowBytes[kTiles] = {};
  alignas(64) uint8_t data[kTiles][kRows][kRowBytes] = {};
};
thread_local Registers state;
std::atomic<bool> emulated = false;

[[noreturn]] void refuse(const char *why, const uint8_t *at) {
  char text[128];
  int length = snprintf(text, sizeof text, "tile instruction at %p: %s\n",
                        static_cast<const void *>(at), why);
  (void)!write(2, text, static_cast<size_t>(length));
  abort();
}

/// An instruction of VEX form in map 0F38, as far as tiles need it.
struct Instruction {
  const uint8_t *at;
  unsigned prefix; // 0: none, 1: 66, 2: F3, 3: F2
  uint8_t opcode;
  unsigned mod, reg, rm; // extended to four bits
  unsigned third;        // the register of VEX.vvvv
  uint64_t address = 0, index = 0;
  unsigned length;
};

uint64_t generalRegister(const ucontext_t &context, unsigned number) {
  static constexpr int names[] = {
      REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<uint64_t>(context.uc_mcontext.gregs[names[number]]);
}

bool decode(const ucontext_t &context, Instruction &out) {
  auto *code =
      reinterpret_cast<const uint8_t *>(context.uc_mcontext.gregs[REG_RIP]);
  out.at = code;
  // Three bytes of VEX, no W, no L, map 2.
  if (code[0] != 0xc4 || (code[1] & 31) != 2 || (code[2] & 0x84))
    return false;
  unsigned extendReg = code[1] & 0x80 ? 0 : 8,
           extendIndex = code[1] & 0x40 ? 0 : 8,
           extendBase = code[1] & 0x20 ? 0 : 8;
  out.third = (~code[2] >> 3) & 15;
  out.prefix = code[2] & 3;
  out.opcode = code[3];
  out.mod = code[4] >> 6;
  out.reg = (code[4] >> 3 & 7) + extendReg;
  unsigned low = code[4] & 7;
  out.rm = low + extendBase;
  out.length = 5;
  if (out.mod == 3)
    return true;
  uint64_t base = 0;
  bool relative = false, hasBase = true;
  if (low == 4) {
    uint8_t sib = code[out.length++];
    unsigned index = (sib >> 3 & 7) + extendIndex;
    if (index != 4)
      out.index = generalRegister(context, index) << (sib >> 6);
    hasBase = (sib & 7) != 5 || out.mod != 0;
    if (hasBase)
      base = generalRegister(context, (sib & 7) + extendBase);
  } else if (low == 5 && out.mod == 0) {
    relative = true;
  } else {
    base = generalRegister(context, out.rm);
  }
  int64_t shift = 0;
  if (out.mod == 1) {
    shift = static_cast<int8_t>(code[out.length++]);
  } else if (out.mod == 2 || relative || !hasBase) {
    int32_t wide;
    memcpy(&wide, code + out.length, 4);
    shift = wide;
    out.length += 4;
  }
  if (relative)
    base = reinterpret_cast<uint64_t>(code) + out.length;
  out.address = base + static_cast<uint64_t>(shift);
  return true;
}

void configure(const Instruction &i) {
  uint8_t config[64];
  memcpy(config, reinterpret_cast<const void *>(i.address + i.index), 64);
  state = Registers();
  if (config[0] == 0)
    return;
  if (config[0] != 1)
    refuse("an unknown palette", i.at);
  for (int at = 1; at < 64; ++at) {
    bool used = (at >= 16 && at < 32) || (at >= 48 && at < 56);
    if (!used && config[at])
      refuse("a configuration with bytes that must be zero", i.at);
  }
  for (int t = 0; t < kTiles; ++t) {
    memcpy(&state.rowBytes[t], config + 16 + 2 * t, 2);
    state.rows[t] = config[48 + t];
    if (state.rows[t] > kRows || state.rowBytes[t] > kRowBytes ||
        !state.rows[t] != !state.rowBytes[t])
      refuse("a configuration larger than a tile", i.at);
  }
  state.configured = true;
}

void needTile(unsigned t, const Instruction &i) {
  if (!state.configured || t >= kTiles || !state.rows[t])
    refuse("a tile that is not configured", i.at);
}

void loadTile(const Instruction &i) {
  needTile(i.reg, i);
  memset(state.data[i.reg], 0, sizeof state.data[i.reg]);
  for (unsigned r = 0; r < state.rows[i.reg]; ++r)
    memcpy(state.data[i.reg][r],
           reinterpret_cast<const void *>(i.address + r * i.index),
           state.rowBytes[i.reg]);
}

void storeTile(const Instruction &i) {
  needTile(i.reg, i);
  for (unsigned r = 0; r < state.rows[i.reg]; ++r)
    memcpy(reinterpret_cast<void *>(i.address + r * i.index),
           state.data[i.reg][r], state.rowBytes[i.reg]);
}

/// Of Intel's description: even and odd elements summed on their own, by fused
/// multiply-adds, added to each other and then to the sum; to nearest, without
/// denormals.
float addPairs(float sum, const uint8_t *a, unsigned b, unsigned n,
               unsigned groups) {
  auto value = [](const uint8_t *from) {
    uint16_t half;
    memcpy(&half, from, 2);
    uint32_t bits = uint32_t(half) << 16;
    float result;
    memcpy(&result, &bits, 4);
    return _mm_set_ss(result);
  };
  __m128 part[2] = {_mm_setzero_ps(), _mm_setzero_ps()};
  for (unsigned k = 0; k < groups; ++k)
    for (int half = 0; half < 2; ++half) {
      __m128 x = value(a + 4 * k + 2 * half);
      __m128 y = value(state.data[b][k] + 4 * n + 2 * half);
      // fmadd of SSE's kind: the handler is compiled for any processor.
      asm("vfmadd231ss %2, %1, %0" : "+x"(part[half]) : "x"(x), "x"(y));
    }
  return _mm_cvtss_f32(
      _mm_add_ss(_mm_set_ss(sum), _mm_add_ss(part[0], part[1])));
}

void multiply(const Instruction &i) {
  unsigned sum = i.reg, a = i.rm, b = i.third;
  for (unsigned t : {sum, a, b})
    needTile(t, i);
  if (sum == a || sum == b || a == b)
    refuse("a matmul of a tile and itself", i.at);
  if (state.rows[sum] != state.rows[a] ||
      state.rowBytes[sum] != state.rowBytes[b] ||
      state.rowBytes[a] != 4 * state.rows[b] || state.rowBytes[a] % 4 ||
      state.rowBytes[sum] % 4)
    refuse("a matmul of tiles that do not fit", i.at);
  unsigned groups = state.rows[b];
  for (unsigned m = 0; m < state.rows[sum]; ++m)
    for (unsigned n = 0; n < state.rowBytes[sum] / 4u; ++n) {
      uint8_t *to = state.data[sum][m] + 4 * n;
      const uint8_t *row = state.data[a][m];
      if (i.opcode == 0x5c) {
        float value;
        memcpy(&value, to, 4);
        value = addPairs(value, row, b, n, groups);
        memcpy(to, &value, 4);
        continue;
      }
      uint32_t value;
      memcpy(&value, to, 4);
      bool signA = i.prefix == 3 || i.prefix == 2,
           signB = i.prefix == 3 || i.prefix == 1;
      for (unsigned k = 0; k < 4 * groups; ++k) {
        uint8_t x = row[k], y = state.data[b][k / 4][4 * n + k % 4];
        int left = signA ? int(int8_t(x)) : int(x);
        int right = signB ? int(int8_t(y)) : int(y);
        value += static_cast<uint32_t>(left * right);
      }
      memcpy(to, &value, 4);
    }
}

bool execute(const Instruction &i) {
  switch (i.opcode) {
  case 0x49:
    if (i.prefix == 0 && i.mod != 3)
      configure(i);
    else if (i.prefix == 0)
      state = Registers();
    else if (i.prefix == 3 && i.mod == 3)
      needTile(i.reg, i), memset(state.data[i.reg], 0, sizeof state.data[0]);
    else
      return false;
    return true;
  case 0x4b:
    if (i.mod == 3 || i.prefix == 0)
      return false;
    i.prefix == 2 ? storeTile(i) : loadTile(i);
    return true;
  case 0x5c: // bf16; F2 is f16, which no kernel has
    if (i.mod != 3 || i.prefix != 2)
      return false;
    multiply(i);
    return true;
  case 0x5e:
    if (i.mod != 3)
      return false;
    multiply(i);
    return true;
  }
  return false;
}

void onIllegal(int, siginfo_t *, void *data) {
  auto &context = *static_cast<ucontext_t *>(data);
  _mm_setcsr(0x9fc0); // to nearest, no denormals; the kernel puts it back
  Instruction i;
  if (!decode(context, i) || !execute(i)) {
    signal(SIGILL, SIG_DFL);
    return; // and again, in earnest
  }
  context.uc_mcontext.gregs[REG_RIP] += i.length;
}

} // namespace

bool enable() {
  if (cpu::tileRegisters() == cpu::TileRegisters::granted)
    return true;
  if (cpu::isaRank("x86-64-v4-bf16") == 0)
    return false;
  if (!emulated.exchange(true)) {
    struct sigaction action = {};
    action.sa_sigaction = onIllegal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, nullptr);
  }
  return true;
}

bool areEmulated() { return emulated; }

bool inUse() { return state.configured; }

} // namespace knapper::tiles
