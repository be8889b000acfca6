#include "targets/Target.h"
#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/ScratchFile.h"
#include "tools/knapper/Timing.h"
#include "tune/Search.h"

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <set>
#include <sys/signalfd.h>
#include <unistd.h>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::Choice;
using tune::Record;
using tune::Records;

struct TuneArguments {
  std::string model, output, records, budget = "60s";
  int threads = 0;
  bool json = false;
  Dims dims;
  Inputs inputs;
  CompilerFlags flags;
};

/// A model that gains less than this cannot be told from noise.
constexpr double kLeastModelGain = 1.005;
/// How long whole runs are compared at the end.
constexpr double kCopiesSeconds = 1;

/// A kernel that is worth a search.
struct Candidate {
  std::string signature, origin;
  double share = 0;   ///< of the time of all kernels
  double seconds = 0; ///< untuned, of all its launches
  tune::Search search;
  std::optional<Choice> proposal; ///< being measured in this round
  /// What code that is not ours was measured at, by its knob.
  std::map<std::string, double> others;
  std::set<std::string> onOffer; ///< names of its knobs
};

/// Whether what was measured is what was proposed: a library may not lie here,
/// or lack such a matmul, and then a compiled kernel ran.
bool didRun(const Choice &proposal, const KernelPair &measured) {
  constexpr std::string_view library = "vendor:";
  return std::all_of(proposal.begin(), proposal.end(), [&](const auto &choice) {
    return !choice.first.starts_with(library) ||
           measured.schedules.contains(
               "vendor{" + choice.first.substr(library.size()) + "}");
  });
}

/// "60", "60s", "1.5m", "1h" in seconds.
Expected<double> parseBudget(const std::string &text) {
  char *end = nullptr;
  double seconds = strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit.empty() || unit == "s" ? 1
                 : unit == "m"               ? 60
                 : unit == "h"               ? 3600
                                             : 0;
  if (end == text.c_str() || scale == 0 || !(seconds > 0) || seconds > 1e6)
    return userError("'" + text + "' is no time", "--budget",
                     "write 60s, 5m or 1h");
  return seconds * scale;
}

