#include "serving/json/OrderedJson.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

namespace {

int64_t failAt = -1; ///< of the allocations, all fail from this one on
int64_t allocations = 0, live = 0;

void *allocate(size_t bytes) {
  if (failAt >= 0 && allocations++ >= failAt)
    throw std::bad_alloc();
  if (void *memory = malloc(bytes ? bytes : 1)) {
    ++live;
    return memory;
  }
  throw std::bad_alloc();
}

void release(void *memory) {
  live -= memory != nullptr;
  free(memory);
}

} // namespace

void *operator new(size_t bytes) { return allocate(bytes); }
void *operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void *memory) noexcept { release(memory); }
void operator delete[](void *memory) noexcept { release(memory); }
void operator delete(void *memory, size_t) noexcept { release(memory); }
void operator delete[](void *memory, size_t) noexcept { release(memory); }

namespace knapper::serving {
namespace {

const char *const texts[] = {
    "{}",
    "[]",
    "7",
    R"("a text that is too long to stand in the string itself")",
    R"([1, null, [], {}, [[]], "a text that is too long to stand in it"])",
    R"({"a": {"b": {"c": [[{"d": [null, {"e": "x"}]}, 2], 3]}}, "f": [{}]})",
    R"([[[[[1, 2], 3], 4], 5], [6, [7, [8, [9, {"a": null}]]]]])"};

TEST(OrderedJson, DestroysWithoutMemory) {
  for (const char *text : texts) {
    int64_t before = live;
    auto *json = new OrderedJson(OrderedJson::parse(text));
    failAt = allocations = 0;
    delete json;
    failAt = -1;
    EXPECT_EQ(allocations, 0) << text;
    EXPECT_EQ(live, before) << text;
  }
}

TEST(OrderedJson, FieldsMoveWhereAnObjectGrows) {
  OrderedJson made = OrderedJson::parse(R"({"first": ["x", "y"]})");
  const OrderedJson *inner = &made["first"][0];
  std::string text = R"({"first":["x","y"])";
  for (int i = 0; i < 100; ++i) {
    std::string name = std::to_string(i);
    made[name] = i;
    made[name] = 2 * i; // is there: another value, the same place
    text += ",\"" + name + "\":" + std::to_string(2 * i);
  }
  EXPECT_EQ(&made["first"][0], inner);
  EXPECT_EQ(made.dump(), text + "}");
  EXPECT_EQ(OrderedJson::parse(made.dump()), made);
}

TEST(OrderedJson, DestroysWhatIsNestedDeeply) {
  constexpr size_t depth = 200'000;
  std::string text;
  for (size_t i = 0; i < depth; ++i)
    text += i % 2 ? "[1, " : R"({"a": )";
  text += "\"x\"";
  for (size_t i = depth; i-- > 0;)
    text += i % 2 ? R"(, {"b": [2]}])" : "}";
  int64_t before = live;
  {
    OrderedJson json = OrderedJson::parse(text);
    EXPECT_EQ(json["a"][0], 1);
  }
  EXPECT_EQ(live, before);
}

/// Parts that were made go without memory as well, wherever it runs out.
TEST(OrderedJson, WhatFindsNoMemoryIsAnExceptionOnly) {
  for (const char *text : texts) {
    const OrderedJson whole = OrderedJson::parse(text);
    const std::string given = text;
    int64_t threw = 0;
    auto everywhere = [&](auto &&make) {
      for (int64_t first = 0;; ++first) {
        int64_t before = live;
        allocations = 0;
        failAt = first;
        bool failed = false;
        try {
          make();
        } catch (const std::bad_alloc &) {
          failed = true;
        }
        failAt = -1;
        EXPECT_EQ(live, before) << text << " " << first;
        threw += failed;
        if (!failed)
          return;
      }
    };
    everywhere([&] { OrderedJson made = OrderedJson::parse(given); });
    everywhere([&] { OrderedJson copy = whole; });
    everywhere([&] {
      OrderedJson made = OrderedJson::object();
      made["content"] = whole;
      made["list"] = OrderedJson::array();
      made["list"].push_back(whole);
      made.erase("content");
    });
    EXPECT_GT(threw, 3) << text;
  }
}

} // namespace
} // namespace knapper::serving
