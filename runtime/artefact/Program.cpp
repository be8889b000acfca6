#include "runtime/artefact/Program.h"

#include "runtime/artefact/Format.h"
#include "runtime/artefact/Limits.h"
#include "runtime/artefact/ProgramChecks.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace knapper {
namespace {

/// Checks one fb::Program while copying it. Each method stops at the first
/// damage.
class Decoder {
public:
  Decoder(const Artefact &artefact, const fb::Program &from, uint32_t target)
      : artefact(artefact), from(from), target(target) {
    // Vectors and strings may be shared inside a FlatBuffer; what they expand
    // to is bounded by a multiple of what was stored.
    Prelude prelude;
    memcpy(&prelude, artefact.bytes().data(), sizeof prelude);
    budget = (1 << 20) + 16 * prelude.headerBytes;
    initialBudget = budget;
  }

  Expected<Program> run() {
    out.name = text(from.name());
    for (auto step : {&Decoder::symbols, &Decoder::values, &Decoder::checks,
                      &Decoder::signature, &Decoder::inPlace, &Decoder::buffers,
                      &Decoder::regions, &Decoder::bound})
      if (Status s = (this->*step)(); !s)
        return s.takeError();
    if (Status s = checkStructure(artefact, from, out); !s)
      return s.takeError();
    if (Status s = checkTexts(artefact, from, out); !s)
      return s.takeError();
    if (Status s = findDependents(artefact, from, 4 * initialBudget, out); !s)
      return s.takeError();
    return std::move(out);
  }

private:
  Error fail(const void *at, std::string what) const {
    return damagedProgram(artefact, from, at, what);
  }
  template <typename T> bool spend(const T *vectorOrString) {
    uint64_t size = 16 + count(vectorOrString);
    if (size > budget)
      return false;
    budget -= size;
    return true;
  }

  Status symbols() {
    for (uint32_t i = 0; i < count(from.symbols()); ++i) {
      const fb::Symbol *s = from.symbols()->Get(i);
      if (s->divisor() < 1 || (s->max() != -1 && s->max() < s->min()))
        return fail(s, cat("symbol ", i, " has an empty range"));
      out.symbols.push_back({text(s->name()), s->min(), s->max(), s->divisor(),
                             s->from_buffer()});
      out.hasLate |= s->from_buffer();
    }
    return success();
  }

  Status values() {
    for (uint32_t i = 0; i < count(from.values()); ++i) {
      const fb::Scalar *s = from.values()->Get(i);
      if (s->op() > fb::ScalarOp::MAX)
        return fail(
            s, cat("value ", i, " has unknown operation ", unsigned(s->op())));
      bool late = false;
      if (s->op() == fb::ScalarOp::symbol) {
        if (s->imm() < 0 || uint64_t(s->imm()) >= out.symbols.size())
          return fail(s, cat("value ", i, " refers to symbol ", s->imm(),
                             " of ", out.symbols.size()));
        late = out.symbols[s->imm()].late;
      } else if (s->op() != fb::ScalarOp::constant) {
        if (s->a() >= i || s->b() >= i)
          return fail(s, cat("value ", i, " refers to value ",
                             std::max(s->a(), s->b()),
                             ", which is not before "
                             "it"));
        late = out.values[s->a()].late || out.values[s->b()].late;
      }
      out.values.push_back({s->op(), s->a(), s->b(), s->imm(), late});
    }
    return success();
  }

  Status value(const void *at, uint32_t index, const char *what) const {
    if (index >= out.values.size())
      return fail(
          at, cat(what, " refers to value ", index, " of ", out.values.size()));
    return success();
  }

  Status checks() {
    for (uint32_t i = 0; i < count(from.checks()); ++i) {
      const fb::Check *c = from.checks()->Get(i);
      if (Status s = value(c, c->value(), "a check"); !s)
        return s;
      out.checks.push_back(
          {c->value(), text(c->message()), text(c->where()), text(c->hint())});
    }
    return success();
  }

