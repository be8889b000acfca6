#include "serving/chat/AnswerParser.h"

#include <gtest/gtest.h>
#include <random>

namespace knapper::serving {
namespace {

using Kind = AnswerPiece::Kind;

const ToolFormat &formatOf(std::string_view name) {
  for (const ToolFormat &format : toolFormats())
    if (format.name == name)
      return format;
  ADD_FAILURE() << name;
  return toolFormats().front();
}

const ToolSchemas tools = {
    {"now", OrderedJson::object()},
    {"look",
     OrderedJson::parse(
         R"({"properties": {"at": {"type": "string"}, "n": {"type": "integer"}}})")}};

/// The pieces as one text, neighbours of one kind joined.
std::string parse(std::string_view format, const std::string &text, size_t step,
                  ReasoningState state = ReasoningState::free,
                  bool parallel = true) {
  ReasoningFormat reasoning{"<think>", "</think>"};
  AnswerParser::Settings settings{&formatOf(format), &tools, &reasoning, state,
                                  parallel};
  AnswerParser parser(settings);
  std::vector<AnswerPiece> pieces;
  for (size_t at = 0; at < text.size(); at += step)
    parser.push(std::string_view(text).substr(at, step), pieces);
  parser.finish(pieces);
  std::string made;
  Kind last = Kind::callEnd;
  for (const AnswerPiece &piece : pieces) {
    constexpr const char *names[] = {"content",   "reasoning", "call",
                                     "arguments", "end",       "broken"};
    bool joined = piece.kind == last && piece.kind != Kind::callEnd;
    if (!joined)
      made += std::string(made.empty() ? "" : "|") +
              names[static_cast<size_t>(piece.kind)] + ":";
    made += piece.text;
    last = piece.kind;
  }
  return made;
}

struct AnswerCase {
  const char *format, *text, *pieces;
};
const AnswerCase cases[] = {
    {"hermes",
     "Hi <tool_call>{\"name\": \"now\", \"arguments\": {\"a\": "
     "[\"}\"]}}</tool_call>\n",
     "content:Hi|call:now|arguments:{\"a\": [\"}\"]}|end:"},
    {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
     "content:<tool_call>{\"name\": \"now\", \"arguments\": "
     "[1]}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"now\", \"arg", "call:now"},
    {"hermes", "<think>a</think>\n\nb", "reasoning:a|content:b"},
    {"hermes",
     "<think>a <tool_call>x</think><tool_call>{\"name\": \"now\"}</tool_call> "
     "b",
     "reasoning:a <tool_call>x|call:now|arguments:{}|end:|content:b"},
    {"hermes", "<tool_call>{\"name\": \"no\"}</tool_call>",
     "content:<tool_call>{\"name\": \"no\"}</tool_call>"},
    {"hermes",
     "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": }}</tool_call>",
     "call:now|arguments:{\"a\": }|broken:|content:<tool_call>{\"name\": "
     "\"now\", \"arguments\": {\"a\": }}</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a",
     "call:now|arguments:{\"a"},
    {"hermes",
     R"(<tool_call>{"name": "now", "arguments": {"a": "\\"}}</tool_call>c)",
     R"(call:now|arguments:{"a": "\\"}|end:|content:c)"},
    {"hermes",
     R"(<tool_call>{"name": "now", "arguments": {"a": "\"}"}}</tool_call>c)",
     R"(call:now|arguments:{"a": "\"}"}|end:|content:c)"},
    {"llama3",
     "{\"name\": \"now\", \"parameters\": {}};{\"name\": \"look\", "
     "\"parameters\": {\"n\": 1}}",
     "call:now|arguments:{}|end:|call:look|arguments:{\"n\": 1}|end:"},
    {"llama3", "{\"x\": 1}", "content:{\"x\": 1}"},
    {"mistral", "a [TOOL_CALLS][{\"name\": \"now\", \"id\": \"x\"}]b",
     "content:a|call:now|arguments:{}|end:|content:b"},
    {"mistral", "[TOOL_CALLS]look[ARGS]{\"at\": \"b\"}[TOOL_CALLS]now[ARGS]{}",
     "call:look|arguments:{\"at\": \"b\"}|end:|call:now|arguments:{}|end:"},
    {"qwen3-coder",
     "<tool_call>\n<function=look>\n<parameter=at>\n1\n</"
     "parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
     "call:look|arguments:{\"at\": \"1\", \"n\": 1}|end:"},
};

TEST(AnswerParser, GivesTheSameForEveryWayToCutATextUp) {
  for (const AnswerCase &one : cases)
    for (size_t step = 1; step <= std::string_view(one.text).size(); ++step)
      EXPECT_EQ(parse(one.format, one.text, step), one.pieces)
          << one.text << " by " << step;
}

TEST(AnswerParser, GoesOnWithAReasoningThatIsOpen) {
  EXPECT_EQ(parse("hermes", "so\n</think>\nyes", 3, ReasoningState::open),
            "reasoning:so|content:yes");
  EXPECT_EQ(parse("hermes", "<think>a</think>", 3, ReasoningState::closed),
            "content:<think>a</think>");
}

TEST(AnswerParser, StopsBehindOneCallWhereOneIsAsked) {
  const char *two = "[TOOL_CALLS][{\"name\": \"now\"}, {\"name\": \"look\"}]";
  for (size_t step : {1, 7, 100})
    EXPECT_EQ(parse("mistral", two, step, ReasoningState::free, false),
              "call:now|arguments:{}|end:");
}

TEST(AnswerParser, AValueThatIsNestedDeeplyStaysText) {
  for (size_t depth : {64, 65}) {
    std::string value = std::string(depth, '[') + std::string(depth, ']');
    std::string text = "<tool_call><function=look><parameter=n>" + value +
                       "</parameter></function></tool_call>";
    const char *quote = depth > 64 ? "\"" : "";
    EXPECT_EQ(parse("qwen3-coder", text, 100),
              "call:look|arguments:{\"n\": " + (quote + value) + quote +
                  "}|end:");
  }
}

TEST(AnswerParser, KeepsWhatItGetsOfDamagedTexts) {
  std::mt19937 draw(7);
  for (int i = 0; i < 20000; ++i) {
    const AnswerCase &one = cases[draw() % std::size(cases)];
    std::string text = one.text;
    for (unsigned n = draw() % 4; n > 0; --n) {
      size_t at = draw() % text.size();
      if (draw() % 2)
        text.erase(at, 1 + draw() % 3);
      else
        text.insert(at, 1, "{}[]\"<>/,: x\n"[draw() % 13]);
      if (text.empty())
        text = "x";
    }
    std::string whole = parse(one.format, text, text.size());
    EXPECT_EQ(parse(one.format, text, 1), whole) << text;
    EXPECT_EQ(parse(one.format, text, 5), whole) << text;
  }
}

} // namespace
} // namespace knapper::serving
