// Launches: arguments, choices of kernels, matmuls of libraries.
#include "runtime/artefact/ProgramDecoder.h"

#include "runtime/artefact/Limits.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <tuple>

namespace knapper {

Expected<Program::Map>
ProgramDecoder::tmaDescriptor(const fb::TmaDescriptor *from, uint32_t args,
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
      count(from->strides()) + 1 != map.rank || count(from->box()) != map.rank)
    return fail(from, cat("a TMA descriptor has ", map.rank, " sizes, ",
                          count(from->strides()), " strides and a box of ",
                          count(from->box())));
  map.offset = from->offset();
  map.swizzle = from->swizzle();
  if (map.swizzle != 0 && map.swizzle != 32 && map.swizzle != 64 &&
      map.swizzle != 128)
    return fail(from, cat("a TMA descriptor swizzles ", map.swizzle, " bytes"));
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

Status ProgramDecoder::matrix(const fb::VendorMatrix *from,
                              const fb::Launch *launch, size_t batch,
                              const char *what, Program::Matrix &into,
                              bool &late) {
  if (!from)
    return fail(launch, cat("a library's matmul has no ", what));
  if (from->arg() >= count(launch->args()))
    return fail(from, cat("a library's ", what, " is argument ", from->arg(),
                          " of ", count(launch->args())));
  if (from->dtype() > fb::DType::MAX)
    return fail(from, cat("a library's ", what, " has an unknown dtype"));
  if (count(from->batch_strides()) != batch || !spend(from->batch_strides()))
    return fail(from,
                cat("a library's ", what, " has ", count(from->batch_strides()),
                    " strides of ", batch, " batch dims"));
  into = {from->arg(),           static_cast<DType>(from->dtype()),
          from->offset(),        from->row_stride(),
          from->column_stride(), {}};
  if (Status s = values(from, from->batch_strides(), into.batchStrides); !s)
    return s;
  std::vector<uint32_t> used = into.batchStrides;
  used.insert(used.end(), {into.offset, into.rowStride, into.columnStride});
  return allKnown(from, used, late);
}

Status ProgramDecoder::values(const void *at,
                              const flatbuffers::Vector<uint32_t> *list,
                              std::vector<uint32_t> &into) const {
  for (uint32_t i = 0; i < count(list); ++i) {
    if (Status s = value(at, list->Get(i), "a library's matmul"); !s)
      return s;
    into.push_back(list->Get(i));
  }
  return success();
}

Status ProgramDecoder::allKnown(const void *at,
                                const std::vector<uint32_t> &used,
                                bool &late) const {
  for (uint32_t v : used) {
    if (Status s = value(at, v, "a library's matmul"); !s)
      return s;
    late |= out.values[v].late;
  }
  return success();
}

Status ProgramDecoder::matmul(const fb::Choice *c, const fb::Launch *l,
                              fb::VendorLibrary library,
                              Program::Choice &choice, bool &late) {
  const fb::VendorMatmul *p = c->matmul();
  bool ofLibrary = library != fb::VendorLibrary::none;
  if (library > fb::VendorLibrary::MAX || ofLibrary != (p != nullptr))
    return fail(c, cat("a choice of library ", unsigned(library), " has ",
                       p ? "a matmul" : "no matmul"));
  if (!p)
    return success();
  if (p->activation() > fb::VendorActivation::MAX)
    return fail(p, "a library's matmul has an unknown activation");
  if (count(p->batch()) > uint32_t(kMaxRank) || !spend(p->batch()))
    return fail(
        p, cat("a library's matmul has ", count(p->batch()), " batch dims"));
  Program::Matmul made = {};
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
  if (Status s = writable(p, *written, "a library's matmul"); !s)
    return s;
  choice.matmul = std::move(made);
  return success();
}

Status ProgramDecoder::launch(const fb::Launch *l) {
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
          tmaDescriptor(c->maps()->Get(n), count(l->args()), launch.late);
      if (!map)
        return map.takeError();
      choice.maps.push_back(*map);
    }
    if (Status s = matmul(c, l, kernel->library(), choice, launch.late); !s)
      return s;
    bool available = choice.matmul.has_value();
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
  if (launch.choices.back().matmul)
    return fail(l, cat("the last choice of a launch ('", launch.origin,
                       "') is a library's, which may not lie here"));
  const Program::Value &last = out.values[launch.choices.back().guard];
  if (last.op != fb::ScalarOp::constant || last.imm == 0)
    return fail(l, cat("the last choice of a launch ('", launch.origin,
                       "') may not be taken: its guard is not constant 1"));
  out.launches.push_back(std::move(launch));
  return success();
}

} // namespace knapper
