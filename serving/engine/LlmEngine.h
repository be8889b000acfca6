// The engine over a compiled decoder. One thread owns all that changes:
// sequences, blocks, the step's numbers. Others only put requests and
// cancellations into a bounded queue. While a step runs on a device of its own,
// the thread posts the events of the step before, which another one sends, and
// prepares the step behind it: sequences may get blocks then, and nothing is
// admitted or ended. Where the device knows all that the next step needs, it
// gets that step at once ("early"). Who ends then leaves it, and its blocks
// come back behind it.
#pragma once

#include "serving/engine/DrawAhead.h"
#include "serving/engine/EventSender.h"
#include "serving/engine/Speculator.h"
#include "serving/engine/StepLog.h"
#include "serving/scheduler/Scheduler.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace knapper::serving {

struct LlmEngineSettings {
  ModelLimits limits = {};
  int32_t numBlocks = 0, blockTokens = 16;
  int32_t maxBatchedTokens = 512, maxSequences = 64, queueLimit = 1024;
  bool prefixCache = true;
  std::vector<int32_t> endTokens; ///< end of sequence, of the model
  SpeculationOptions speculation;
  std::shared_ptr<StepLog> record; ///< null: nothing is recorded
};

class LlmEngine final : public Engine {
public:
  /// `draft`: of SpeculationKind::draft.
  LlmEngine(std::unique_ptr<ModelRunner> runner, LlmEngineSettings settings,
            std::unique_ptr<DraftModel> draft = nullptr);
  /// Cancels what runs; waits for the step that is under way.
  ~LlmEngine() override;

  ModelLimits limits() const override { return settings.limits; }
  Expected<uint64_t> submit(Request request, EventSink sink) override;
  void cancel(uint64_t request) override;
  void drain() override;
  EngineStatistics statistics() const override;
  /// Counts from zero again, once what runs now has ended.
  void forgetStatistics();

private:
  /// How far a sequence is.
  struct Place {
    int32_t computed, length;
    friend bool operator==(const Place &, const Place &) = default;
  };
  struct Part {
    Sequence *sequence;       ///< null, in `next`: it has ended since
    Place from;               ///< before the step
    int32_t tokens, proposed; ///< computed; of them, behind its own
    int64_t firstRow, rows;   ///< of the logits
    /// Of the batch's tokens, the one that was not drawn yet; -1: none.
    int64_t unknown = -1;
    std::optional<size_t> ahead = {}; ///< of `drawAhead`
    std::optional<Token> token = {};  ///< drawn on the device
    /// Of the step's draws, the one that is this part's; -1: none.
    int32_t draw = -1;
    bool isOther = false; ///< in `next`: the device gave it another token
    /// Whether a token is drawn behind it.
    bool ends() const { return from.computed + tokens == from.length; }
    /// Of the logits behind the last token.
    int64_t nextRow() const { return firstRow + rows - 1 - proposed; }
  };
  /// What a step computes, and why.
  struct Step {
    StepBatch batch;
    std::vector<Part> parts;
    SchedulerState state;
    StepDecision decision;
  };