/// Ctrl-C as an end of the search instead of the program, while it lives.
class Interrupts {
public:
  Interrupts() {
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Interrupts() {
    // What came has been heeded.
    signalfd_siginfo info;
    while (fd >= 0 && read(fd, &info, sizeof info) == sizeof info) {
    }
    if (fd >= 0)
      close(fd);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Interrupts(const Interrupts &) = delete;
  Interrupts &operator=(const Interrupts &) = delete;
  bool pending() const {
    pollfd wait{fd, POLLIN, 0};
    return fd >= 0 && poll(&wait, 1, 0) == 1;
  }

private:
  sigset_t signals, before;
  int fd = -1;
};

class Tuner {
public:
  Tuner(Session &session, TuneArguments &arguments, double budget)
      : session(session), arguments(arguments), budget(budget) {}

  Status run();

private:
  double elapsed() const { return clock.seconds(); }
  Expected<ModulePtr> compile(const Records &records, const std::string &output,
                              bool load);
  Status findCandidates(const SideBySide &sides);
  Status findMachine(const SideBySide &sides);
  Status explore();
  Status install();
  Expected<SideBySide> compare(knapper_module *module, double seconds);
  Expected<double> compareCopies(knapper_module *tuned);
  Records recordsOf(bool proposals) const;
  void addKnown(Records &found) const;
  void report(double gain) const;

  Session &session;
  TuneArguments &arguments;
  double budget;
  Stopwatch clock;
  Interrupts interrupts;
  std::optional<ScratchFile> scratch; ///< the records of a round
  Records known;                      ///< what the file held before
  Records installed;                  ///< of this search
  std::string target, machine, isa;
  ModulePtr untuned;
  std::vector<Array> inputs;
  std::vector<knapper_tensor> tensors;
  std::vector<Candidate> candidates;
  double roundSeconds = 0, measureSeconds = 0; ///< of the slowest round
  size_t rounds = 0, rolledBack = 0;
};

Expected<ModulePtr> Tuner::compile(const Records &records,
                                   const std::string &output, bool load) {
  auto given = arguments.flags.given();
  if (!records.all().empty()) {
    TRY(writeFile(scratch->path(), records.json()));
    given.emplace_back("records", scratch->path());
  }
  if (output.empty()) {
    given.emplace_back("cache", "false");
    if (!isa.empty())
      given.emplace_back("isa", isa); // no other is measured here
  }
  std::vector<knapper_option> rows;
  for (auto &[key, value] : given)
    rows.push_back({key.c_str(), value.c_str()});
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = arguments.model.c_str();
  options.output_path = output.empty() ? nullptr : output.c_str();
  options.options = rows.data();
  options.num_options = static_cast<int32_t>(rows.size());
  knapper_load_options loading = KNAPPER_LOAD_OPTIONS_INIT;
  loading.threads = arguments.threads;
  knapper_module *module = nullptr;
  TRY(toStatus(knapper_compile(&options, &loading, load ? &module : nullptr)));
  return ModulePtr(module);
}

/// The best choices so far, or what this round measures.
Records Tuner::recordsOf(bool proposals) const {
  Records records;
  for (const Candidate &c : candidates) {
    const Choice &choice =
        proposals && c.proposal ? *c.proposal : c.search.best();
    if (choice.empty())
      continue;
    Record record;
    record.signature = c.signature;
    record.target = target;
    record.choice = choice;
    record.gain = c.search.gain();
    record.machine = machine;
    record.threads = arguments.threads;
    for (const auto &[name, value] : arguments.dims.values())
      record.sizes += (record.sizes.empty() ? "" : ",") + name + "=" +
                      std::to_string(value);
    records.set(std::move(record));
  }
  return records;
}

/// Adds what the file held before. An older record that asks for what is no
/// longer on offer, such as a library of --vendor, does not stay for a kernel
/// of which something was found now.
void Tuner::addKnown(Records &found) const {
  Records kept;
  for (const auto &[key, record] : known.all()) {
    auto of = std::find_if(candidates.begin(), candidates.end(),
                           [&](auto &c) { return c.signature == key.first; });
    bool fits = of == candidates.end() || !found.find(key.first, key.second) ||
                std::all_of(record.choice.begin(), record.choice.end(),
                            [&](const auto &choice) {
                              return of->onOffer.contains(choice.first);
                            });
    if (fits)
      kept.set(record);
  }
  found.merge(kept);
}

Expected<SideBySide> Tuner::compare(knapper_module *module, double seconds) {
  return timeSideBySide(untuned.get(), module, tensors, seconds);
}

/// Where the untuned model ran: the name of the device, and the instruction set
/// of those that code is made for.
Status Tuner::findMachine(const SideBySide &sides) {
  std::string name = target.substr(0, target.find(':'));
  if (const Target *found = findTarget(name); found && found->takesIsas())
    isa = sides.isa;
  char *devices = nullptr;
  TRY(toStatus(knapper_devices(0, &devices)));
  for (const Json &device : Json::parse(takeString(devices)))
    if (machine.empty() && device.value("device", "") == name)
      machine = device.value("name", "");
  return success();
}

Status Tuner::findCandidates(const SideBySide &sides) {
  // What takes less cannot be told from noise, and is not worth it.
  constexpr double leastShare = 0.005;
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(untuned.get(), &text)));
  const Json report = Json::parse(text).at("report");
  target = report.value("target", "cpu");
  double total = 0;
  for (const auto &[signature, kernel] : sides.kernels)
    total += kernel.first;
  for (const Json &kernel : report.value("unique_kernels", Json::array())) {
    std::string signature = kernel.value("signature", "");
    auto timed = sides.kernels.find(signature);
    if (timed == sides.kernels.end() ||
        timed->second.first < leastShare * total)
      continue;
    std::vector<tune::Knob> knobs;
    for (const Json &knob : kernel.at("knobs"))
      knobs.push_back({knob.value("name", ""), knob.value("model", int64_t(0)),
                       knob.value("others", std::vector<int64_t>()),
                       knob.value("value", int64_t(0)),
                       knob.value("alone", false)});
    std::set<std::string> onOffer;
    for (const tune::Knob &knob : knobs)
      onOffer.insert(knob.name);
    candidates.push_back({signature,
                          timed->second.origin,
                          timed->second.first / total,
                          timed->second.first,
                          tune::Search(std::move(knobs)),
                          std::nullopt,
                          {},
                          std::move(onOffer)});
  }
  return success();
}

/// The whole model, unprofiled. Where the system puts the pages of a model
/// whose constants stay in the caches makes a difference of a few percent, so
/// such a one is loaded several times, from files as it will be used.
Expected<double> Tuner::compareCopies(knapper_module *tuned) {
  constexpr int copies = 3;
  constexpr uintmax_t largest = 64 << 20; // bytes
  std::vector<ModulePtr> loaded;
  std::vector<knapper_module *> first, second;
  // False: it is larger than that.
  auto load = [&](knapper_module *module,
                  std::vector<knapper_module *> &into) -> Expected<bool> {
    ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::create());
    if (Status status =
            toStatus(knapper_module_save(module, file.path().c_str()));
        !status)
      return status.takeError();
    std::error_code error;
    if (std::filesystem::file_size(file.path(), error) > largest)
      return false;
    knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
    options.threads = arguments.threads;
    knapper_module *copy = nullptr;
    if (Status status =
            toStatus(knapper_load(file.path().c_str(), &options, &copy));
        !status)
      return status.takeError();
    loaded.emplace_back(copy);
    into.push_back(copy);
    return true;
  };
  for (int i = 0; i < copies; ++i)
    for (bool other : {false, true}) {
      ASSIGN_OR_RETURN(bool fits, load(other ? tuned : untuned.get(),
                                       other ? second : first));
      if (!fits)
        return timeCopies({untuned.get()}, {tuned}, tensors, kCopiesSeconds);
    }
  return timeCopies(first, second, tensors, kCopiesSeconds);
}

