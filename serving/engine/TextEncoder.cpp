#include "serving/engine/TextEncoder.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

namespace knapper::serving {

static double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TextEncoder::TextEncoder(std::shared_ptr<Module> module, Settings settings)
    : settings(settings), module(std::move(module)),
      thread([this] { loop(); }) {}

TextEncoder::~TextEncoder() {
  {
    std::lock_guard lock(mutex);
    ending = true;
    changed.notify_all();
  }
  thread.join();
}

Expected<uint64_t> TextEncoder::submit(Request, EventSink) {
  return userError("makes vectors of texts, and no text", "the model",
                   "/v1/embeddings");
}

void TextEncoder::drain() {
  std::lock_guard lock(mutex);
  draining = true;
}

EngineStatistics TextEncoder::statistics() const {
  std::lock_guard lock(mutex);
  EngineStatistics now = published;
  now.waiting = static_cast<int32_t>(jobs.size());
  now.running = stepBegan != 0;
  now.secondsSinceProgress = stepBegan != 0 ? seconds() - stepBegan : 0;
  return now;
}

Status TextEncoder::embed(std::vector<std::vector<int32_t>> texts, Done done,
                          std::shared_ptr<const std::atomic<bool>> gone) {
  for (const std::vector<int32_t> &text : texts) {
    if (text.empty())
      return userError("has no tokens", "input", "give at least one");
    if (text.size() > static_cast<size_t>(settings.limits.contextLength))
      return userError(cat("has ", text.size(), " tokens; the context is ",
                           settings.limits.contextLength),
                       "input", "a shorter text");
    for (int32_t token : text)
      if (token < 0 || token >= settings.limits.vocabulary)
        return userError(cat("has the token ", token, ", and there are ",
                             settings.limits.vocabulary),
                         "input", "ids of this model's tokenizer");
  }
  std::lock_guard lock(mutex);
  if (draining || ending)
    return userError("takes no more requests", "draining",
                     "another server, or later");
  if (static_cast<int32_t>(jobs.size()) >= settings.queueLimit)
    return userError(cat("has ", jobs.size(), " requests that wait"), "queue",
                     "later");
  jobs.push_back({std::move(texts), std::move(done), std::move(gone)});
  changed.notify_one();
  return success();
}

void TextEncoder::loop() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || !jobs.empty(); });
    if (ending)
      break;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    stepBegan = seconds();
    lock.unlock();
    Expected<std::vector<float>> vectors = encode(job);
    bool good = static_cast<bool>(vectors);
    job.done(std::move(vectors));
    lock.lock();
    ++(good        ? published.finished
       : *job.gone ? published.cancelled
                   : published.failed);
    stepBegan = 0;
  }
  std::deque<Job> rest = std::move(jobs);
  lock.unlock();
  for (Job &job : rest)
    job.done(userError("takes no more requests", "draining"));
}

Expected<std::vector<float>> TextEncoder::encode(const Job &job) {
  // Texts of one length run together: nothing is padded, and a vector does not
  // depend on the texts beside it.
  std::vector<size_t> order(job.texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return job.texts[a].size() < job.texts[b].size();
  });
  std::vector<float> vectors(job.texts.size() * static_cast<size_t>(width()));
  for (size_t begin = 0; begin < order.size();) {
    size_t length = job.texts[order[begin]].size();
    size_t most = std::max<size_t>(
        1, static_cast<size_t>(settings.maxBatchedTokens) / length);
    size_t end = begin + 1;
    while (end < order.size() && end - begin < most &&
           job.texts[order[end]].size() == length)
      ++end;
    {
      std::lock_guard lock(mutex);
      if (ending)
        return userError("takes no more requests", "draining");
    }
    if (*job.gone)
      return userError("is wanted no more", "input");
    TRY(step(job, std::span(order).subspan(begin, end - begin), vectors));
    begin = end;
  }
  return vectors;
}

Status TextEncoder::step(const Job &job, std::span<const size_t> texts,
                         std::vector<float> &vectors) {
  auto rows = static_cast<int64_t>(texts.size()),
       length = static_cast<int64_t>(job.texts[texts.front()].size());
  std::vector<int32_t> tokens;
  for (size_t text : texts)
    tokens.insert(tokens.end(), job.texts[text].begin(), job.texts[text].end());
  std::vector<float> made(texts.size() * static_cast<size_t>(width()));
  std::array<int64_t, 2> in{rows, length}, out{rows, width()};
  knapper_tensor input{tokens.data(), tokens.size() * sizeof(int32_t),
                       KNAPPER_I32, 2, in.data()};
  knapper_tensor output{made.data(), made.size() * sizeof(float), KNAPPER_F32,
                        2, out.data()};
  TRY(module->run({&input, 1}, {&output, 1}, result));
  {
    std::lock_guard lock(mutex);
    ++published.steps;
    published.promptTokens += tokens.size();
    stepBegan = seconds();
  }
  auto step = static_cast<size_t>(width());
  for (size_t i = 0; i < texts.size(); ++i)
    std::copy_n(made.begin() + static_cast<long>(i * step), step,
                vectors.begin() + static_cast<long>(texts[i] * step));
  return success();
}

} // namespace knapper::serving
