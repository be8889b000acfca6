#include "runtime/numeric/Boxes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#define KNAPPER_INLINE [[gnu::always_inline]] inline

namespace knapper::numeric {
namespace {

struct Box {
  float top, left, bottom, right, area;
};

/// Minimum and maximum that keep what is no number, so that a box with such a
/// corner has no area.
float lesser(float a, float b) { return a < b || a != a ? a : b; }
float greater(float a, float b) { return a > b || a != a ? a : b; }

Box boxOf(const float *x, bool centred) {
  Box box;
  if (centred) {
    float halfWidth = x[2] * 0.5f, halfHeight = x[3] * 0.5f;
    box = {x[1] - halfHeight, x[0] - halfWidth, x[1] + halfHeight,
           x[0] + halfWidth, 0};
  } else {
    box = {lesser(x[0], x[2]), lesser(x[1], x[3]), greater(x[0], x[2]),
           greater(x[1], x[3]), 0};
  }
  box.area = (box.bottom - box.top) * (box.right - box.left);
  return box;
}

/// Boxes in groups, so that a vector has the same border of several. Places
/// without a box have no area and overlap nothing.
struct Group {
  static constexpr int size = 16;
  float top[size], left[size], bottom[size], right[size], area[size];
};

template <int lanes>
using Floats [[gnu::vector_size(lanes * sizeof(float))]] = float;
template <int lanes>
using Flags [[gnu::vector_size(lanes * sizeof(float))]] = int32_t;

template <int lanes> KNAPPER_INLINE Floats<lanes> load(const float *from) {
  Floats<lanes> made;
  memcpy(&made, from, sizeof(made));
  return made;
}

template <int lanes> KNAPPER_INLINE bool anySet(Flags<lanes> flags) {
  uint64_t words[lanes / 2], all = 0;
  memcpy(words, &flags, sizeof(words));
  for (uint64_t word : words)
    all |= word;
  return all != 0;
}

template <int lanes>
KNAPPER_INLINE bool overlaps(std::span<const Group> groups, const Box &box,
                             float limit) {
  using V = Floats<lanes>;
  V zero = {};
  for (const Group &group : groups) {
    Flags<lanes> hit = {};
    for (int at = 0; at < Group::size; at += lanes) {
      V top = load<lanes>(group.top + at), left = load<lanes>(group.left + at);
      V bottom = load<lanes>(group.bottom + at),
        right = load<lanes>(group.right + at);
      V area = load<lanes>(group.area + at);
      V low = bottom < box.bottom ? bottom : zero + box.bottom;
      V high = top > box.top ? top : zero + box.top;
      V east = right < box.right ? right : zero + box.right;
      V west = left > box.left ? left : zero + box.left;
      V height = low - high, width = east - west;
      V shared = height * width;
      V whole = area + box.area - shared;
      hit |= (height > zero) & (width > zero) & (area > zero) &
             (shared / whole > limit);
    }
    if (anySet<lanes>(hit))
      return true;
  }
  return false;
}

using Overlaps = bool(std::span<const Group>, const Box &, float);

#ifdef __x86_64__
[[gnu::target("avx2")]] bool overlapsV3(std::span<const Group> groups,
                                        const Box &box, float limit) {
  return overlaps<8>(groups, box, limit);
}
[[gnu::target("avx2,avx512f")]] bool overlapsV4(std::span<const Group> groups,
                                                const Box &box, float limit) {
  return overlaps<16>(groups, box, limit);
}
#endif
bool overlapsV1(std::span<const Group> groups, const Box &box, float limit) {
  return overlaps<4>(groups, box, limit);
}

Overlaps *choose() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f"))
    return overlapsV4;
  if (__builtin_cpu_supports("avx2"))
    return overlapsV3;
#endif
  return overlapsV1;
}

/// The boxes that later ones are compared with.
class Kept {
public:
  void add(const Box &box) {
    size_t lane = count++ % Group::size;
    if (lane == 0)
      groups.emplace_back(); // zeros
    Group &last = groups.back();
    last.top[lane] = box.top;
    last.left[lane] = box.left;
    last.bottom[lane] = box.bottom;
    last.right[lane] = box.right;
    last.area[lane] = box.area;
  }
  bool overlap(const Box &box, float limit) const {
    static Overlaps *const chosen = choose();
    return chosen(groups, box, limit);
  }

private:
  std::vector<Group> groups;
  size_t count = 0;
};

/// A word that is the smaller the better the score is, then by place.
uint64_t wordOf(float score, int64_t place) {
  score += 0.0f; // one zero
  uint32_t bits;
  memcpy(&bits, &score, sizeof(bits));
  bits = bits >> 31 ? bits : ~bits & 0x7fffffff;
  return uint64_t(bits) << 32 | static_cast<uint32_t>(place);
}

/// Words from the smallest on. A heap, as few of many may be asked for.
class Falling {
public:
  Falling(std::vector<uint64_t> &words, int64_t expected) : words(words) {
    sorted = expected > static_cast<int64_t>(words.size() / 8);
    if (sorted)
      std::sort(words.begin(), words.end(), std::greater<>());
    else
      std::make_heap(words.begin(), words.end(), std::greater<>());
  }
  uint64_t next() {
    if (!sorted)
      std::pop_heap(words.begin(), words.end(), std::greater<>());
    uint64_t word = words.back();
    words.pop_back();
    return word;
  }

private:
  std::vector<uint64_t> &words;
  bool sorted;
};

} // namespace

void keepBest(const float *boxes, const float *scores, int64_t count,
              const SuppressionRule &rule, std::vector<int64_t> &kept) {
  kept.clear();
  if (rule.most <= 0)
    return;
  std::vector<uint64_t> words(count);
  size_t enough = 0;
  for (int64_t i = 0; i < count; ++i) {
    words[enough] = wordOf(scores[i], i);
    enough += scores[i] > rule.least;
  }
  words.resize(enough);
  Falling falling(words, rule.most);
  Kept compared;
  while (!words.empty() && static_cast<int64_t>(kept.size()) < rule.most) {
    auto place = static_cast<int64_t>(falling.next() & 0xffffffff);
    Box box = boxOf(boxes + 4 * place, rule.centred);
    if (box.area > 0) { // else it overlaps nothing
      if (compared.overlap(box, rule.limit))
        continue;
      compared.add(box);
    }
    kept.push_back(place);
  }
}

} // namespace knapper::numeric