  Status tensor(const fb::TensorSignature *t, bool isInput,
                std::vector<Program::Tensor> &list) {
    Program::Tensor tensor{
        text(t->name()), static_cast<DType>(t->dtype()), {}, {}, {}, false,
        t->index_limit()};
    if (t->dtype() > fb::DType::MAX)
      return fail(t, cat("tensor '", tensor.name, "' has unknown dtype ",
                         unsigned(t->dtype())));
    if (count(t->dims()) > uint32_t(kMaxRank) || !spend(t->dims()) ||
        count(t->dim_text()) != count(t->dims()))
      return fail(t, cat("tensor '", tensor.name, "' has ", count(t->dims()),
                         " dims and ", count(t->dim_text()), " names of dims"));
    for (uint32_t d = 0; d < count(t->dims()); ++d) {
      uint32_t index = t->dims()->Get(d);
      if (Status s = value(t, index, "a dim"); !s)
        return s;
      const Program::Value &v = out.values[index];
      if (v.late && isInput)
        return fail(t, cat("input '", tensor.name,
                           "' has a dim that is known only during the run"));
      tensor.late |= v.late;
      tensor.dims.push_back(index);
      tensor.dimText.push_back(text(t->dim_text()->Get(d)));
      tensor.staticDims.push_back(
          v.op == fb::ScalarOp::constant && v.imm >= 0 ? v.imm : -1);
    }
    out.hasText |= tensor.dtype == DType::text;
    list.push_back(std::move(tensor));
    return success();
  }

  Status signature() {
    for (uint32_t i = 0; i < count(from.inputs()); ++i)
      if (Status s = tensor(from.inputs()->Get(i), true, out.inputs); !s)
        return s;
    for (uint32_t i = 0; i < count(from.outputs()); ++i)
      if (Status s = tensor(from.outputs()->Get(i), false, out.outputs); !s)
        return s;
    return success();
  }

  Status inPlace() {
    out.inPlace.resize(out.outputs.size());
    const fb::InPlace *last = nullptr;
    for (uint32_t i = 0; i < count(from.in_place()); ++i) {
      const fb::InPlace *p = from.in_place()->Get(i);
      if (p->output() >= out.outputs.size() || p->input() >= out.inputs.size())
        return fail(p, cat("in-place pair ", i, " is of output ", p->output(),
                           " of ", out.outputs.size(), " and input ",
                           p->input(), " of ", out.inputs.size()));
      if (last && std::pair(p->output(), p->input()) <=
                      std::pair(last->output(), last->input()))
        return fail(p, cat("in-place pair ", i, " is out of order"));
      last = p;
      const Program::Tensor &output = out.outputs[p->output()];
      if (output.dtype != out.inputs[p->input()].dtype || output.late)
        return fail(p, cat("in-place pair ", i, " is of output '", output.name,
                           "' and input '", out.inputs[p->input()].name,
                           "', of other types or sizes"));
      out.inPlace[p->output()].push_back(p->input());
    }
    return success();
  }

  Status buffers() {
    out.inputBuffer.assign(out.inputs.size(), Program::kNone);
    out.outputBuffer.assign(out.outputs.size(), Program::kNone);
    for (uint32_t i = 0; i < count(from.buffers()); ++i) {
      const fb::Buffer *b = from.buffers()->Get(i);
      Program::Buffer buffer{b->kind(),
                             b->index(),
                             b->bytes(),
                             b->first(),
                             b->last(),
                             false,
                             b->constant_offset(),
                             b->constant_bytes(),
                             b,
                             text(b->name()),
                             true};
      switch (b->kind()) {
      case fb::BufferKind::input:
      case fb::BufferKind::output: {
        auto &map = b->kind() == fb::BufferKind::input ? out.inputBuffer
                                                       : out.outputBuffer;
        if (b->index() >= map.size() || map[b->index()] != Program::kNone)
          return fail(b,
                      cat("buffer ", i, " is a second or unknown ",
                          fb::EnumNameBufferKind(b->kind()), " ", b->index()));
        map[b->index()] = i;
        break;
      }
      case fb::BufferKind::temp:
        if (Status s = value(b, b->bytes(), "a buffer's size"); !s)
          return s;
        if (b->first() > b->last())
          return fail(b, cat("buffer ", i, " is alive from ", b->first(),
                             " to ", b->last()));
        buffer.late = out.values[b->bytes()].late;
        break;
      case fb::BufferKind::constant:
        if (b->constant_offset() % kConstantAlignment != 0 ||
            !inside(b->constant_offset(), b->constant_bytes(),
                    artefact.constants().size()))
          return fail(b, cat("constant ", i, " at ", b->constant_offset(),
                             " of ", b->constant_bytes(),
                             " bytes lies outside the constants section of ",
                             artefact.constants().size(),
                             " bytes or off a 64-byte boundary"));
        break;
      default:
        return fail(
            b, cat("buffer ", i, " is of unknown kind ", unsigned(b->kind())));
      }
      out.buffers.push_back(buffer);
    }
    for (uint32_t i = 0; i < out.outputs.size(); ++i)
      if (out.outputBuffer[i] == Program::kNone)
        return fail(&from, cat("output ", i, " has no buffer"));
    return success();
  }

