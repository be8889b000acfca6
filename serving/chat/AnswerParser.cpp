#include "serving/chat/AnswerParser.h"

#include <algorithm>

namespace knapper::serving {

using Kind = AnswerPiece::Kind;

namespace {

constexpr std::string_view spaceCharacters = " \n\t\r";

/// How many characters at the end of a text may be the begin of a mark.
size_t possibleBegin(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(mark.size() - 1, text.size()); length > 0;
       --length)
    if (text.ends_with(mark.substr(0, length)))
      return length;
  return 0;
}

size_t firstNotSpace(std::string_view text) {
  return std::min(text.find_first_not_of(spaceCharacters), text.size());
}

} // namespace

AnswerParser::AnswerParser(const Settings &settings)
    : settings(settings),
      place(settings.state == ReasoningState::open ? Place::reasoning
                                                   : Place::content),
      reasoned(settings.state != ReasoningState::free) {}

void AnswerParser::push(std::string_view text,
                        std::vector<AnswerPiece> &pieces) {
  if (enough())
    return;
  held += text;
  while (!enough() && advance(pieces)) {
  }
}

void AnswerParser::finish(std::vector<AnswerPiece> &pieces) {
  if (enough())
    return;
  if (place == Place::call && !scanner->begun() && calls == before) {
    breakCall(pieces); // a begin alone
    place = Place::content;
  } else if (place == Place::call) {
    scanner->finish(pieces);
  }
  if (place == Place::content || place == Place::reasoning)
    add(place == Place::content ? Kind::content : Kind::reasoning, held,
        pieces);
  held.clear();
  // An answer of spaces is one; behind calls they are none.
  if (place == Place::content && calls == 0 && !spaces.empty())
    pieces.push_back({Kind::content, std::move(spaces)});
  spaces.clear();
}

bool AnswerParser::advance(std::vector<AnswerPiece> &pieces) {
  switch (place) {
  case Place::reasoning:
    return advanceReasoning(pieces);
  case Place::content:
    return advanceContent(pieces);
  case Place::call:
    return advanceCall(pieces);
  case Place::afterCall:
    return advanceAfterCall();
  }
  return false;
}

/// Gives out a text; spaces at its end wait for what follows. Those at the
/// begin of a reasoning, or behind a part of another kind, are dropped.
void AnswerParser::add(Kind kind, std::string_view text,
                       std::vector<AnswerPiece> &pieces) {
  if (!any) {
    size_t from = firstNotSpace(text);
    spaces += text.substr(0, from);
    text.remove_prefix(from);
    if (text.empty())
      return;
    if (kind == Kind::reasoning || behindPart)
      spaces.clear();
  }
  size_t end = text.find_last_not_of(spaceCharacters);
  std::string_view last =
      text.substr(end == std::string_view::npos ? 0 : end + 1);
  text.remove_suffix(last.size());
  if (!text.empty()) {
    pieces.push_back({kind, spaces + std::string(text)});
    spaces.clear();
    any = true;
  }
  spaces += last;
}

bool AnswerParser::advanceReasoning(std::vector<AnswerPiece> &pieces) {
  std::string_view end = settings.reasoning->end;
  size_t at = held.find(end);
  if (at != std::string::npos) {
    add(Kind::reasoning, std::string_view(held).substr(0, at), pieces);
    held.erase(0, at + end.size());
    spaces.clear();
    any = false;
    reasoned = behindPart = true;
    place = Place::content;
    return true;
  }
  size_t keep = possibleBegin(held, end);
  add(Kind::reasoning, std::string_view(held).substr(0, held.size() - keep),
      pieces);
  held.erase(0, held.size() - keep);
  return false;
}

bool AnswerParser::advanceContent(std::vector<AnswerPiece> &pieces) {
  const ToolFormat *format = settings.format;
  if (!any && settings.reasoning && !reasoned) {
    std::string_view begin = settings.reasoning->begin;
    std::string_view text = held;
    text.remove_prefix(firstNotSpace(text));
    if (text.starts_with(begin)) {
      held = text.substr(begin.size());
      spaces.clear();
      place = Place::reasoning;
      return true;
    }
    if (text.empty() || begin.starts_with(text))
      return false;
    reasoned = true; // not at all
  }
  if (format && format->begin.empty() && !any) {
    size_t from = firstNotSpace(held);
    if (from == held.size())
      return false;
    if (held[from] == '{') {
      beginCall(std::string_view(held).substr(0, from));
      return true;
    }
  }
  size_t keep = 0;
  if (format && !format->begin.empty()) {
    size_t at = held.find(format->begin);
    if (at != std::string::npos) {
      add(Kind::content, std::string_view(held).substr(0, at), pieces);
      held.erase(0, at);
      beginCall(format->begin);
      return true;
    }
    keep = possibleBegin(held, format->begin);
  }
  add(Kind::content, std::string_view(held).substr(0, held.size() - keep),
      pieces);
  held.erase(0, held.size() - keep);
  return false;
}

void AnswerParser::beginCall(std::string_view mark) {
  raw = mark;
  held.erase(0, mark.size());
  scanner = makeCallScanner(*settings.format, *settings.tools);
  before = calls;
  place = Place::call;
}

void AnswerParser::breakCall(std::vector<AnswerPiece> &pieces) {
  if (scanner->told())
    pieces.push_back({Kind::callBroken, {}});
  // Complete calls of a list stay; what it came from is told as it is.
  pieces.push_back({Kind::content, spaces + raw});
  spaces.clear();
  raw.clear();
  any = true;
}

bool AnswerParser::advanceCall(std::vector<AnswerPiece> &pieces) {
  size_t first = pieces.size();
  for (size_t i = 0; i < held.size(); ++i) {
    raw += held[i];
    CallScanner::State state = scanner->push(held[i], pieces);
    if (pieces.size() > first && pieces.back().kind == Kind::callEnd)
      ++calls, first = pieces.size();
    bool over = calls > 0 && !settings.parallel; // in the middle of a list
    if (state == CallScanner::State::more && !over)
      continue;
    held.erase(0, i + 1);
    if (state == CallScanner::State::broken) {
      breakCall(pieces);
      place = Place::content;
      return true;
    }
    raw.clear();
    spaces.clear();
    place = Place::afterCall;
    return true;
  }
  held.clear();
  return false;
}

/// Takes the end of a call, where it is there, and what separates calls.
bool AnswerParser::advanceAfterCall() {
  const ToolFormat &format = *settings.format;
  std::string_view text = held;
  text.remove_prefix(firstNotSpace(text));
  if (text.empty())
    return false;
  if (!format.end.empty() &&
      format.end.starts_with(text.substr(0, format.end.size()))) {
    if (text.size() < format.end.size())
      return false;
    held = text.substr(format.end.size());
  } else if (text.starts_with(';')) {
    held = text.substr(1);
  }
  any = false;
  behindPart = true;
  spaces.clear();
  place = Place::content;
  return true;
}

} // namespace knapper::serving
