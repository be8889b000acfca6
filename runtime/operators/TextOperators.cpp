#include "runtime/operators/TextOperators.h"
#include "runtime/base/Text.h"
#include "runtime/operators/TextNumbers.h"
#include "runtime/operators/TextSplit.h"
#include "runtime/operators/TextWriter.h"

#include <algorithm>

namespace knapper {
namespace {

void setShape(knapper_result_shape &to, knapper_dtype dtype,
              const knapper_tensor &like) {
  to = {dtype, like.rank, {}};
  std::copy_n(like.shape, like.rank, to.shape);
}
template <knapper_dtype dtype>
int likeFirst(void *, const knapper_call *call, knapper_result_shape *results) {
  setShape(results[0], dtype, call->inputs[0]);
  return 0;
}

int constantShape(void *, const knapper_call *call,
                  knapper_result_shape *results) {
  const knapper_attribute *shape = findAttribute(call, "shape");
  int64_t count = 1;
  results[0] = {KNAPPER_STRING, shape ? shape->count : 0, {}};
  bool whole = !shape || shape->count == 0 ||
               (shape->ints && shape->count <= KNAPPER_MAX_RANK);
  for (int32_t d = 0; whole && d < results[0].rank; ++d)
    whole = !__builtin_mul_overflow(count, results[0].shape[d] = shape->ints[d],
                                    &count);
  if (!whole ||
      count != static_cast<int64_t>(textAttributes(call, "values").size()))
    return failCall(call, "the strings do not fill the shape");
  return 0;
}
int constant(void *, const knapper_call *call) {
  std::span<const knapper_string> values = textAttributes(call, "values");
  std::copy(values.begin(), values.end(),
            static_cast<knapper_string *>(call->outputs[0].data));
  return 0;
}

int selectShape(void *, const knapper_call *call,
                knapper_result_shape *results) {
  setShape(results[0], KNAPPER_STRING, call->inputs[1]);
  return 0;
}
int select(void *, const knapper_call *call) {
  std::span<const knapper_string> x = textsOf(call->inputs[0]);
  auto *index = static_cast<const int64_t *>(call->inputs[1].data);
  auto *y = static_cast<knapper_string *>(call->outputs[0].data);
  size_t count = call->inputs[1].bytes / sizeof(int64_t);
  for (size_t i = 0; i < count; ++i) {
    if (index[i] < 0 || static_cast<uint64_t>(index[i]) >= x.size())
      return failCall(call, cat("an index is out of range: ", index[i], " of ",
                                x.size(), " strings"));
    y[i] = x[index[i]];
  }
  return 0;
}

int joinShape(void *, const knapper_call *call, knapper_result_shape *results) {
  results[0] = {KNAPPER_STRING, 1, {}};
  for (int32_t i = 0; i < call->num_inputs; ++i)
    results[0].shape[0] += textsOf(call->inputs[i]).size();
  return 0;
}
int join(void *, const knapper_call *call) {
  auto *y = static_cast<knapper_string *>(call->outputs[0].data);
  for (int32_t i = 0; i < call->num_inputs; ++i) {
    std::span<const knapper_string> x = textsOf(call->inputs[i]);
    y = std::copy(x.begin(), x.end(), y);
  }
  return 0;
}

int lookup(void *, const knapper_call *call) {
  std::span<const knapper_string> keys = textAttributes(call, "keys"),
                                  x = textsOf(call->inputs[0]);
  auto *y = static_cast<int64_t *>(call->outputs[0].data);
  for (size_t i = 0; i < x.size(); ++i) {
    auto at = std::lower_bound(
        keys.begin(), keys.end(), x[i],
        [](const auto &a, const auto &b) { return view(a) < view(b); });
    y[i] = at != keys.end() && view(*at) == view(x[i]) ? at - keys.begin() : -1;
  }
  return 0;
}

int equal(void *, const knapper_call *call) {
  std::span<const knapper_string> a = textsOf(call->inputs[0]),
                                  b = textsOf(call->inputs[1]);
  auto *y = static_cast<uint8_t *>(call->outputs[0].data);
  for (size_t i = 0; i < a.size(); ++i)
    y[i] = view(a[i]) == view(b[i]);
  return 0;
}

int concat(void *, const knapper_call *call) {
  std::span<const knapper_string> a = textsOf(call->inputs[0]),
                                  b = textsOf(call->inputs[1]);
  TextWriter writer;
  for (size_t i = 0; i < a.size(); ++i)
    writer.add(std::string(view(a[i])).append(view(b[i])));
  return writer.finish(call, 0);
}

/// An operator and what it can be called with: a letter an input, s for
/// strings, e for as many strings as the first has, i for i64, n for another
/// dtype; with a star behind the last for any number of them.
struct Row {
  const char *name;
  const char *takes;
  int32_t gives;
  decltype(knapper_operator::shape) shape;
  decltype(knapper_operator::compute) compute;
};

constexpr Row rows[] = {
    {"StringConcat", "se", 1, likeFirst<KNAPPER_STRING>, concat},
    {"StringConstant", "", 1, constantShape, constant},
    {"StringEqual", "se", 1, likeFirst<KNAPPER_I1>, equal},
    {"StringFormat", "n", 1, likeFirst<KNAPPER_STRING>, formatNumbers},
    {"StringJoin", "s*", 1, joinShape, join},
    {"StringLookup", "s", 1, likeFirst<KNAPPER_I64>, lookup},
    {"StringNormalize", "s", 1, normalizedShape, normalize},
    {"StringParse", "s", 1, parsedShape, parseNumbers},
    {"StringSelect", "si", 1, selectShape, select},
    {"StringSplit", "s", 2, splitShape, split},
};

bool isTaken(char letter, const knapper_call *call, const knapper_tensor &x) {
  switch (letter) {
  case 's':
    return x.dtype == KNAPPER_STRING;
  case 'e':
    return x.dtype == KNAPPER_STRING && x.bytes == call->inputs[0].bytes;
  case 'i':
    return x.dtype == KNAPPER_I64;
  default:
    return x.dtype != KNAPPER_STRING;
  }
}

/// The call may be of a damaged artefact: strings are addresses.
int checkedShape(void *user, const knapper_call *call,
                 knapper_result_shape *results) {
  const Row &row = *static_cast<const Row *>(user);
  std::string_view letters = row.takes;
  size_t most = letters.size();
  bool any = letters.ends_with('*'), good = call->num_outputs == row.gives;
  if (any)
    most -= 2;
  auto count = static_cast<size_t>(call->num_inputs);
  good &= any ? count >= most : count == most;
  for (size_t i = 0; good && i < count; ++i)
    good = call->inputs[i].rank >= 0 &&
           isTaken(letters[std::min(i, letters.size() - (any ? 2 : 1))], call,
                   call->inputs[i]);
  if (!good)
    return failCall(call, "the operator is called with other tensors than it "
                          "takes: the file is damaged");
  return row.shape(nullptr, call, results);
}

} // namespace

std::vector<knapper_operator> textOperators() {
  std::vector<knapper_operator> made;
  for (const Row &row : rows)
    made.push_back({sizeof(knapper_operator), kHostDomain, row.name,
                    checkedShape, row.compute, const_cast<Row *>(&row),
                    nullptr});
  return made;
}

} // namespace knapper
