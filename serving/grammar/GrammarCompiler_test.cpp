#include "serving/grammar/GrammarCompiler.h"
#include "serving/grammar/GrammarFollower.h"
#include "serving/grammar/MaskWords.h"
#include "serving/grammar/SchemaCheck.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace knapper::serving {
namespace {

constexpr int32_t end = 256;

/// A token for each byte, the end, and a few texts.
GrammarVocabulary bytesAnd(std::vector<std::string> texts) {
  GrammarVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.texts.push_back(std::string(1, static_cast<char>(byte)));
  vocabulary.texts.push_back("");
  for (std::string &text : texts)
    vocabulary.texts.push_back(std::move(text));
  vocabulary.ends = {end};
  return vocabulary;
}

std::unique_ptr<GrammarCompiler> started(GrammarVocabulary vocabulary,
                                         const GrammarLimits &limits = {}) {
  auto made = GrammarCompiler::start(std::move(vocabulary), limits);
  return made ? std::move(*made) : nullptr;
}

GrammarCompiler::Made compile(GrammarCompiler &compiler, GrammarSpec spec) {
  std::promise<GrammarCompiler::Made> promise;
  Status taken = compiler.compile(
      spec, [&](const auto &made) { promise.set_value(made); });
  if (!taken)
    return taken.takeError();
  return promise.get_future().get();
}

bool allows(const GrammarCursor::Next &next, int32_t token) {
  return static_cast<size_t>(token / 32) < next.allowed.size() &&
         (next.allowed[token / 32] >> (token % 32) & 1);
}

/// Takes the first wanted byte that is allowed, or else the first one, until
/// nothing may follow; "!" at the end where that is no end.
std::string walk(const TokenGrammar &grammar, const std::string &wanted) {
  auto cursor = grammar.begin();
  std::string text;
  for (size_t i = 0; i < 1000; ++i) {
    auto next = cursor->next(true);
    if (!next || !next->canGoOn)
      return next && next->canEnd ? text : text + "!";
    int32_t token = -1;
    for (char c : wanted)
      if (token < 0 && allows(*next, static_cast<unsigned char>(c)))
        token = static_cast<unsigned char>(c);
    for (int32_t other = 0; other < 256 && token < 0; ++other)
      if (allows(*next, other))
        token = other;
    if (token < 0 || !cursor->accept(token))
      return text + "!";
    text += static_cast<char>(token);
  }
  return text + "...";
}

/// The bytes that may follow these.
std::pair<int, int> bytesBehind(const TokenGrammar &grammar,
                                const std::string &text) {
  auto cursor = grammar.begin();
  for (char c : text) {
    (void)cursor->next(true);
    if (!cursor->accept(static_cast<unsigned char>(c)))
      return {-1, -1};
  }
  auto next = cursor->next(true);
  int first = 256, last = -1;
  for (int32_t byte = 0x80; next && byte < 256; ++byte)
    if (allows(*next, byte)) {
      first = std::min(first, byte);
      last = std::max(last, byte);
    }
  return {first, last};
}

// Neither surrogates (ED A0) nor longer forms than needed (C0, E0 80, F0 80)
// nor what is beyond the last character (F4 90).
TEST(GrammarCompiler, TextsAreUtf8) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  using Range = std::pair<int, int>;
  struct {
    GrammarSpec spec;
    std::string begin;
  } forms[] = {
      {{GrammarKind::schema, R"({"type": "string", "maxLength": 5})"}, "\""},
      {{GrammarKind::schema, R"({"type": "string"})"}, "\""},
      {{GrammarKind::schema, R"({"type": "object"})"}, "{\""},
      {{GrammarKind::schema, R"({"type": "string", "pattern": "^[^a]{1,3}$"})"},
       "\""},
      {{GrammarKind::regex, ".{1,3}"}, ""},
      {{GrammarKind::regex, "[^a]+"}, ""},
      {{GrammarKind::ebnf, "root ::= [^b]{1,3}"}, ""},
      {{GrammarKind::ebnf, "root ::= \"x\" [^b]*"}, "x"},
  };
  for (auto &[spec, begin] : forms) {
    auto made = compile(*compiler, spec);
    ASSERT_TRUE(made) << spec.text;
    EXPECT_EQ(bytesBehind(**made, begin), Range(0xc2, 0xf4)) << spec.text;
    for (auto [lead, range] : {std::pair<char, Range>{'\xc2', {0x80, 0xbf}},
                               {'\xe0', {0xa0, 0xbf}},
                               {'\xec', {0x80, 0xbf}},
                               {'\xed', {0x80, 0x9f}},
                               {'\xee', {0x80, 0xbf}},
                               {'\xf0', {0x90, 0xbf}},
                               {'\xf4', {0x80, 0x8f}}})
      EXPECT_EQ(bytesBehind(**made, begin + lead), range)
          << spec.text << " " << int(static_cast<unsigned char>(lead));
  }
}