  void loop();
  /// Ends one request for want of memory, so that others find some.
  void giveUp();
  /// Ends those whose deadline is over.
  void endLate();
  /// Asks the device whether it works, where that is in doubt.
  void doubtDevice();
  /// Ends a request that the runtime failed.
  void fail(Sequence &sequence, Error error);
  /// Takes what was submitted and cancelled meanwhile; false: the end.
  bool takeMessages();
  /// One step; false if nothing could be done.
  bool step();
  /// Fills `current`; false: there is nothing to compute.
  bool decide();
  /// Gives `current` to the device.
  Status submitStep();
  Status submit(Step &step);
  /// Waits for `current`.
  Status waitForStep();
  void failStep(Error error);
  /// Where the step's tokens may have been none: its sequences are computed
  /// again, with the host's draws, and whatever fails then has another reason.
  bool leaveStep();
  /// Waits for what the device has, of which nothing counts.
  void abandonSteps();
  /// What is left to do while the device computes.
  void whileItRuns();
  /// Decides the step behind the one that runs, for as much as is known of it:
  /// in `next`, which `usePrepared` makes the current one.
  void prepare();
  bool decideNext();
  /// Fills in what was drawn since, and leaves out who has ended; false: too
  /// much is otherwise than was expected.
  bool usePrepared();
  void forgetPrepared();
  /// Gives the prepared step to the device behind the one that runs, if that
  /// leaves nothing to ask the host for.
  void submitEarly();
  bool mayRunEarly() const;
  /// Whether its token is the best one of the row, and nothing else of the row
  /// is wanted.
  static bool takesBest(const Sequence &sequence);
  /// Whether the device finds its token behind the step, which nothing but the
  /// row decides.
  bool drawsInStream(const Sequence &sequence) const;
  /// What is to be drawn behind the step.
  void addDraws(Step &step);
  /// Finishes these draws where the device's summaries tell the tokens.
  void readDraws();
  /// From the row that the device drew from.
  Expected<Token> drawAgain(const Sequence &sequence, const Part &part);
  /// Compares with the token that the next step has, if it was submitted.
  void checkGuess(Sequence &sequence, const Part &part, int32_t token);
  /// Makes the step that was submitted early the current one.
  void useEarly();
  /// Where the step that runs leaves the sequence, unless its answer is certain
  /// to end there.
  std::optional<Place> placeBehind(const Sequence &sequence,
                                   const Part *part) const;
  template <typename PlaceOf> SchedulerState view(PlaceOf &&placeOf);
  void admit(Sequence &sequence);
  void preempt(Sequence &sequence);
  /// Adds a part to the batch, if its blocks are there.
  void addPart(Step &step, Sequence &sequence, Place from, int32_t tokens,
               int32_t proposed);
  static void addTable(Step &step);
  void propose();
  void take(const Part &part);
  /// Fetches what is drawn from and begins to draw, of all parts at once.
  void beginDraws();
  void addDraw(Part &part);
  /// What the part's grammar allows behind its last token, empty without one;
  /// nothing where the grammar alone decides, or failed.
  std::optional<std::span<const uint32_t>> allowedOf(const Part &part);
  /// Has the device draw what it can; the parts that are left.
  std::vector<Part *> drawOnDevice(std::vector<Part *> drawing);
  void readPrompt(Sequence &sequence, int32_t first, int32_t count,
                  std::span<float> logits);
  /// The next tokens of a sequence of which all is computed: one for each of
  /// its last rows, as long as the token before was as proposed.
  void sample(const Part &part);
  /// The token behind all others; none where the sequence has ended. `begun`:
  /// the part whose first row this is, where it may be drawn already.
  std::optional<int32_t> draw(Sequence &sequence, int64_t row,
                              const Part *begun);
  /// The token of a row of the step's logits, which are fetched where the best
  /// one is not all that is asked for.
  Expected<Token> tokenOf(Sequence &sequence, int64_t row,
                          std::span<const uint32_t> allowed);
  /// Whether the device's best token is all that is asked for.
  bool wantsBest(const Sequence &sequence, int64_t row) const;
  /// Whether tokens could be drawn from the row.
  Expected<bool> isFinite(int64_t row);
  /// What the grammar alone decides; false: the sequence has ended.
  bool jump(Sequence &sequence, int64_t row,
            const GrammarFollower::Outcome &outcome);
  /// Takes a token; false: it was the last, or ends the sequence.
  bool commit(Sequence &sequence, Token token);
  /// Others may have the blocks that are full with what is computed: at once,
  /// or, where the device computes beside this thread, during the next step.
  void mayPublish(Sequence &sequence);
  void publish(Sequence &sequence);
  /// The same where memory for it may run out: it is done later then.
  void tryPublish(Sequence &sequence);
  void publishAll();
  /// Ends a sequence whose grammar lets nothing follow; false: it goes on.
  bool endsHere(Sequence &sequence, const GrammarCursor::Next &next);
  /// Ends the texts that cannot go on behind what was drawn.
  void settle();
  /// Posts what was drawn.
  void announce();
  /// An event to be sent, of the sequence.
  Event &post(Sequence &sequence);
  /// Has what was posted sent; whoever gets it sees its effect on `statistics`.
  void flush();
  bool stops(const Sequence &sequence, int32_t token) const;
  /// Its last event has what is `unsent`.
  void finish(Sequence &sequence, FinishReason reason, Error error = {});
  void checkLedger();
  void publishStatistics();

  const LlmEngineSettings settings;
  std::unique_ptr<ModelRunner> runner;
  KvCache cache;
  MaskWorkers masks; ///< before the sequences, which use it
  DrawAhead drawAhead{masks};
  Speculator speculator;
  std::map<uint64_t, std::unique_ptr<Sequence>> sequences; ///< not finished
  Step current, next;
  bool prepared = false;         ///< `next` is
  bool early = false;            ///< `next` was submitted behind `current`
  Status earlyStatus;            ///< an error of that
  size_t preparedSequences = 0;  ///< that there were then
  bool preparedWaiting = false;  ///< some of them did not run
  std::vector<Sequence *> drawn; ///< in this step, not settled
  EngineStatistics counters;     ///< of the engine's thread
  bool doubtful = false;         ///< the device failed a request
  bool fetchesAll = false;       ///< it could not draw, and is not asked again
  std::chrono::steady_clock::time_point soonest = ///< no deadline is before
      std::chrono::steady_clock::time_point::max();
  double lastRun = 0; ///< when it ended; 0: nothing was to be done since
  double started = 0; ///< the current step
  std::vector<EventSender::Item> posted; ///< never more than `sender` takes
  EventSender sender;

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable woken;
  std::map<uint64_t, std::unique_ptr<Sequence>> submitted;
  std::vector<uint64_t> cancelled;
  uint64_t nextId = 1;
  int32_t queued = 0; ///< submitted, and those that wait
  size_t held = 0;    ///< sequences, when messages were taken last
  bool draining = false, ending = false, forgetting = false;
  EngineStatistics published;
  double lastProgress = 0; ///< seconds of the steady clock
  std::thread thread;
};

} // namespace knapper::serving
