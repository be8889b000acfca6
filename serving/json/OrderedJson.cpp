#include "serving/json/OrderedJson.h"

#include <memory>
#include <utility>

namespace knapper::serving {
namespace {

using Array = OrderedJson::array_t;
using Object = OrderedJson::object_t;

bool holdsValues(const OrderedJson &json) {
  return json.is_structured() && !json.empty();
}

OrderedJson &firstOf(OrderedJson &json) {
  if (auto *array = json.get_ptr<Array *>())
    return array->front();
  return json.get_ptr<Object *>()->front().second;
}

OrderedJson takeLast(OrderedJson &json) {
  OrderedJson last;
  if (auto *array = json.get_ptr<Array *>()) {
    last = std::move(array->back());
    array->pop_back();
  } else {
    auto *object = json.get_ptr<Object *>();
    last = std::move(object->back().second);
    object->pop_back();
  }
  return last;
}

/// Destroys a tree leaf by leaf. A list or object that is open keeps the one
/// around it in the place of its own first value: that is all the memory that
/// the way back needs.
void takeApart(OrderedJson top) noexcept {
  if (!holdsValues(top))
    return;
  OrderedJson open = std::move(top);
  // Around the top there is nothing: null.
  OrderedJson value = std::exchange(firstOf(open), OrderedJson());
  while (true) {
    if (holdsValues(value)) {
      OrderedJson inner = std::exchange(firstOf(value), std::move(open));
      open = std::move(value);
      value = std::move(inner);
      continue;
    }
    bool isOuter = open.size() == 1;
    value = takeLast(open);
    if (!isOuter)
      continue;
    if (value.is_null())
      return;
    open = std::exchange(value, OrderedJson());
  }
}

template <typename T> void release(T *content) {
  std::allocator<T> allocator;
  std::allocator_traits<std::allocator<T>>::destroy(allocator, content);
  allocator.deallocate(content, 1);
}

} // namespace
} // namespace knapper::serving

template <>
void knapper::serving::OrderedJson::json_value::destroy(
    nlohmann::detail::value_t type) {
  using nlohmann::detail::value_t;
  using namespace knapper::serving;
  // A value whose content found no memory has a type and no content.
  switch (type) {
  case value_t::array:
    for (; array && !array->empty(); array->pop_back())
      takeApart(std::move(array->back()));
    return array ? release(array) : void();
  case value_t::object:
    for (; object && !object->empty(); object->pop_back())
      takeApart(std::move(object->back().second));
    return object ? release(object) : void();
  case value_t::string:
    return string ? release(string) : void();
  case value_t::binary:
    return binary ? release(binary) : void();
  default:
    return;
  }
}
