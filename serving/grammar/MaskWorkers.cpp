#include "serving/grammar/MaskWorkers.h"

#include <algorithm>
#include <pthread.h>
#include <system_error>

namespace knapper::serving {

MaskWorkers::~MaskWorkers() {
  {
    std::lock_guard lock(mutex);
    ending = true;
    jobs.clear();
    changed.notify_all();
  }
  for (std::thread &thread : threads)
    thread.join();
}

void MaskWorkers::add(const std::shared_ptr<Job> &job) {
  std::lock_guard lock(mutex);
  jobs.push_back(job);
  try {
    if (static_cast<int>(threads.size()) < most && threads.size() < jobs.size())
      threads.emplace_back([this] { work(); });
  } catch (const std::system_error &) {
    // No thread is to be had: who finishes the job does it.
  }
  changed.notify_one();
}

void MaskWorkers::finish(Job &job) {
  std::unique_lock lock(mutex);
  if (job.state == Job::State::waiting) {
    std::erase_if(jobs, [&](const auto &one) { return one.get() == &job; });
    job.state = Job::State::running;
    lock.unlock();
    job.work();
    lock.lock();
    job.state = Job::State::done;
    return;
  }
  ended.wait(lock, [&] { return job.state == Job::State::done; });
}

void MaskWorkers::work() {
  pthread_setname_np(pthread_self(), "knapper-masks");
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || !jobs.empty(); });
    if (ending)
      return;
    std::shared_ptr<Job> job = std::move(jobs.front());
    jobs.pop_front();
    job->state = Job::State::running;
    lock.unlock();
    job->work();
    lock.lock();
    job->state = Job::State::done;
    ended.notify_all();
  }
}

int maskThreads() {
  auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores - 1, 0, 4);
}

} // namespace knapper::serving
