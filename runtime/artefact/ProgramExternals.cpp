// Operators that somebody else computes: tensors, attributes.
#include "runtime/artefact/ProgramDecoder.h"

#include "runtime/artefact/Limits.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <tuple>

namespace knapper {

Status
ProgramDecoder::externalTensor(const fb::ExternalTensor *t, bool isOutput,
                               std::vector<Program::ExternalTensor> &list) {
  Program::ExternalTensor tensor{
      {Program::kNone, 0}, static_cast<DType>(t->dtype()), {}};
  if (t->dtype() > fb::DType::MAX || count(t->dims()) > kMaxRank ||
      !spend(t->dims()))
    return fail(t, cat("an operator's tensor has ", count(t->dims()),
                       " dims and dtype ", unsigned(t->dtype())));
  for (uint32_t d = 0; d < count(t->dims()); ++d) {
    if (Status s = value(t, t->dims()->Get(d), "an operator's dim"); !s)
      return s;
    tensor.dims.push_back(t->dims()->Get(d));
  }
  if (t->place()) {
    auto place = ref(t, t->place(), "an operator's tensor");
    if (!place)
      return place.takeError();
    tensor.place = *place;
  }
  if (isOutput) {
    if (!t->place())
      return fail(t, "an operator's output has no place");
    if (Status s = writable(t, tensor.place, "an operator"); !s)
      return s;
  }
  list.push_back(std::move(tensor));
  return success();
}

Expected<OperatorAttribute> ProgramDecoder::attribute(const fb::Attribute *a) {
  OperatorAttribute made;
  made.name = text(a->name());
  if (a->kind() > fb::AttributeKind::MAX || a->dtype() > fb::DType::MAX ||
      !spend(a->integers()) || !spend(a->reals()) || !spend(a->texts()) ||
      !spend(a->bytes()))
    return fail(a, cat("attribute '", made.name, "' is damaged"));
  // The kinds of the C API, in another order.
  static constexpr knapper_attribute_kind kinds[] = {
      KNAPPER_ATTRIBUTE_INT,    KNAPPER_ATTRIBUTE_FLOAT,
      KNAPPER_ATTRIBUTE_STRING, KNAPPER_ATTRIBUTE_INTS,
      KNAPPER_ATTRIBUTE_FLOATS, KNAPPER_ATTRIBUTE_STRINGS,
      KNAPPER_ATTRIBUTE_TENSOR};
  made.kind = kinds[static_cast<unsigned>(a->kind())];
  if (a->integers())
    made.integers.assign(a->integers()->begin(), a->integers()->end());
  if (a->reals())
    made.reals.assign(a->reals()->begin(), a->reals()->end());
  for (uint32_t i = 0; i < count(a->texts()); ++i) {
    const auto *bytes = a->texts()->Get(i)->bytes();
    if (!spend(bytes))
      return fail(a, "attributes share more than the file holds");
    made.texts.emplace_back(
        bytes ? reinterpret_cast<const char *>(bytes->data()) : "",
        count(bytes));
  }
  made.dtype = static_cast<DType>(a->dtype());
  if (a->bytes()) {
    auto *data = reinterpret_cast<const std::byte *>(a->bytes()->data());
    made.bytes.assign(data, data + a->bytes()->size());
  }
  size_t single = made.kind == KNAPPER_ATTRIBUTE_INT      ? made.integers.size()
                  : made.kind == KNAPPER_ATTRIBUTE_FLOAT  ? made.reals.size()
                  : made.kind == KNAPPER_ATTRIBUTE_STRING ? made.texts.size()
                                                          : 1;
  bool whole = single == 1;
  if (made.kind == KNAPPER_ATTRIBUTE_TENSOR) {
    std::optional<int64_t> bytes =
        made.dtype == DType::text
            ? std::nullopt
            : std::optional<int64_t>(byteSize(made.dtype));
    for (int64_t dim : made.integers)
      bytes = bytes && dim >= 0 ? checkedMul(*bytes, dim) : std::nullopt;
    whole = bytes == static_cast<int64_t>(made.bytes.size()) &&
            made.integers.size() <= kMaxRank;
  }
  if (!whole)
    return fail(a, cat("attribute '", made.name, "' is not whole"));
  return made;
}

Status ProgramDecoder::external(const fb::External *e) {
  Program::External made;
  made.domain = text(e->domain());
  made.name = text(e->name());
  made.node.where = text(e->origin());
  made.node.version = e->version();
  if (!spend(e->inputs()) || !spend(e->outputs()) || !spend(e->symbols()) ||
      !spend(e->attributes()))
    return fail(e, "operators share more than the file holds");
  std::vector<OperatorAttribute> attributes;
  for (uint32_t i = 0; i < count(e->attributes()); ++i) {
    Expected<OperatorAttribute> one = attribute(e->attributes()->Get(i));
    if (!one)
      return one.takeError();
    attributes.push_back(std::move(*one));
  }
  made.node.attributes =
      std::make_shared<const OperatorAttributes>(std::move(attributes));
  for (uint32_t i = 0; i < count(e->inputs()); ++i)
    if (Status s = externalTensor(e->inputs()->Get(i), false, made.inputs); !s)
      return s;
  for (uint32_t i = 0; i < count(e->outputs()); ++i)
    if (Status s = externalTensor(e->outputs()->Get(i), true, made.outputs); !s)
      return s;
  for (uint32_t i = 0; i < count(e->symbols()); ++i) {
    uint32_t symbol = e->symbols()->Get(i);
    if (Status s = lateSymbol(e, symbol); !s)
      return s;
    bool given = false;
    for (const Program::ExternalTensor &output : made.outputs)
      for (uint32_t dim : output.dims)
        given |= out.values[dim].op == fb::ScalarOp::symbol &&
                 out.values[dim].imm == symbol;
    if (!given)
      return fail(e, cat("no output of operator '", made.name,
                         "' has the size '", out.symbols[symbol].name, "'"));
    made.symbols.push_back(symbol);
  }
  std::sort(made.symbols.begin(), made.symbols.end());
  out.externals.push_back(std::move(made));
  return success();
}

} // namespace knapper