TEST(GrammarCompiler, FollowsChoicesToTheirEnd) {
  auto compiler = started(bytesAnd({"yes", "ye"}));
  ASSERT_TRUE(compiler);
  auto made = compile(*compiler, {GrammarKind::ebnf,
                                  choiceGrammar({"yes", "\"no\"\\", "a\nb"})});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(walk(**made, "yes"), "yes");
  EXPECT_EQ(walk(**made, "\"no\\"), "\"no\"\\");
  EXPECT_EQ(walk(**made, "a"), "a\nb");
  auto cursor = (*made)->begin();
  auto next = cursor->next(true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(allows(*next, 257) && allows(*next, 258));
  EXPECT_FALSE(allows(*next, 'e') || allows(*next, end) || allows(*next, 300));
  EXPECT_FALSE(cursor->accept('q'));
  ASSERT_TRUE(cursor->accept(257));
  next = cursor->next(true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->canEnd);
  EXPECT_FALSE(next->canGoOn);
  EXPECT_TRUE(allows(*next, end));
  EXPECT_FALSE(allows(*cursor->next(false), end));
}

TEST(GrammarCompiler, EndsOnlyWhereTheTextIsComplete) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  auto made = compile(*compiler, {GrammarKind::regex, "[0-9]{2,3}"});
  ASSERT_TRUE(made) << made.error().message();
  auto cursor = (*made)->begin();
  for (bool canEnd : {false, false, true}) {
    auto next = cursor->next(true);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->canEnd, canEnd);
    EXPECT_EQ(allows(*next, end), canEnd);
    EXPECT_TRUE(next->canGoOn);
    ASSERT_TRUE(cursor->accept('7'));
  }
  EXPECT_FALSE(cursor->next(true)->canGoOn);
}

TEST(GrammarCompiler, SchemasMakeJson) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  auto made = compile(
      *compiler,
      {GrammarKind::schema,
       R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 10, "maximum": 12},
           "b": {"type": "array", "items": {"enum": ["x", null]}, "minItems": 2, "maxItems": 2}}, "required": ["a", "b"]})",
       true});
  ASSERT_TRUE(made) << made.error().message();
  auto json =
      nlohmann::json::parse(walk(**made, "{\"1ab:,x[]}"), nullptr, false);
  EXPECT_GE(json["a"], 10);
  EXPECT_LE(json["a"], 12);
  EXPECT_EQ(json["b"].size(), 2u);
}

TEST(GrammarCompiler, SaysWhatIsWrong) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  auto error = [&](GrammarKind kind, const char *text) {
    auto made = compile(*compiler, {kind, text});
    return made ? std::string("nothing") : made.error().what;
  };
  EXPECT_NE(error(GrammarKind::ebnf, "root ::= missing").find("missing"),
            std::string::npos);
  EXPECT_NE(error(GrammarKind::regex, "(a"), "nothing");
  EXPECT_NE(error(GrammarKind::structure, "{}"), "nothing");
  // A warning of the library is of what it would ignore.
  EXPECT_NE(error(GrammarKind::schema, R"({"type": "number", "multipleOf": 3})")
                .find("multipleOf"),
            std::string::npos);
}

