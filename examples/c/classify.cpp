// Classifies rows with a compiled model, from several threads at once.
//
//     classify MODEL.knap [ROWS]
//
// The model has one float32 input [batch, features] and a float32 output
// [batch, classes]. Each thread brings memory of its own for inputs and
// outputs.
#include <knapper/knapper.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

template <auto Release> struct Releaser {
  template <typename T> void operator()(T *object) const { Release(object); }
};
using Module =
    std::unique_ptr<knapper_module, Releaser<knapper_module_release>>;
using Result =
    std::unique_ptr<knapper_result, Releaser<knapper_result_release>>;
using Error = std::unique_ptr<knapper_error, Releaser<knapper_error_release>>;

/// Throws what a call complains of: where, what, why and one thing to try.
void check(knapper_error *raised) {
  if (Error error{raised})
    throw std::runtime_error(knapper_error_get_message(error.get()));
}

Module load(const char *path) {
  knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
  options.threads = 1; // a run on the thread that asks for it: we bring several
  knapper_module *module = nullptr;
  check(knapper_load(path, &options, &module));
  return Module(module);
}

/// Elements of a row of a matrix. Throws for other tensors.
int64_t rowSize(const knapper_tensor_info &info) {
  if (info.dtype != KNAPPER_F32 || info.rank != 2 || info.shape[1] < 0)
    throw std::runtime_error(std::string(info.name) + " is no f32 matrix");
  return info.shape[1];
}

/// The class of each of `rows` rows of ones.
std::vector<int64_t> classify(knapper_module *module, int64_t rows) {
  knapper_tensor_info in = {}, out = {};
  in.size = out.size = sizeof(knapper_tensor_info);
  check(knapper_module_input(module, 0, &in));
  check(knapper_module_output(module, 0, &out));
  const int64_t inShape[] = {rows, rowSize(in)};
  const int64_t outShape[] = {rows, rowSize(out)};
  std::vector<float> values(inShape[0] * inShape[1], 1.0f);
  std::vector<float> scores(outShape[0] * outShape[1]);
  knapper_tensor input = {values.data(), values.size() * sizeof(float),
                          KNAPPER_F32, 2, inShape};
  knapper_tensor output = {scores.data(), scores.size() * sizeof(float),
                           KNAPPER_F32, 2, outShape};
  knapper_result *result = nullptr;
  check(knapper_run(module, &input, 1, &output, 1, &result));
  Result owned(result);
  std::vector<int64_t> best;
  for (int64_t row = 0; row < rows; ++row) {
    auto first = scores.begin() + row * outShape[1];
    best.push_back(std::max_element(first, first + outShape[1]) - first);
  }
  return best;
}

} // namespace

int main(int argc, char **argv) {
  try {
    Module module = load(argc > 1 ? argv[1] : "model.knap");
    int64_t rows = argc > 2 ? std::atoll(argv[2]) : 4;
    std::vector<int64_t> classes[3];
    std::string failed[3];
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        try {
          classes[i] = classify(module.get(), rows + i);
        } catch (const std::exception &error) {
          failed[i] = error.what();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    for (int i = 0; i < 3; ++i) {
      if (!failed[i].empty())
        throw std::runtime_error(failed[i]);
      std::printf("%zu rows, the first of class %lld\n", classes[i].size(),
                  classes[i].empty() ? -1LL : (long long)classes[i][0]);
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
