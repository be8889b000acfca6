#include "tools/knapper/Timing.h"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kLeastRounds = 5, kMostRounds = 200;

struct Times {
  std::map<std::string, double> seconds; ///< by signature
  std::map<std::string, std::string> origins;
  std::map<std::string, std::set<std::string>> schedules;
  std::string isa;
};

Expected<Times> profileOnce(knapper_module *module,
                            const std::vector<knapper_tensor> &inputs) {
  char *text = nullptr;
  TRY(toStatus(knapper_profile(module, inputs.data(),
                               static_cast<int32_t>(inputs.size()), &text)));
  Json json = Json::parse(takeString(text));
  Times times;
  times.isa = json.value("isa", "");
  for (const Json &launch : json.at("launches")) {
    std::string signature = signatureOf(launch.value("kernel", ""));
    times.seconds[signature] += launch.value("ns", 0.0) * 1e-9;
    times.origins.emplace(signature, launch.value("origin", ""));
    times.schedules[signature].insert(launch.value("schedule", ""));
  }
  return times;
}

} // namespace

double quantile(std::vector<double> values, double q) {
  auto at = values.begin() +
            static_cast<ptrdiff_t>(q * double(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Expected<double> timeRun(knapper_module *module,
                         const std::vector<knapper_tensor> &inputs) {
  Stopwatch watch;
  ASSIGN_OR_RETURN(ResultPtr result, run(module, inputs));
  return watch.seconds();
}

std::string signatureOf(const std::string &function) {
  constexpr size_t digits = 16;
  for (size_t at = function.find('_'); at != std::string::npos;
       at = function.find('_', at + 1)) {
    std::string part = function.substr(at + 1, digits);
    if (part.size() == digits &&
        part.find_first_not_of("0123456789abcdef") == std::string::npos)
      return part;
  }
  return function;
}

Expected<SideBySide> timeSideBySide(knapper_module *first,
                                    knapper_module *second,
                                    const std::vector<knapper_tensor> &inputs,
                                    double seconds) {
  std::vector<Times> a, b;
  Stopwatch watch;
  for (size_t round = 0; round <= kMostRounds; ++round) {
    ASSIGN_OR_RETURN(Times one, profileOnce(first, inputs));
    ASSIGN_OR_RETURN(Times other, profileOnce(second, inputs));
    if (round == 0)
      continue; // warms up
    a.push_back(std::move(one));
    b.push_back(std::move(other));
    if (a.size() >= kLeastRounds && watch.seconds() >= seconds)
      break;
  }
  SideBySide result;
  result.isa = a.front().isa;
  for (const auto &[signature, origin] : a.front().origins) {
    std::vector<double> firsts, seconds, ratios;
    for (size_t i = 0; i < a.size(); ++i) {
      auto x = a[i].seconds.find(signature), y = b[i].seconds.find(signature);
      if (x == a[i].seconds.end() || y == b[i].seconds.end() ||
          x->second <= 0 || y->second <= 0)
        continue;
      firsts.push_back(x->second);
      seconds.push_back(y->second);
      ratios.push_back(x->second / y->second);
    }
    if (!ratios.empty())
      result.kernels[signature] = {origin, median(firsts), median(seconds),
                                   median(ratios),
                                   b.back().schedules[signature]};
  }
  return result;
}

Expected<double> timeCopies(const std::vector<knapper_module *> &first,
                            const std::vector<knapper_module *> &second,
                            const std::vector<knapper_tensor> &inputs,
                            double seconds) {
  assert(first.size() == second.size() && !first.empty());
  std::vector<double> ratios;
  Stopwatch watch;
  for (size_t round = 0; round <= kMostRounds; ++round) {
    double taken[2] = {0, 0};
    for (size_t i = 0; i < first.size(); ++i)
      for (bool isSecond : {false, true}) {
        ASSIGN_OR_RETURN(double one,
                         timeRun((isSecond ? second : first)[i], inputs));
        taken[isSecond] += one;
      }
    if (round == 0)
      continue; // warms up
    ratios.push_back(taken[0] / taken[1]);
    if (ratios.size() >= kLeastRounds && watch.seconds() >= seconds)
      break;
  }
  return median(ratios);
}

Expected<std::vector<RunPair>>
timeRounds(knapper_module *first, knapper_module *second,
           const std::vector<knapper_tensor> &inputs, int64_t rounds) {
  std::vector<RunPair> pairs;
  for (int64_t round = 0; round <= rounds; ++round) {
    bool swapped = round % 2 == 1;
    ASSIGN_OR_RETURN(double one, timeRun(swapped ? second : first, inputs));
    ASSIGN_OR_RETURN(double other, timeRun(swapped ? first : second, inputs));
    if (round > 0)
      pairs.push_back(swapped ? RunPair{other, one} : RunPair{one, other});
  }
  return pairs;
}

} // namespace knapper::cli
