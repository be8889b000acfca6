// Grammars for a model's tokens: compiled once, in another process, and kept.
#pragma once

#include "serving/grammar/GrammarHelper.h"
#include "serving/grammar/GrammarLibrary.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <thread>
#include <unordered_map>

namespace knapper::serving {

/// Thread-safe.
class GrammarCompiler {
public:
  using Made = Expected<std::shared_ptr<const TokenGrammar>>;
  using Done = std::function<void(const Made &)>;

  /// Starts the helper process: best before the model is loaded.
  static Expected<std::unique_ptr<GrammarCompiler>>
  start(GrammarVocabulary vocabulary, const GrammarLimits &limits = {});
  /// As `stop`.
  ~GrammarCompiler();
  /// Ends the compiles that run, whose `done` gets an error, drops those that
  /// wait, and refuses more. To be called while what the `done`s use is alive.
  void stop();

  /// A grammar that is kept; null: it is to be compiled.
  std::shared_ptr<const TokenGrammar> find(const GrammarSpec &spec);
  /// Calls `done` on a thread of its own, with errors as GrammarHelper::compile
  /// has them. Refuses where too many wait (the error's `where` is "queue").
  Status compile(const GrammarSpec &spec, Done done);

private:
  GrammarCompiler(GrammarVocabulary vocabulary, const GrammarLimits &limits)
      : vocabulary(std::move(vocabulary)), limits(limits) {}
  struct Kept {
    GrammarSpec spec;
    std::shared_ptr<const TokenGrammar> grammar;
    size_t bytes;
  };
  struct Job {
    GrammarSpec spec;
    std::vector<Done> waiting;
  };

  using KeptList = std::list<Kept>;
  struct SpecHash {
    size_t operator()(const GrammarSpec *spec) const {
      return std::hash<std::string>()(spec->text);
    }
  };
  struct SpecEqual {
    bool operator()(const GrammarSpec *a, const GrammarSpec *b) const {
      return *a == *b;
    }
  };

  void work();
  Made make(const GrammarSpec &spec);
  void keep(const GrammarSpec &spec,
            const std::shared_ptr<const TokenGrammar> &grammar);

  const GrammarVocabulary vocabulary;
  const GrammarLimits limits;
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::shared_ptr<GrammarHelper> helper;
  std::shared_ptr<GrammarLibrary> library;
  KeptList kept; ///< the latest first
  std::unordered_map<const GrammarSpec *, KeptList::iterator, SpecHash,
                     SpecEqual>
      keptBySpec;
  size_t keptBytes = 0; ///< without masks, which grammars share
  std::deque<std::shared_ptr<Job>> jobs; ///< that nobody works at
  std::list<std::shared_ptr<Job>> working;
  bool ending = false;
  std::vector<std::thread> threads;
};

} // namespace knapper::serving