  Expected<Program::Ref> ref(const void *at, const fb::BufferRef *r,
                             const char *what) const {
    if (!r)
      return fail(at, cat(what, " names no buffer"));
    if (r->buffer() >= out.buffers.size())
      return fail(r, cat(what, " refers to buffer ", r->buffer(), " of ",
                         out.buffers.size()));
    if (Status s = value(r, r->offset(), what); !s)
      return s.takeError();
    return Program::Ref{r->buffer(), r->offset()};
  }
  /// A buffer that the program may write.
  Status writable(const void *at, Program::Ref r, const char *what) const {
    fb::BufferKind kind = out.buffers[r.buffer].kind;
    if (kind == fb::BufferKind::input || kind == fb::BufferKind::constant)
      return fail(at, cat(what, " writes to an ",
                          kind == fb::BufferKind::input ? "input"
                                                        : "artefact constant"));
    return success();
  }

  Expected<Program::Map> tensorMap(const fb::TensorMap *from, uint32_t args,
                                   bool &late) const {
    Program::Map map = {};
    if (from->arg() >= args)
      return fail(from, cat("a TMA descriptor is of argument ", from->arg(),
                            " of ", args));
    map.arg = from->arg();
    if (from->dtype() > fb::DType::MAX)
      return fail(from, "a TMA descriptor has an unknown dtype");
    map.dtype = static_cast<DType>(from->dtype());
    map.rank = count(from->sizes());
    if (map.rank < 1 || map.rank > kMaxMapRank ||
        count(from->strides()) + 1 != map.rank ||
        count(from->box()) != map.rank)
      return fail(from, cat("a TMA descriptor has ", map.rank, " sizes, ",
                            count(from->strides()), " strides and a box of ",
                            count(from->box())));
    map.offset = from->offset();
    map.swizzle = from->swizzle();
    if (map.swizzle != 0 && map.swizzle != 32 && map.swizzle != 64 &&
        map.swizzle != 128)
      return fail(from,
                  cat("a TMA descriptor swizzles ", map.swizzle, " bytes"));
    map.tf32 = from->tf32();
    if (map.tf32 && map.dtype != DType::f32)
      return fail(from, "a TMA descriptor rounds what is not f32");
    auto take = [&](uint32_t v) -> Status {
      if (Status s = value(from, v, "a TMA descriptor"); !s)
        return s;
      late |= out.values[v].late;
      return success();
    };
    if (Status s = take(map.offset); !s)
      return s.takeError();
    for (uint32_t i = 0; i < map.rank; ++i) {
      map.sizes[i] = from->sizes()->Get(i);
      map.box[i] = from->box()->Get(i);
      if (Status s = take(map.sizes[i]); !s)
        return s.takeError();
      if (i + 1 == map.rank)
        break;
      map.strides[i] = from->strides()->Get(i);
      if (Status s = take(map.strides[i]); !s)
        return s.takeError();
    }
    return map;
  }