/// Takes more than 10 s and much memory.
std::string explodingGrammar() {
  std::string text = "root ::= ";
  for (int i = 0; i < 3000; ++i)
    text += (i ? " | \"" : "\"") + std::to_string(i * 7919) + "\" [a-z]{1," +
            std::to_string(i + 2) + "}";
  return text;
}

TEST(GrammarCompiler, BoundsTimeAndMemory) {
  const std::string exploding = explodingGrammar();
  GrammarLimits limits;
  limits.seconds = 0.02;
  auto quick = started(bytesAnd({}), limits);
  auto late = compile(*quick, {GrammarKind::ebnf, exploding});
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().what.find("more than 0.02 s"), std::string::npos)
      << late.error().what;
  // What came before it still works.
  EXPECT_TRUE(compile(*quick, {GrammarKind::regex, "a"}));
  // A copy's time is each compile's: it does not end while it waits.
  for (int i = 0; i < 40; ++i)
    EXPECT_TRUE(compile(
        *quick, {GrammarKind::regex, "[a-z]{2," + std::to_string(3 + i) + "}"}))
        << i;
  limits = {};
  limits.memoryBytes = 8 << 20;
  auto narrow = started(bytesAnd({}), limits);
  auto large = compile(*narrow, {GrammarKind::ebnf, exploding});
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().what.find("memory"), std::string::npos)
      << large.error().what;
  EXPECT_TRUE(compile(*narrow, {GrammarKind::regex, "a"}));
}

TEST(GrammarCompiler, KeepsWhatItCompiled) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  auto first = compile(*compiler, {GrammarKind::regex, "ab+"});
  auto second = compile(*compiler, {GrammarKind::regex, "ab+"});
  auto other = compile(*compiler, {GrammarKind::regex, "ab"});
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
}

/// What is kept counts as the heap does, so that `cacheBytes` bounds it: of 300
/// schemas the cache holds few, and the process no more than that.
TEST(GrammarCompiler, KeepsNoMoreThanItIsAllowed) {
  GrammarLimits limits;
  limits.cacheBytes = 2 << 20;
  auto compiler = started(bytesAnd({}), limits);
  ASSERT_TRUE(compiler);
  auto spec = [](int i) {
    std::string name = "field" + std::to_string(i);
    return GrammarSpec{GrammarKind::schema,
                       R"({"type": "object", "properties": {")" + name +
                           R"(": {"type": "string", "minLength": )" +
                           std::to_string(i % 7) + R"(}, "b": {"enum": [")" +
                           name + R"(", "x"]}}, "required": [")" + name +
                           R"("]})"};
  };
  auto inUse = [] { return mallinfo2().uordblks; };
  constexpr int before = 20, all = 300;
  for (int i = 0; i < before; ++i)
    ASSERT_TRUE(compile(*compiler, spec(i)));
  size_t held = inUse();
  int kept = 0;
  for (int i = before; i < all; ++i)
    ASSERT_TRUE(compile(*compiler, spec(i)));
  for (int i = 0; i < all; ++i)
    kept += compiler->find(spec(i)) != nullptr;
  EXPECT_GE(kept, 10);
  EXPECT_LT(kept, all);
  EXPECT_LT(inUse(), held + limits.cacheBytes + limits.cacheBytes / 2)
      << kept << " are kept";
}

