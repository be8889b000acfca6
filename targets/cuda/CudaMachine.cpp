#include "targets/cuda/CudaMachine.h"
#include "ir/config/DeviceLimits.h"

namespace knapper {

namespace {

/// What differs from card to card.
struct Sheet {
  unsigned sms;
  int64_t sharedBytes, l2Bytes;
  double fmaFlops, copyBandwidth, cacheBandwidth, clock;
};

config::Machine machineOf(const Sheet &sheet) {
  config::Machine m;
  m.cores = sheet.sms;
  m.l1Bytes = sheet.sharedBytes;
  m.l2Bytes = sheet.l2Bytes;
  m.fmaFlops = sheet.fmaFlops;
  m.copyBandwidth = sheet.copyBandwidth;
  m.cacheBandwidth = sheet.cacheBandwidth;
  m.clock = sheet.clock;
  // Estimate: the other half has what else a kernel reads.
  m.keptBytes = m.streamBytes = sheet.l2Bytes / 2;
  // Estimate: an SM alone takes some more than its share.
  m.coreBandwidth = 2.5 * sheet.copyBandwidth / sheet.sms;
  // Estimate: a grid drains, the next one starts and its first reads arrive.
  m.launchSeconds = 3e-6;
  // Estimate.
  m.readSeconds = 1e-6;
  m.roundsStored = true;
  return m;
}

// Shared memory and L2: CUDA C++ Programming Guide, table of compute
// capabilities, and NVIDIA's data sheets, which have the SMs too. Of the peak
// and the bandwidth in a data sheet some 85 to 90 % are taken where nothing was
// measured.
constexpr Sheet kA100 = {
    .sms = 108,               // data sheet
    .sharedBytes = 164 << 10, // programming guide
    .l2Bytes = 40 << 20,      // data sheet
    .fmaFlops = 19e12,        // data sheet: 19.5e12
    .copyBandwidth = 1.75e12, // data sheet: 2.04e12
    .cacheBandwidth = 5e12,   // estimate
    .clock = 1.41e9,          // data sheet: boost
};
constexpr Sheet kRtx3090 = {
    .sms = 82,                // data sheet
    .sharedBytes = 100 << 10, // programming guide
    .l2Bytes = 6 << 20,       // data sheet
    .fmaFlops = 30e12,        // data sheet: 35.6e12
    .copyBandwidth = 0.85e12, // data sheet: 0.94e12
    .cacheBandwidth = 3e12,   // estimate
    .clock = 1.7e9,           // data sheet: boost
};
constexpr Sheet kL40s = {
    .sms = 142,               // data sheet
    .sharedBytes = 100 << 10, // programming guide
    .l2Bytes = 96 << 20,      // data sheet
    .fmaFlops = 80e12,        // data sheet: 91.6e12
    .copyBandwidth = 0.75e12, // data sheet: 0.86e12
    .cacheBandwidth = 5e12,   // estimate
    .clock = 2.5e9,           // data sheet: boost
};
constexpr Sheet kH200 = {
    .sms = 132,                                      // data sheet
    .sharedBytes = config::kHopper.sharedBytesPerSm, // programming guide
    .l2Bytes = 50 << 20,                             // data sheet
    .fmaFlops = 60e12,                               // data sheet: 67e12
    .copyBandwidth = 4.2e12, // measured (docs/performance/gpu-rows.md)
    .cacheBandwidth = 10e12, // estimate
    .clock = 1.7e9,          // estimate; data sheet: boost of 1.98e9
};

} // namespace

std::span<const CudaCard> cudaCards() {
  static const CudaCard cards[] = {{"sm_80", machineOf(kA100)},
                                   {"sm_86", machineOf(kRtx3090)},
                                   {"sm_89", machineOf(kL40s)},
                                   {"sm_90a", machineOf(kH200)}};
  return cards;
}

} // namespace knapper