/// Every kernel's next choice is measured in one compile: the time of a kernel
/// hardly depends on the others'.
Status Tuner::explore() {
  // What installing takes: three compiles, a comparison twice as long as a
  // round's, and one of copies.
  auto timeIsUp = [&] {
    double install = 3 * roundSeconds + 2 * measureSeconds + kCopiesSeconds;
    return elapsed() + roundSeconds + install > budget || interrupts.pending();
  };
  while (!timeIsUp()) {
    bool any = false;
    for (Candidate &c : candidates) {
      c.proposal = c.search.next();
      any |= c.proposal.has_value();
    }
    if (!any)
      break;
    Stopwatch round;
    session.progress(format("round %zu", rounds + 1).c_str(),
                     static_cast<int>(elapsed()), static_cast<int>(budget) + 1);
    ASSIGN_OR_RETURN(ModulePtr module, compile(recordsOf(true), "", true));
    Stopwatch measure;
    ASSIGN_OR_RETURN(SideBySide sides, compare(module.get(), 0.3));
    for (Candidate &c : candidates)
      if (c.proposal) {
        auto timed = sides.kernels.find(c.signature);
        bool ran =
            timed != sides.kernels.end() && didRun(*c.proposal, timed->second);
        double ratio = ran ? timed->second.ratio : 0;
        if (const std::string &knob = c.proposal->begin()->first;
            ran && knob.find(':') != std::string::npos)
          c.others[knob] = ratio;
        c.search.measured(ratio);
        c.proposal.reset();
      }
    ++rounds;
    roundSeconds = std::max(roundSeconds, round.seconds());
    measureSeconds = std::max(measureSeconds, measure.seconds());
    // Whatever happens from here on, the best so far is there.
    Records best = recordsOf(false);
    addKnown(best);
    TRY(writeFile(arguments.records, best.json()));
  }
  return success();
}

/// What does not hold when measured again is taken back; the whole model is
/// measured last.
Status Tuner::install() {
  double gain = 1;
  Records kept = recordsOf(false);
  if (!kept.all().empty()) {
    session.progress("measure again", static_cast<int>(elapsed()),
                     static_cast<int>(budget) + 1);
    Expected<ModulePtr> tuned = compile(kept, "", true);
    if (!tuned)
      return tuned.takeError();
    ASSIGN_OR_RETURN(SideBySide sides, compare(tuned->get(), 0.6));
    Records confirmed;
    for (const auto &[key, record] : kept.all()) {
      auto timed = sides.kernels.find(key.first);
      if (timed == sides.kernels.end() ||
          timed->second.ratio < tune::Search::kLeastGain) {
        ++rolledBack;
        continue;
      }
      Record held = record;
      held.gain = timed->second.ratio;
      confirmed.set(std::move(held));
    }
    if (confirmed.all().size() != kept.all().size() &&
        !confirmed.all().empty()) {
      tuned = compile(confirmed, "", true);
      if (!tuned)
        return tuned.takeError();
    }
    if (!confirmed.all().empty()) {
      ASSIGN_OR_RETURN(double ratio, compareCopies(tuned->get()));
      // More than its kernels gain is noise.
      double saved = 0;
      for (const Candidate &c : candidates)
        if (const Record *record = confirmed.find(c.signature, target))
          saved += c.share * (1 - 1 / record->gain);
      gain = std::min(ratio, 1 / (1 - saved));
      if (gain < kLeastModelGain) {
        rolledBack += confirmed.all().size();
        confirmed = Records();
        gain = 1;
      }
    }
    kept = std::move(confirmed);
  }
  installed = kept;
  Records all = std::move(kept);
  addKnown(all);
  TRY(writeFile(arguments.records, all.json()));
  ASSIGN_OR_RETURN(ModulePtr written, compile(all, arguments.output, false));
  session.progress("", 1, 1);
  report(gain);
  return success();
}