  Status matrix(const fb::VendorMatrix *from, const fb::Launch *launch,
                size_t batch, const char *what, Program::Matrix &into,
                bool &late) {
    if (!from)
      return fail(launch, cat("a library's product has no ", what));
    if (from->arg() >= count(launch->args()))
      return fail(from, cat("a library's ", what, " is argument ", from->arg(),
                            " of ", count(launch->args())));
    if (from->dtype() > fb::DType::MAX)
      return fail(from, cat("a library's ", what, " has an unknown dtype"));
    if (count(from->batch_strides()) != batch || !spend(from->batch_strides()))
      return fail(from, cat("a library's ", what, " has ",
                            count(from->batch_strides()), " strides of ", batch,
                            " batch dims"));
    into = {from->arg(),           static_cast<DType>(from->dtype()),
            from->offset(),        from->row_stride(),
            from->column_stride(), {}};
    if (Status s = values(from, from->batch_strides(), into.batchStrides); !s)
      return s;
    std::vector<uint32_t> used = into.batchStrides;
    used.insert(used.end(), {into.offset, into.rowStride, into.columnStride});
    return allKnown(from, used, late);
  }
  Status values(const void *at, const flatbuffers::Vector<uint32_t> *list,
                std::vector<uint32_t> &into) const {
    for (uint32_t i = 0; i < count(list); ++i) {
      if (Status s = value(at, list->Get(i), "a library's product"); !s)
        return s;
      into.push_back(list->Get(i));
    }
    return success();
  }
  Status allKnown(const void *at, const std::vector<uint32_t> &used,
                  bool &late) const {
    for (uint32_t v : used) {
      if (Status s = value(at, v, "a library's product"); !s)
        return s;
      late |= out.values[v].late;
    }
    return success();
  }

  /// What a choice gives a library to compute.
  Status product(const fb::Choice *c, const fb::Launch *l,
                 fb::VendorLibrary library, Program::Choice &choice,
                 bool &late) {
    const fb::VendorProduct *p = c->product();
    bool ofLibrary = library != fb::VendorLibrary::none;
    if (library > fb::VendorLibrary::MAX || ofLibrary != (p != nullptr))
      return fail(c, cat("a choice of library ", unsigned(library), " has ",
                         p ? "a product" : "no product"));
    if (!p)
      return success();
    if (p->activation() > fb::VendorActivation::MAX)
      return fail(p, "a library's product has an unknown activation");
    if (count(p->batch()) > uint32_t(kMaxRank) || !spend(p->batch()))
      return fail(
          p, cat("a library's product has ", count(p->batch()), " batch dims"));
    Program::Product made = {};
    made.library = static_cast<VendorLibrary>(library);
    made.activation = static_cast<VendorActivation>(p->activation());
    made.tf32 = p->tf32();
    made.rows = p->rows();
    made.columns = p->columns();
    made.depth = p->depth();
    if (Status s = values(p, p->batch(), made.batch); !s)
      return s;
    std::vector<uint32_t> sizes = made.batch;
    sizes.insert(sizes.end(), {made.rows, made.columns, made.depth});
    if (Status s = allKnown(p, sizes, late); !s)
      return s;
    size_t batch = made.batch.size();
    for (auto [from, what, into] :
         {std::tuple(p->lhs(), "left side", &made.lhs),
          std::tuple(p->rhs(), "right side", &made.rhs),
          std::tuple(p->result(), "result", &made.result)})
      if (Status s = matrix(from, l, batch, what, *into, late); !s)
        return s;
    if (p->bias())
      if (Status s =
              matrix(p->bias(), l, batch, "bias", made.bias.emplace(), late);
          !s)
        return s;
    auto written = ref(l, l->args()->Get(made.result.arg), "a result");
    if (!written)
      return written.takeError();
    if (Status s = writable(p, *written, "a library's product"); !s)
      return s;
    choice.product = std::move(made);
    return success();
  }