/// Processes that a process started and that run.
std::vector<pid_t> childrenOf(const std::string &process) {
  std::vector<pid_t> found;
  for (const auto &thread :
       std::filesystem::directory_iterator("/proc/" + process + "/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t pid = 0; file >> pid;)
      found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> children() { return childrenOf("self"); }

std::vector<pid_t> childrenOf(pid_t process) {
  return childrenOf(std::to_string(process));
}

/// A compiler that has compiled one grammar, its helper process and the
/// helper's copies.
struct Helped {
  std::unique_ptr<GrammarCompiler> compiler = started(bytesAnd({}));
  pid_t helper = 0;
  std::vector<pid_t> copies;

  void start() {
    ASSERT_TRUE(compiler);
    ASSERT_TRUE(compile(*compiler, {GrammarKind::regex, "a"}));
    std::vector<pid_t> helpers = children();
    ASSERT_EQ(helpers.size(), 1u);
    helper = helpers[0];
    copies = childrenOf(helper);
    ASSERT_EQ(copies.size(), 1u);
  }
};

TEST(GrammarCompiler, OutlivesItsHelper) {
  Helped helped;
  ASSERT_NO_FATAL_FAILURE(helped.start());
  auto &compiler = helped.compiler;
  kill(helped.helper, SIGKILL);
  usleep(50000);
  EXPECT_TRUE(compile(*compiler, {GrammarKind::regex, "b"}));
  compiler.reset();
  EXPECT_TRUE(children().empty());
}

TEST(GrammarCompiler, ACopyCompilesUntilOneIsRefused) {
  Helped helped;
  ASSERT_NO_FATAL_FAILURE(helped.start());
  auto &[compiler, helper, copies] = helped;
  constexpr int last = 19;
  EXPECT_GE(getpriority(PRIO_PROCESS, static_cast<id_t>(copies[0])),
            std::min(getpriority(PRIO_PROCESS, 0) + 1, last));
  for (const char *text : {"b", "c", "d"})
    ASSERT_TRUE(compile(*compiler, {GrammarKind::regex, text}));
  EXPECT_EQ(childrenOf(helper), copies);
  ASSERT_FALSE(compile(*compiler, {GrammarKind::regex, "(a"}));
  ASSERT_TRUE(compile(*compiler, {GrammarKind::regex, "e"}));
  EXPECT_NE(childrenOf(helper), copies);
  // One that is ended while it waits costs no request.
  for (pid_t copy : childrenOf(helper))
    kill(copy, SIGKILL);
  usleep(50000);
  EXPECT_TRUE(compile(*compiler, {GrammarKind::regex, "f"}));
}

/// The third field of /proc/PID/stat: R, S, T, ...
char stateOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  size_t name = text.rfind(')');
  return name == std::string::npos ? ' ' : text[name + 2];
}

bool comesTo(pid_t process, char state) {
  for (int i = 0; i < 3000 && stateOf(process) != state; ++i)
    usleep(10000);
  return stateOf(process) == state;
}

TEST(GrammarCompiler, ACopyThatIsEndedInACompileCostsNoRequest) {
  Helped helped;
  ASSERT_NO_FATAL_FAILURE(helped.start());
  auto &[compiler, helper, copies] = helped;
  ASSERT_TRUE(comesTo(copies[0], 'S')); // it waits for the next grammar
  kill(copies[0], SIGSTOP);
  ASSERT_TRUE(comesTo(copies[0], 'T'));
  std::promise<GrammarCompiler::Made> promise;
  ASSERT_TRUE(
      compiler->compile({GrammarKind::regex, "b"},
                        [&](const auto &made) { promise.set_value(made); }));
  usleep(100000); // the copy has the grammar, and does not read it
  kill(copies[0], SIGKILL);
  GrammarCompiler::Made made = promise.get_future().get();
  EXPECT_TRUE(made) << made.error().message();
}

TEST(GrammarCompiler, ACopyThatHoldsMuchEnds) {
  GrammarLimits limits;
  limits.memoryBytes = 12 << 20;
  auto compiler = started(bytesAnd({}), limits);
  ASSERT_TRUE(compiler);
  std::vector<pid_t> first, copies;
  for (int i = 0; i < 60 && copies == first; ++i) {
    // Its states stay in the copy.
    auto made =
        compile(*compiler, {GrammarKind::regex,
                            "[a-z]{2,200}" + std::string(size_t(i) + 1, 'x')});
    ASSERT_TRUE(made) << i << ": " << made.error().message();
    ASSERT_EQ(children().size(), 1u);
    copies = childrenOf(children()[0]);
    if (i == 0)
      first = copies;
  }
  EXPECT_NE(copies, first);
}

TEST(GrammarCompiler, NoticesWhereNothingMayFollow) {
  GrammarVocabulary few{{"a", "b", ""}, {2}};
  auto compiler = started(few);
  ASSERT_TRUE(compiler);
  auto made = compile(*compiler, {GrammarKind::regex, "ax?c"});
  ASSERT_TRUE(made) << made.error().message();
  auto cursor = (*made)->begin();
  ASSERT_TRUE(cursor->next(true));
  ASSERT_TRUE(cursor->accept(0));
  auto next = cursor->next(true);
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->canGoOn || next->canEnd);
}

TEST(GrammarCompiler, GrammarsShareMasks) {
  GrammarVocabulary vocabulary = bytesAnd({});
  for (int32_t i = 0; i < 20000; ++i)
    vocabulary.texts.push_back("w" + std::to_string(i));
  auto library = GrammarLibrary::create(vocabulary);
  ASSERT_TRUE(library);
  auto grammar =
      [&](const char *schema) -> std::shared_ptr<const TokenGrammar> {
    auto bytes = (*library)->compile({GrammarKind::schema, schema});
    if (!bytes)
      return nullptr;
    auto made = (*library)->load(*bytes, 1);
    return made ? *made : nullptr;
  };
  const char *text = R"({"type": "array", "items": {"type": "string"}})";
  auto first = grammar(text);
  ASSERT_TRUE(first);
  size_t alone = (*library)->maskBytes();
  EXPECT_GT(alone, 2000u);
  auto second = grammar(text);
  ASSERT_TRUE(second);
  EXPECT_EQ((*library)->maskBytes(), alone);
  EXPECT_EQ(walk(*second, "[w,]"), walk(*first, "[w,]"));
  first.reset();
  EXPECT_EQ((*library)->maskBytes(), alone);
  second.reset();
  EXPECT_EQ((*library)->maskBytes(), 0u);
  // Bytes that end too early are refused.
  auto bytes = (*library)->compile({GrammarKind::regex, "[a-c]{2}"});
  ASSERT_TRUE(bytes);
  for (size_t size = 0; size < bytes->size(); ++size)
    EXPECT_FALSE((*library)->load(bytes->substr(0, size), 1)) << size;
  // Behind the text's bytes (their number comes first) and the number of rules
  // is where the first rule begins and how many ends it has.
  uint64_t length = 0, rules = 0;
  memcpy(&length, bytes->data(), sizeof(length));
  size_t views = sizeof(length) + length;
  memcpy(&rules, bytes->data() + views, sizeof(rules));
  ASSERT_GT(rules, 0u);
  EXPECT_TRUE((*library)->load(*bytes, 1));
  for (size_t at = views; at < views + sizeof(rules) + 12; ++at) {
    std::string wrong = *bytes;
    wrong[at] = '\x7f';
    EXPECT_FALSE((*library)->load(wrong, 1)) << at - views;
  }
  // A whole form that says that it has no automata of rules.
  size_t end = views + sizeof(rules);
  for (uint64_t rule = 0; rule < rules; ++rule) {
    uint64_t ends = 0;
    memcpy(&ends, bytes->data() + end + sizeof(int32_t), sizeof(ends));
    end += sizeof(int32_t) + sizeof(ends) + (ends + 2) * sizeof(int32_t);
  }
  std::string none = bytes->substr(0, views) + std::string(sizeof(rules), '\0');
  EXPECT_FALSE((*library)->load(none + bytes->substr(end), 1));
}

/// Takes the calling thread off its core for 20 ms.
void rest(int) {
  timespec time{0, 20'000'000};
  nanosleep(&time, nullptr);
}

TEST(GrammarCompiler, TimeOfAMaskIsTheProcessors) {
  GrammarLimits limits;
  limits.secondsPerToken = 0.01;
  auto compiler = started(bytesAnd({}), limits);
  ASSERT_TRUE(compiler);
  auto made = compile(*compiler, {GrammarKind::regex, "[a-z]*"});
  ASSERT_TRUE(made) << made.error().message();
  auto cursor = (*made)->begin();
  struct sigaction action{}, before{};
  action.sa_handler = rest;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  // Masks are all that this thread makes: it is interrupted within them.
  std::atomic<bool> done = false;
  pthread_t filling = pthread_self();
  std::thread interrupts([&] {
    for (int i = 0; i < 20; ++i) {
      pthread_kill(filling, SIGUSR1);
      usleep(25000);
    }
    done = true;
  });
  std::string failed;
  while (!done && failed.empty())
    if (auto next = cursor->next(true); !next)
      failed = next.error().message();
  interrupts.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(failed, "");
  // One that takes longer is still refused.
  limits.secondsPerToken = 0;
  auto hasty = started(bytesAnd({}), limits);
  made = compile(*hasty, {GrammarKind::regex, "[a-z]*"});
  ASSERT_TRUE(made) << made.error().message();
  auto late = (*made)->begin()->next(true);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().what.find("too long"), std::string::npos);
}