void Tuner::report(double gain) const {
  size_t measured = 0;
  Json kernels = Json::array();
  std::string rows, others;
  for (const Candidate &c : candidates) {
    measured += c.search.count();
    const Record *record = installed.find(c.signature, target);
    kernels.push_back({{"signature", c.signature},
                       {"origin", c.origin},
                       {"share", c.share},
                       {"us", c.seconds * 1e6},
                       {"measured", c.search.count()},
                       {"gain", record ? record->gain : 1},
                       {"others", c.others},
                       {"choice", record ? record->choice : Choice()}});
    for (const auto &[knob, ratio] : c.others)
      others += format("%s: %.3fx our schedule's speed in %s\n", knob.c_str(),
                       ratio, printable(c.origin).substr(0, 60).c_str());
    if (record)
      rows += format("%9.1f %5.1f %%  %5.3fx  %-24s %s\n", c.seconds * 1e6,
                     100 * c.share, record->gain,
                     tune::textOf(record->choice).c_str(),
                     printable(c.origin).substr(0, 60).c_str());
  }
  if (arguments.json) {
    Json json = {{"gain", gain},
                 {"rounds", rounds},
                 {"measured", measured},
                 {"kept", installed.all().size()},
                 {"rolled_back", rolledBack},
                 {"seconds", elapsed()},
                 {"budget", budget},
                 {"records", arguments.records},
                 {"output", arguments.output},
                 {"kernels", std::move(kernels)}};
    print(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  print(others);
  if (!rows.empty())
    print("       us   share    gain  choice                   kernel\n" +
          rows);
  print(format("%s: %.3fx as fast as untuned; %zu kernels tuned, %zu taken "
               "back; %zu choices measured in %zu rounds, %.1f s of %.0f s\n",
               printable(arguments.output).c_str(), gain,
               installed.all().size(), rolledBack, measured, rounds, elapsed(),
               budget));
  print(format("records: %s\n", printable(arguments.records).c_str()));
}

Status Tuner::run() {
  TRY(arguments.dims.parse());
  if (std::filesystem::exists(arguments.records)) {
    ASSIGN_OR_RETURN(Records read, Records::read(arguments.records));
    known = std::move(read);
  }
  ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::create());
  scratch.emplace(std::move(file));
  session.progress("compile", 0, static_cast<int>(budget) + 1);
  Stopwatch round;
  Expected<ModulePtr> first = compile({}, "", true);
  if (!first)
    return first.takeError();
  untuned = std::move(*first);
  ASSIGN_OR_RETURN(std::vector<Array> made,
                   arguments.inputs.make(untuned.get(), arguments.dims));
  inputs = std::move(made);
  tensors = tensorsOf(inputs);
  Stopwatch measure;
  ASSIGN_OR_RETURN(SideBySide sides, compare(untuned.get(), 0.3));
  measureSeconds = measure.seconds();
  roundSeconds = round.seconds();
  TRY(findCandidates(sides));
  TRY(findMachine(sides));
  TRY(explore());
  return install();
}

Status tuneModel(Session &session, TuneArguments &arguments) {
  ASSIGN_OR_RETURN(double budget, parseBudget(arguments.budget));
  ASSIGN_OR_RETURN(Options options, arguments.flags.options());
  if (options.vendorAlways)
    return userError("it takes the libraries that tuning should measure",
                     "--vendor-always", "give --vendor alone");
  std::filesystem::path name =
      std::filesystem::path(arguments.model).filename();
  if (arguments.output.empty())
    arguments.output = name.replace_extension(".knap").string();
  if (arguments.records.empty())
    arguments.records = name.replace_extension(".tune.json").string();
  return Tuner(session, arguments, budget).run();
}

} // namespace

void addTune(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App *command = app.add_subcommand(
      "tune", "Measures choices of the schedules and installs the best");
  command->add_option("model", arguments->model, "An .onnx file")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Where to write the artefact [MODEL.knap here]")
      ->type_name("FILE");
  command
      ->add_option("--records", arguments->records,
                   "What was found; other kernels' records in it stay "
                   "[MODEL.tune.json here]")
      ->type_name("FILE");
  command
      ->add_option("--budget", arguments->budget,
                   "How long it may take in all: 60s, 5m, 1h")
      ->type_name("TIME")
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "Threads that run the model; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->inputs.addTo(*command);
  arguments->dims.addWithAutoTo(*command);
  arguments->flags.addTo(*command,
                         {"threads", "dim", "records", "stop-after",
                          "start-from", "print-after", "dump-dir", "isa"});
  command->footer(
      "Kernels are measured inside the model, on inputs of the sizes given, "
      "interleaved with\nthe untuned model. What is not at least 2 % faster, twice, "
      "is not installed. Ctrl-C\nends the search and installs the best so far. "
      "For example:\n"
      "  knapper tune model.onnx --budget 5m --dim batch=1 --dim seq=128\n"
      "  knapper compile model.onnx --records model.tune.json");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return tuneModel(session, *arguments);
    };
  });
}

} // namespace knapper::cli