  Status launch(const fb::Launch *l) {
    Program::Launch launch;
    launch.flops = l->flops();
    launch.bytes = l->bytes();
    launch.origin = text(l->origin());
    launch.late = false;
    for (uint32_t v : {l->flops(), l->bytes()})
      if (Status s = value(l, v, "a launch's cost"); !s)
        return s;
    if (!spend(l->args()) || !spend(l->choices()))
      return fail(l, "launches share more than the file holds");
    auto isLate = [&](uint32_t v) { return out.values[v].late; };
    for (uint32_t i = 0; i < count(l->args()); ++i) {
      auto arg = ref(l, l->args()->Get(i), "a launch's argument");
      if (!arg)
        return arg.takeError();
      launch.late |= isLate(arg->offset) || out.buffers[arg->buffer].late;
      if (out.buffers[arg->buffer].kind == fb::BufferKind::output)
        launch.late |= out.outputs[out.buffers[arg->buffer].index].late;
      launch.args.push_back(*arg);
    }
    const auto *kernels = artefact.header().kernels();
    for (uint32_t i = 0; i < count(l->choices()); ++i) {
      const fb::Choice *c = l->choices()->Get(i);
      for (uint32_t v : {c->guard(), c->grid(), c->grain(), c->scratch()})
        if (Status s = value(c, v, "a choice"); !s)
          return s;
      if (c->kernel() >= count(kernels))
        return fail(c, cat("a choice refers to kernel ", c->kernel(), " of ",
                           count(kernels)));
      const fb::Kernel *kernel = kernels->Get(c->kernel());
      if (kernel->num_buffers() != count(l->args()) ||
          kernel->num_symbols() != count(c->symbols()))
        return fail(c, cat("kernel '", text(kernel->name()), "' takes ",
                           kernel->num_buffers(), " buffers and ",
                           kernel->num_symbols(), " symbols but is given ",
                           count(l->args()), " and ", count(c->symbols())));
      if (!spend(c->symbols()))
        return fail(c, "choices share more than the file holds");
      Program::Choice choice{c->guard(),       c->kernel(),  c->grid(),
                             c->grain(),       c->scratch(), {},
                             text(c->label()), {},           {}};
      for (uint32_t n = 0; n < count(c->symbols()); ++n) {
        uint32_t v = c->symbols()->Get(n);
        if (Status s = value(c, v, "a kernel's symbol"); !s)
          return s;
        launch.late |= isLate(v);
        choice.symbols.push_back(v);
      }
      if (!spend(c->maps()))
        return fail(c, "choices share more than the file holds");
      for (uint32_t n = 0; n < count(c->maps()); ++n) {
        Expected<Program::Map> map =
            tensorMap(c->maps()->Get(n), count(l->args()), launch.late);
        if (!map)
          return map.takeError();
        choice.maps.push_back(*map);
      }
      if (Status s = product(c, l, kernel->library(), choice, launch.late); !s)
        return s;
      bool available = choice.product.has_value();
      for (uint32_t n = 0; n < count(kernel->codes()); ++n)
        available |= kernel->codes()->Get(n)->target() == target;
      if (!available)
        continue;
      launch.late |= isLate(c->guard()) || isLate(c->grid()) ||
                     isLate(c->grain()) || isLate(c->scratch());
      out.kernelUsed[c->kernel()] = true;
      launch.choices.push_back(std::move(choice));
    }
    if (launch.choices.empty())
      return fail(l, cat("a launch ('", launch.origin,
                         "') has no kernel for target ", target));
    if (launch.choices.back().product)
      return fail(l, cat("the last choice of a launch ('", launch.origin,
                         "') is a library's, which may not lie here"));
    const Program::Value &last = out.values[launch.choices.back().guard];
    if (last.op != fb::ScalarOp::constant || last.imm == 0)
      return fail(l, cat("the last choice of a launch ('", launch.origin,
                         "') may not be taken: its guard is not constant 1"));
    out.launches.push_back(std::move(launch));
    return success();
  }

