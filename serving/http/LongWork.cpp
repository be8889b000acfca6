#include "serving/http/LongWork.h"

#include <algorithm>
#include <exception>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace knapper::serving {

void LongWork::startThread() {
  if (threads.size() >= static_cast<size_t>(std::max(limits.threads, 1)))
    return;
  try {
    // The first takes all: it is enough where no other is to be had.
    threads.emplace_back(
        [this, onlySmall = !threads.empty()] { work(onlySmall); });
  } catch (const std::exception &) { // no thread, or no memory for it
  }
}

bool LongWork::add(size_t bytes, Job job) {
  std::lock_guard lock(mutex);
  if (texts.size() >= limits.waiting)
    return false;
  return push(texts, {bytes, std::move(job)});
}

bool LongWork::addAnswer(Job job) {
  std::lock_guard lock(mutex);
  return push(answers, {0, std::move(job)});
}

bool LongWork::push(std::deque<Waiting> &queue, Waiting waiting) {
  if (ending)
    return false;
  startThread();
  if (threads.empty())
    return false;
  queue.push_back(std::move(waiting));
  changed.notify_all();
  return true;
}

void LongWork::stop() {
  std::deque<Waiting> rest, restAnswers;
  std::vector<std::thread> ended;
  {
    std::lock_guard lock(mutex);
    ending = true;
    rest.swap(texts);
    restAnswers.swap(answers);
    ended.swap(threads);
    changed.notify_all();
  }
  for (std::thread &thread : ended)
    thread.join();
  for (Waiting &one : restAnswers)
    one.job(true);
  for (Waiting &one : rest)
    one.job(true);
}

void LongWork::work(bool onlySmall) {
  pthread_setname_np(pthread_self(), "knapper-texts");
  // Streams come first: tokens that are computed on these cores, and sent.
  constexpr int niceness = 5;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
  std::unique_lock lock(mutex);
  bool answerFirst = true; // in turns: neither kind waits for all of the other
  while (true) {
    auto text = texts.end();
    changed.wait(lock, [&] {
      text = std::find_if(texts.begin(), texts.end(), [&](const Waiting &one) {
        return !onlySmall || one.bytes <= limits.small;
      });
      return ending || text != texts.end() || !answers.empty();
    });
    if (ending)
      return;
    bool takesAnswer = !answers.empty() && (answerFirst || text == texts.end());
    answerFirst = !takesAnswer;
    std::deque<Waiting> &queue = takesAnswer ? answers : texts;
    auto next = takesAnswer ? answers.begin() : text;
    Job job = std::move(next->job);
    queue.erase(next);
    lock.unlock();
    job(false);
    job = nullptr; // what it holds ends here, not under the mutex
    lock.lock();
  }
}

} // namespace knapper::serving
