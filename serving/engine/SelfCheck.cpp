#include "serving/engine/SelfCheck.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <unistd.h>

namespace knapper::serving {
namespace {

using Logprobs = std::vector<TokenLogprob>;

/// What a request that is always the same gives: for each of its tokens the
/// most likely ones.
Expected<Logprobs> compute(Engine &engine) {
  ModelLimits limits = engine.limits();
  constexpr int32_t most = 24, answer = 4;
  Request request;
  int32_t length = std::clamp(limits.contextLength - answer, 1, most);
  for (int32_t i = 0; i < length; ++i)
    request.prompt.push_back((i * 7919 + 13) % limits.vocabulary);
  request.maxTokens = std::min(answer, limits.contextLength - length);
  request.sampling.temperature = 0;
  request.ignoreEos = true;
  request.speculate = false;
  request.topLogprobs = 5;
  Logprobs found;
  std::promise<Error> ended;
  TRY([&]() -> Status {
    auto taken = engine.submit(std::move(request), [&](Event event) {
      for (const Token &token : event.tokens)
        found.insert(found.end(), token.top.begin(), token.top.end());
      if (event.finish != FinishReason::none)
        ended.set_value(event.error.value_or(Error()));
    });
    if (!taken)
      return taken.takeError();
    return success();
  }());
  if (Error error = ended.get_future().get(); !error.what.empty())
    return error;
  return found;
}

/// Empty where there is none, or no whole one.
Logprobs readFile(const std::string &file) {
  Logprobs list;
  std::ifstream in(file);
  size_t count = 0;
  if (!(in >> count) || count > 1000)
    return {};
  for (size_t i = 0; i < count; ++i) {
    TokenLogprob one{};
    if (!(in >> one.token >> one.logprob))
      return {};
    list.push_back(one);
  }
  return list;
}

void writeFile(const std::string &file, const Logprobs &list) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(),
                                      ignored);
  std::string fresh = cat(file, ".", getpid());
  {
    std::ofstream out(fresh);
    out.precision(9);
    out << list.size() << "\n";
    for (const TokenLogprob &one : list)
      out << one.token << " " << one.logprob << "\n";
    out.close();
    if (!out) {
      std::filesystem::remove(fresh, ignored);
      return;
    }
  }
  std::filesystem::rename(fresh, file, ignored);
}

} // namespace

Status selfCheck(Engine &engine, const std::string &file) {
  Expected<Logprobs> now = compute(engine);
  if (!now) {
    Error error = now.takeError();
    error.where = cat("the check before the model is ready: ", error.where);
    return error;
  }
  Logprobs then = readFile(file);
  if (then.size() != now->size()) {
    writeFile(file, *now);
    return success();
  }
  // The same program on the same machine gives the same bits; what fails is
  // further away than what another build of the C library rounds otherwise.
  constexpr float tolerance = 1e-3f;
  for (size_t i = 0; i < then.size(); ++i)
    if (then[i].token != (*now)[i].token ||
        std::fabs(then[i].logprob - (*now)[i].logprob) > tolerance)
      return deviceError(
          cat("the model gives other logits than when it was first loaded "
              "here: token ",
              (*now)[i].token, " with ", (*now)[i].logprob, ", then token ",
              then[i].token, " with ", then[i].logprob),
          file,
          "test the machine's memory; without this file nothing is compared");
  return success();
}

} // namespace knapper::serving
