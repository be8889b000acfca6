#include "compiler/constants/StridedCopy.h"
#include "runtime/base/Threads.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

namespace knapper {

void splitRange(int64_t count, int64_t grain, unsigned threads,
                const std::function<void(int64_t, int64_t)> &body) {
  if (count <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t grains = (count + grain - 1) / grain;
  int64_t parts = std::clamp<int64_t>(threads, 1, grains);
  int64_t each = (grains + parts - 1) / parts * grain;
  std::atomic<int64_t> next = 0;
  runOnThreads(static_cast<size_t>(parts), [&] {
    for (int64_t begin; (begin = next.fetch_add(each)) < count;)
      body(begin, std::min(begin + each, count));
  });
}

namespace {

struct Axis {
  int64_t size, in, out;
};

/// Drops dims of size 1, merges dims that are one run on both sides, and puts
/// the dim that the output walks fastest last.
std::vector<Axis> coalesce(std::span<const int64_t> dims,
                           std::span<const int64_t> inStrides,
                           std::span<const int64_t> outStrides) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1)
      axes.push_back({dims[i], inStrides[i], outStrides[i]});
  std::sort(axes.begin(), axes.end(), [](const Axis &a, const Axis &b) {
    return std::pair(std::abs(a.out), std::abs(a.in)) >
           std::pair(std::abs(b.out), std::abs(b.in));
  });
  std::vector<Axis> merged;
  for (const Axis &axis : axes) {
    if (!merged.empty() && merged.back().in == axis.in * axis.size &&
        merged.back().out == axis.out * axis.size)
      merged.back() = {merged.back().size * axis.size, axis.in, axis.out};
    else
      merged.push_back(axis);
  }
  if (merged.empty())
    merged.push_back({1, 1, 1});
  return merged;
}

/// Rows of `row`, columns of `column` (fastest in the output).
template <typename T>
void copyPlane(const T *in, T *out, Axis row, Axis column) {
  if (column.out == 1 && column.in == 1) {
    for (int64_t r = 0; r < row.size; ++r)
      std::memcpy(out + r * row.out, in + r * row.in, column.size * sizeof(T));
    return;
  }
  if (column.out == 1 && column.in == 0) {
    for (int64_t r = 0; r < row.size; ++r)
      std::fill_n(out + r * row.out, column.size, in[r * row.in]);
    return;
  }
  // The input walks fastest along the rows (a transposition) or nowhere: tiles
  // that keep a cache line of each side.
  constexpr int64_t tile = std::max<int64_t>(64 / sizeof(T), 16);
  for (int64_t r0 = 0; r0 < row.size; r0 += tile)
    for (int64_t c0 = 0; c0 < column.size; c0 += tile) {
      int64_t r1 = std::min(r0 + tile, row.size);
      int64_t c1 = std::min(c0 + tile, column.size);
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c)
          out[r * row.out + c * column.out] = in[r * row.in + c * column.in];
    }
}

template <typename T>
void copyAxes(const std::vector<Axis> &axes, const T *in, T *out,
              unsigned threads) {
  Axis column = axes.back();
  // The other axis of the plane is the one that the input walks fastest.
  size_t rowIndex = axes.size() - 1;
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    if (axes[i].in != 0 && (rowIndex == axes.size() - 1 ||
                            std::abs(axes[i].in) < std::abs(axes[rowIndex].in)))
      rowIndex = i;
  Axis row{1, 0, 0};
  std::vector<Axis> outer;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (i == rowIndex)
      row = axes[i];
    else
      outer.push_back(axes[i]);
  }
  int64_t planes = 1;
  for (const Axis &axis : outer)
    planes *= axis.size;
  auto planeAt = [&](int64_t plane, int64_t &from, int64_t &to) {
    from = to = 0;
    for (size_t i = outer.size(); i-- > 0;) {
      int64_t index = plane % outer[i].size;
      plane /= outer[i].size;
      from += index * outer[i].in;
      to += index * outer[i].out;
    }
  };
  // Threads share planes, else rows, else one long run.
  int64_t planeBytes = row.size * column.size * int64_t(sizeof(T));
  constexpr int64_t enough = 1 << 20;
  if (planes > 1) {
    splitRange(planes, enough / std::max<int64_t>(planeBytes, 1) + 1, threads,
               [&](int64_t begin, int64_t end) {
                 for (int64_t plane = begin; plane < end; ++plane) {
                   int64_t from, to;
                   planeAt(plane, from, to);
                   copyPlane(in + from, out + to, row, column);
                 }
               });
    return;
  }
  bool byRow = row.size > 1;
  Axis &split = byRow ? row : column;
  int64_t other = (byRow ? column.size : 1) * int64_t(sizeof(T));
  splitRange(split.size, (enough / std::max<int64_t>(other, 1) + 1) * 16,
             threads, [&](int64_t begin, int64_t end) {
               Axis r = row, c = column;
               (byRow ? r : c).size = end - begin;
               copyPlane(in + begin * split.in, out + begin * split.out, r, c);
             });
}

} // namespace

void stridedCopy(std::span<const int64_t> dims, const void *in,
                 std::span<const int64_t> inStrides, void *out,
                 std::span<const int64_t> outStrides, size_t elementBytes,
                 unsigned threads) {
  for (int64_t size : dims)
    if (size == 0)
      return;
  std::vector<Axis> axes = coalesce(dims, inStrides, outStrides);
  auto as = [&]<typename T>(T) {
    copyAxes(axes, static_cast<const Unaligned<T> *>(in),
             static_cast<Unaligned<T> *>(out), threads);
  };
  withWord(elementBytes, as);
}

} // namespace knapper