  Status externalTensor(const fb::ExternalTensor *t, bool isOutput,
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

  Expected<OperatorAttribute> attribute(const fb::Attribute *a) {
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
    size_t single = made.kind == KNAPPER_ATTRIBUTE_INT ? made.integers.size()
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

  Status external(const fb::External *e) {
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
      if (Status s = externalTensor(e->inputs()->Get(i), false, made.inputs);
          !s)
        return s;
    for (uint32_t i = 0; i < count(e->outputs()); ++i)
      if (Status s = externalTensor(e->outputs()->Get(i), true, made.outputs);
          !s)
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

  Status region(const void *at, uint32_t index) const {
    if (index >= count(from.regions()))
      return fail(at, cat("an instruction refers to region ", index, " of ",
                          count(from.regions())));
    return success();
  }

  Status lateSymbol(const void *at, uint32_t index) const {
    if (index >= out.symbols.size() || !out.symbols[index].late)
      return fail(at, cat("an instruction sets symbol ", index,
                          ", which is not one that instructions set"));
    return success();
  }

  using Instruction = Program::Instruction;

  /// Sets `to` to the place in a buffer that is `given`.
  Status readRef(const void *at, const fb::BufferRef *given, const char *what,
                 Program::Ref &to) {
    auto found = ref(at, given, what);
    if (!found)
      return found.takeError();
    to = *found;
    return success();
  }

  Status read(const fb::Copy *c, Instruction &in) {
    TRY(readRef(c, c->source(), "a copy", in.source));
    TRY(readRef(c, c->target(), "a copy", in.target));
    TRY(writable(c, in.target, "a copy"));
    in.bytes = c->bytes();
    return value(c, c->bytes(), "a copy's size");
  }

  Status read(const fb::BindSymbol *b, Instruction &in) {
    TRY(readRef(b, b->source(), "a bind", in.source));
    in.index = b->symbol();
    return lateSymbol(b, b->symbol());
  }

  Status read(const fb::If *i, Instruction &in) {
    TRY(readRef(i, i->condition(), "a condition", in.source));
    in.index = i->then_region();
    in.other = i->else_region();
    TRY(region(i, in.index));
    return region(i, in.other);
  }

  Status read(const fb::While *w, Instruction &in) {
    TRY(readRef(w, w->condition(), "a condition", in.source));
    in.index = w->condition_region();
    in.other = w->body_region();
    TRY(region(w, in.index));
    return region(w, in.other);
  }

  Status read(const fb::SetSymbols *a, Instruction &in) {
    if (count(a->symbols()) != count(a->values()) || !spend(a->symbols()) ||
        !spend(a->values()))
      return fail(a, cat("an assignment has ", count(a->symbols()),
                         " symbols and ", count(a->values()), " values"));
    in.index = static_cast<uint32_t>(out.assignments.size());
    out.assignments.emplace_back();
    for (uint32_t i = 0; i < count(a->symbols()); ++i) {
      uint32_t to = a->symbols()->Get(i), from = a->values()->Get(i);
      TRY(lateSymbol(a, to));
      TRY(value(a, from, "an assignment"));
      out.assignments.back().symbols.push_back({to, from});
    }
    return success();
  }

  Status readAssert(const fb::InstructionBox *box, Instruction &in) {
    const fb::Check *c = box->instruction_as_Assert()->check();
    if (!c)
      return fail(box, "an assertion has no check");
    TRY(value(c, c->value(), "an assertion"));
    in.index = static_cast<uint32_t>(out.assertions.size());
    out.assertions.push_back(
        {c->value(), text(c->message()), text(c->where()), text(c->hint())});
    return success();
  }

  Status read(const fb::Repeat *r, Instruction &in) {
    TRY(lateSymbol(r, r->counter()));
    TRY(value(r, r->trips(), "a number of turns"));
    TRY(region(r, r->body_region()));
    in.source.buffer = Program::kNone;
    if (r->condition())
      TRY(readRef(r, r->condition(), "a condition", in.source));
    in.index = r->body_region();
    in.other = r->counter();
    in.bytes = r->trips();
    return success();
  }

  Status readKind(const fb::InstructionBox *box, Instruction &in) {
    switch (in.op) {
    case fb::Instruction::Launch:
      in.index = static_cast<uint32_t>(out.launches.size());
      return launch(box->instruction_as_Launch());
    case fb::Instruction::Copy:
      return read(box->instruction_as_Copy(), in);
    case fb::Instruction::BindSymbol:
      return read(box->instruction_as_BindSymbol(), in);
    case fb::Instruction::If:
      return read(box->instruction_as_If(), in);
    case fb::Instruction::While:
      return read(box->instruction_as_While(), in);
    case fb::Instruction::Call:
      in.index = box->instruction_as_Call()->region();
      return region(box, in.index);
    case fb::Instruction::SetSymbols:
      return read(box->instruction_as_SetSymbols(), in);
    case fb::Instruction::Assert:
      return readAssert(box, in);
    case fb::Instruction::Repeat:
      return read(box->instruction_as_Repeat(), in);
    case fb::Instruction::External:
      in.index = static_cast<uint32_t>(out.externals.size());
      return external(box->instruction_as_External());
    default:
      return fail(box,
                  cat("an instruction is of unknown kind ", unsigned(in.op)));
    }
  }

  Status instruction(const fb::InstructionBox *box,
                     std::vector<Instruction> &list) {
    Instruction in;
    in.op = box->instruction_type();
    if (!box->instruction())
      return fail(box, "an instruction is empty");
    TRY(readKind(box, in));
    list.push_back(in);
    return success();
  }

  Status regions() {
    out.kernelUsed.assign(count(artefact.header().kernels()), false);
    if (count(from.regions()) == 0)
      return fail(&from, "there is no region to start in");
    for (uint32_t i = 0; i < count(from.regions()); ++i) {
      const auto *list = from.regions()->Get(i)->instructions();
      if (!spend(list))
        return fail(&from, "regions share more than the file holds");
      out.regions.emplace_back();
      for (uint32_t n = 0; n < count(list); ++n)
        if (Status s = instruction(list->Get(n), out.regions.back()); !s)
          return s;
    }
    return success();
  }

  /// Every symbol is set by an input's dim or by an instruction.
  Status bound() {
    std::vector<bool> set(out.symbols.size());
    for (const Program::Tensor &t : out.inputs)
      for (uint32_t d : t.dims)
        if (out.values[d].op == fb::ScalarOp::symbol)
          set[out.values[d].imm] = true;
    for (const auto &region : out.regions)
      for (const Program::Instruction &in : region)
        if (in.op == fb::Instruction::BindSymbol)
          set[in.index] = true;
        else if (in.op == fb::Instruction::Repeat)
          set[in.other] = true;
        else if (in.op == fb::Instruction::External)
          for (uint32_t symbol : out.externals[in.index].symbols)
            set[symbol] = true;
        else if (in.op == fb::Instruction::SetSymbols)
          for (auto [symbol, from] : out.assignments[in.index].symbols)
            set[symbol] = true;
    for (uint32_t i = 0; i < set.size(); ++i)
      if (!set[i])
        return fail(&from, cat("symbol '", out.symbols[i].name,
                               "' is bound by no input and no instruction"));
    return success();
  }

  const Artefact &artefact;
  const fb::Program &from;
  uint32_t target;
  uint64_t budget, initialBudget;
  Program out;
};

} // namespace

Error damagedProgram(const Artefact &artefact, const fb::Program &from,
                     const void *at, std::string_view what) {
  return artefact.damaged(at, cat("program '", text(from.name()), "', ", what));
}

bool Program::mayReplace(uint32_t output, uint32_t input) const {
  return std::binary_search(inPlace[output].begin(), inPlace[output].end(),
                            input);
}

Expected<Program> Program::decode(const Artefact &artefact, uint32_t index,
                                  uint32_t target) {
  const fb::Artefact &header = artefact.header();
  if (index >= count(header.programs()))
    return artefact.damaged(&header, cat("there is no program ", index));
  if (target >= count(header.targets()))
    return artefact.damaged(&header, cat("there is no target ", target));
  return Decoder(artefact, *header.programs()->Get(index), target).run();
}

} // namespace knapper