TEST(GrammarFollower, ForcesWhatTheGrammarAloneDecides) {
  auto compiler = started(bytesAnd({}));
  ASSERT_TRUE(compiler);
  // Of '1' and 'c' each is the only one of its word of a mask.
  auto made = compile(*compiler, {GrammarKind::regex, "ab[1c]d"});
  ASSERT_TRUE(made) << made.error().message();
  MaskWorkers workers(0);
  GrammarFollower follower((*made)->begin(), workers, {true, 8});
  auto outcome = follower.outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ((*outcome)->forced, (std::vector<int32_t>{'a', 'b'}));
  ASSERT_TRUE(follower.accept('c'));
  outcome = follower.outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ((*outcome)->forced, (std::vector<int32_t>{'d'}));
  EXPECT_TRUE((*outcome)->next.canEnd);
}

TEST(MaskWords, TheNextIsFound) {
  for (size_t size : {0, 1, 15, 16, 17, 32, 100}) {
    std::vector<uint32_t> words(size);
    EXPECT_EQ(nextWord(words, 0), size);
    EXPECT_EQ(nextWord(words, size), size);
    for (size_t at = 0; at < size; ++at) {
      words[at] = 1u << (at % 32);
      for (size_t from = 0; from <= size; ++from)
        EXPECT_EQ(nextWord(words, from), from <= at ? at : size);
      words[at] = 0;
    }
  }
}

