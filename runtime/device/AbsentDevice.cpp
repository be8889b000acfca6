#include "runtime/device/AbsentDevice.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace knapper {

namespace {

/// Kernels are found, but nothing launches them.
class AbsentExecutable : public Executable {
public:
  Expected<KernelHandle> kernel(uint64_t, std::string_view) const override {
    return KernelHandle{};
  }
};

class AbsentDevice : public Device {
public:
  AbsentDevice(std::string kind, Error missing)
      : name(std::move(kind)), missing(std::move(missing)) {}

  std::string_view kind() const override { return name; }
  int rank(std::string_view isa) const override {
    auto digit = std::find_if(isa.begin(), isa.end(),
                              [](unsigned char c) { return isdigit(c); });
    int number = 0;
    std::from_chars(isa.data() + (digit - isa.begin()), isa.data() + isa.size(),
                    number);
    return 1 + std::max(number, 0);
  }
  std::string runnable() const override { return ""; }
  bool addressesHost() const override { return false; }
  bool canRecord() const override { return false; }
  Status describe(JsonWriter &, bool) const override { return missing; }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t,
                                                   MemoryKind) override {
    return missing;
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &) override {
    return missing;
  }
  Expected<std::unique_ptr<Executable>> load(std::span<const std::byte>,
                                             const std::string &) override {
    return std::unique_ptr<Executable>(new AbsentExecutable);
  }

private:
  const std::string name;
  const Error missing;
};

} // namespace

std::shared_ptr<Device> absentDevice(std::string kind, Error missing) {
  return std::make_shared<AbsentDevice>(std::move(kind), std::move(missing));
}

} // namespace knapper
