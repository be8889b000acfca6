//===- Compiled.h - An op case as a compiled module -----------------------===//
#pragma once

#include "ir/tensor/reference/HostTensor.h"
#include "knapper/knapper.h"
#include <string_view>
#include <vector>

namespace knapper::opcases {

/// A tensor program compiled through the C API, as users do.
class Compiled {
public:
  /// `isa` is an instruction set such as "x86-64-v3", or a GPU's, "sm_90a".
  /// With a `file`, the artefact is written there and not loaded: the result
  /// cannot run, and the device need not exist. `records`: a file of tuning
  /// records.
  static Expected<Compiled> compile(std::string_view mlir,
                                    const std::string &isa,
                                    const std::string &file = {},
                                    const std::string &records = {});
  /// The program again, each kernel scheduled by the `number`th of the choices
  /// that its knobs have besides the model's; nothing where there are fewer.
  Expected<std::optional<Compiled>> otherwise(std::string_view mlir,
                                              const std::string &isa,
                                              unsigned number) const;
  Compiled(Compiled &&other) : module(other.module) { other.module = nullptr; }
  Compiled &operator=(Compiled &&) = delete;
  ~Compiled() { knapper_module_release(module); }

  /// Copies of the outputs.
  Expected<std::vector<ts::HostTensor>>
  run(const std::vector<ts::HostTensor> &inputs) const;

  /// Seconds of one run, outputs in reused memory: the least of `count`.
  Expected<double> time(const std::vector<ts::HostTensor> &inputs,
                        int count) const;

  /// Which kernels and schedules it is made of, as JSON.
  std::string describe() const;

private:
  explicit Compiled(knapper_module *module) : module(module) {}
  knapper_module *module;
};

} // namespace knapper::opcases
