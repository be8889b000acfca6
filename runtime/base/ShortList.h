// A list that needs no memory of its own while it is short.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

namespace knapper {

/// Up to `Inside` elements lie in the list itself. What was in it is lost when
/// it gets more than it ever had.
template <typename T, size_t Inside> class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  ShortList() {}
  ShortList(const ShortList &) = delete;
  ShortList &operator=(const ShortList &) = delete;

  void resize(size_t count) {
    if (count > room) {
      outside = std::make_unique<T[]>(count);
      room = count;
    }
    used = count;
  }
  void clear() { used = 0; }

  size_t size() const { return used; }
  T *data() { return outside ? outside.get() : inside; }
  const T *data() const { return outside ? outside.get() : inside; }
  T &operator[](size_t i) { return data()[i]; }
  const T &operator[](size_t i) const { return data()[i]; }
  T *begin() { return data(); }
  T *end() { return data() + used; }
  const T *begin() const { return data(); }
  const T *end() const { return data() + used; }

private:
  size_t used = 0, room = Inside;
  std::unique_ptr<T[]> outside;
  T inside[Inside];
};

} // namespace knapper
