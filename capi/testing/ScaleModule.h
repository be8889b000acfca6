// A small module for the tests of the C API: one launch and one copy.
#pragma once

#include "capi/testing/TakeError.h"
#include "knapper/knapper.h"
#include "runtime/testing/TestArtefact.h"

#include <gtest/gtest.h>
#include <vector>

namespace knapper::testing {

/// The bytes of an artefact: y = x * 2 + 1, x [n, 4] f32.
inline std::vector<std::byte> scaleFile() {
  TestArtefact a;
  uint32_t n = a.symbol("n"), four = a.constant(4);
  uint32_t elements = a.mul(n, four);
  uint32_t x = a.input("x", DType::f32, {n, four}, {"n", "4"});
  uint32_t t = a.temp(a.mul(elements, four), 0, 1);
  uint32_t y = a.output("y", DType::f32, {n, four}, {"n", "4"});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, t}, elements);
  a.copy(main, t, y, a.mul(elements, four));
  return a.bytes();
}

/// That artefact in memory, loaded until the end of the scope.
struct LoadedScale {
  knapper_module *module = nullptr;
  LoadedScale() {
    std::vector<std::byte> bytes = scaleFile();
    EXPECT_EQ(
        take(knapper_load_memory(bytes.data(), bytes.size(), nullptr, &module)),
        "no error");
  }
  ~LoadedScale() { knapper_module_release(module); }
};

/// x [n, 4], each element 3.
struct Input {
  std::vector<float> data;
  std::vector<int64_t> shape;
  knapper_tensor tensor;
  explicit Input(int64_t n) : data(n * 4, 3.0f), shape{n, 4} {
    tensor = testing::tensor(data, shape);
  }
};

} // namespace knapper::testing