TEST(SchemaCheck, NamesTheKeywordAndItsPlace) {
  auto place = [](const char *schema) {
    auto problem = checkSchema(OrderedJson::parse(schema));
    return problem ? problem->place : std::string("none");
  };
  EXPECT_EQ(
      place(
          R"({"type": "object", "properties": {"a": {"type": "array", "items": {"not": {}}}}})"),
      ".properties.a.items.not");
  EXPECT_EQ(place(R"({"anyOf": [{"type": "null"}, {"type": "strin"}]})"),
            ".anyOf[1].type");
  EXPECT_EQ(place(R"({"type": "array", "uniqueItems": true})"), ".uniqueItems");
  EXPECT_EQ(place(R"({"type": "array", "uniqueItems": false})"), "none");
  EXPECT_EQ(place(R"({"minLength": 3})"), ".minLength");
  EXPECT_EQ(place(R"({"type": ["string", "null"], "minLength": 3})"), "none");
  EXPECT_EQ(place(R"({"type": "object", "anyOf": [{"required": ["a"]}]})"),
            ".type");
  EXPECT_EQ(place(R"({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}})"),
            "none");
  EXPECT_EQ(place(R"({"$ref": "other.json"})"), ".$ref");
  EXPECT_EQ(place(R"({"enum": []})"), ".enum");
  EXPECT_EQ(place(R"({"type": "string", "enum": ["a", 1]})"), ".enum[1]");
  EXPECT_EQ(place(R"({"type": "integer", "enum": [1, 2.0, 2.5]})"), ".enum[2]");
  EXPECT_EQ(place(R"({"type": "number", "enum": [1, 2.5]})"), "none");
  EXPECT_EQ(place(R"({"type": "string", "minLength": -1})"), ".minLength");
  EXPECT_EQ(place("3"), "");
}

} // namespace
} // namespace knapper::serving
