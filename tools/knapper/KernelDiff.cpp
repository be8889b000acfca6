#include "tools/knapper/KernelDiff.h"

#include "runtime/artefact/Artefact.h"
#include "tools/knapper/KernelCode.h"
#include "tools/knapper/Timing.h"

#include <nlohmann/json.hpp>
#include <set>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Kernel {
  std::set<std::string> schedules; // with the guard under which it is taken
  std::string origin;
};

struct Contents {
  std::map<std::string, std::map<std::string, Kernel>> bySignature; // and name
  std::map<std::string, std::map<std::string, KernelCode>> codes;
  std::vector<std::string> called; // kernels, launch by launch
  size_t launches = 0;
};

Expected<Contents> contentsOf(const knapper_module *module,
                              const std::string &path) {
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module, &text)));
  const Json json = Json::parse(text);
  Contents contents;
  contents.launches = json.at("launches").size();
  for (const Json &kernel : json.at("kernels")) {
    std::string name = kernel.at("name").get<std::string>();
    contents.bySignature[signatureOf(name)][name];
  }
  for (const Json &launch : json.at("launches"))
    for (const Json &choice : launch.at("choices")) {
      std::string name = choice.at("kernel").get<std::string>();
      std::string schedule = choice.at("schedule").get<std::string>();
      std::string guard = choice.at("guard").get<std::string>();
      Kernel &kernel = contents.bySignature[signatureOf(name)][name];
      kernel.schedules.insert(guard == "1" ? schedule
                                           : schedule + " if " + guard);
      if (kernel.origin.empty())
        kernel.origin = launch.at("origin").get<std::string>();
      contents.called.push_back(std::move(name));
    }
  ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact,
                   Artefact::load(path));
  ASSIGN_OR_RETURN(auto codes, kernelCodes(*artefact));
  contents.codes = std::move(codes);
  return contents;
}

/// Adds up to `side`; returns the code of the kernels of a signature, one after
/// the other.
std::string codeOf(const Contents &contents, const std::string &isa,
                   KernelDiff::Side &side) {
  std::string all;
  const auto &codes = contents.codes.at(isa);
  for (const std::string &name : side.names)
    if (auto code = codes.find(name); code != codes.end()) {
      all += code->second.bytes + '\n';
      side.codeBytes += code->second.size;
    }
  return all;
}

KernelDiff::Side sideOf(const Contents &contents, const std::string &signature,
                        std::string &origin) {
  KernelDiff::Side side;
  auto found = contents.bySignature.find(signature);
  if (found == contents.bySignature.end())
    return side;
  for (const auto &[name, kernel] : found->second) {
    side.names.push_back(name);
    side.schedules.insert(side.schedules.end(), kernel.schedules.begin(),
                          kernel.schedules.end());
    if (origin.empty())
      origin = kernel.origin;
  }
  return side;
}

} // namespace

Expected<ArtefactDiff> diffKernels(const knapper_module *first,
                                   const std::string &firstPath,
                                   const knapper_module *second,
                                   const std::string &secondPath) {
  Expected<Contents> a = contentsOf(first, firstPath);
  if (!a)
    return a.takeError();
  ASSIGN_OR_RETURN(Contents b, contentsOf(second, secondPath));

  ArtefactDiff diff;
  diff.launches[0] = a->launches;
  diff.launches[1] = b.launches;
  diff.order = a->launches != b.launches || a->called != b.called;
  std::vector<std::string> common;
  for (const auto &[isa, codes] : a->codes)
    (b.codes.contains(isa) ? common : diff.firstOnly).push_back(isa);
  for (const auto &[isa, codes] : b.codes)
    if (!a->codes.contains(isa))
      diff.secondOnly.push_back(isa);

  std::set<std::string> signatures;
  for (const Contents *contents : {&*a, &b})
    for (const auto &[signature, kernels] : contents->bySignature)
      signatures.insert(signature);
  for (const std::string &signature : signatures) {
    KernelDiff kernel;
    kernel.signature = signature;
    kernel.first = sideOf(*a, signature, kernel.origin);
    kernel.second = sideOf(b, signature, kernel.origin);
    kernel.names = kernel.first.names != kernel.second.names;
    kernel.schedules = kernel.first.schedules != kernel.second.schedules;
    for (const std::string &isa : common) {
      std::string firstCode = codeOf(*a, isa, kernel.first);
      std::string secondCode = codeOf(b, isa, kernel.second);
      if (!kernel.first.names.empty() && !kernel.second.names.empty() &&
          firstCode != secondCode)
        kernel.code.push_back(isa);
    }
    diff.kernels.push_back(std::move(kernel));
  }
  return diff;
}

} // namespace knapper::cli
