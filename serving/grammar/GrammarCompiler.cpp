#include "serving/grammar/GrammarCompiler.h"

#include <algorithm>

namespace knapper::serving {

Expected<std::unique_ptr<GrammarCompiler>>
GrammarCompiler::start(GrammarVocabulary vocabulary,
                       const GrammarLimits &limits) {
  std::unique_ptr<GrammarCompiler> made(
      new GrammarCompiler(std::move(vocabulary), limits));
  ASSIGN_OR_RETURN(made->helper,
                   GrammarHelper::start(made->vocabulary, limits));
  return made;
}

GrammarCompiler::~GrammarCompiler() { stop(); }

void GrammarCompiler::stop() {
  std::deque<std::shared_ptr<Job>> dropped;
  {
    std::lock_guard lock(mutex);
    ending = true;
    dropped.swap(jobs);
    helper->stop();
    changed.notify_all();
  }
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
}

std::shared_ptr<const TokenGrammar>
GrammarCompiler::find(const GrammarSpec &spec) {
  std::lock_guard lock(mutex);
  auto found = keptBySpec.find(&spec);
  if (found == keptBySpec.end())
    return nullptr;
  kept.splice(kept.begin(), kept, found->second);
  return found->second->grammar;
}

Status GrammarCompiler::compile(const GrammarSpec &spec, Done done) {
  constexpr size_t mostJobs = 256, mostThreads = 2;
  std::lock_guard lock(mutex);
  // Requests that ask for the same at once wait for one compile.
  auto same = [&](const std::shared_ptr<Job> &job) {
    return job->spec == spec;
  };
  auto queued = std::find_if(jobs.begin(), jobs.end(), same);
  auto running = std::find_if(working.begin(), working.end(), same);
  if (queued != jobs.end()) {
    (*queued)->waiting.push_back(std::move(done));
    return success();
  }
  if (running != working.end()) {
    (*running)->waiting.push_back(std::move(done));
    return success();
  }
  if (ending || jobs.size() >= mostJobs)
    return userError("has too many grammars that wait to be compiled", "queue",
                     "later");
  if (threads.size() < mostThreads)
    threads.emplace_back([this] { work(); });
  auto job = std::make_shared<Job>();
  job->spec = spec;
  job->waiting.push_back(std::move(done));
  jobs.push_back(std::move(job));
  changed.notify_one();
  return success();
}

void GrammarCompiler::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || !jobs.empty(); });
    if (ending)
      return;
    std::shared_ptr<Job> job = std::move(jobs.front());
    jobs.pop_front();
    working.push_back(job);
    lock.unlock();
    Made made = deviceError("out of memory", "grammar");
    try {
      made = make(job->spec);
    } catch (const std::bad_alloc &) { // only this grammar's requests fail
    }
    lock.lock();
    if (made)
      keep(job->spec, *made);
    working.remove(job);
    std::vector<Done> waiting = std::move(job->waiting);
    lock.unlock();
    for (Done &done : waiting)
      done(made);
    waiting.clear();
    lock.lock();
  }
}

GrammarCompiler::Made GrammarCompiler::make(const GrammarSpec &spec) {
  if (auto grammar = find(spec))
    return grammar;
  std::shared_ptr<GrammarHelper> process;
  std::shared_ptr<GrammarLibrary> reader;
  {
    std::lock_guard lock(mutex);
    process = helper;
    reader = library;
  }
  Expected<std::string> compiled = process->compile(spec);
  if (!compiled && compiled.error().kind == ErrorKind::device) {
    // Somebody ended it: once more, in another.
    {
      std::lock_guard lock(mutex);
      if (ending)
        return compiled.takeError();
    }
    ASSIGN_OR_RETURN(process, GrammarHelper::start(vocabulary, limits));
    {
      std::lock_guard lock(mutex);
      helper = process;
      if (ending)
        helper->stop();
    }
    compiled = process->compile(spec);
  }
  if (!compiled)
    return compiled.takeError();
  if (!reader) {
    ASSIGN_OR_RETURN(reader, GrammarLibrary::create(vocabulary));
    std::lock_guard lock(mutex);
    library = reader;
  }
  return reader->load(*compiled, limits.secondsPerToken);
}

void GrammarCompiler::keep(const GrammarSpec &spec,
                           const std::shared_ptr<const TokenGrammar> &grammar) {
  if (keptBySpec.contains(&spec))
    return;
  size_t bytes = grammar->bytes() + spec.text.size();
  if (bytes > limits.cacheBytes)
    return;
  kept.push_front({spec, grammar, bytes});
  keptBySpec.emplace(&kept.front().spec, kept.begin());
  keptBytes += bytes;
  while (!kept.empty() &&
         keptBytes + library->maskBytes() > limits.cacheBytes) {
    keptBytes -= kept.back().bytes;
    keptBySpec.erase(&kept.back().spec);
    kept.pop_back();
  }
}

} // namespace knapper::serving
