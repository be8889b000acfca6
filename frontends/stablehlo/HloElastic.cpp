#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloImporter.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static bool isElastic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.hasStaticShape();
}

bool isHloElastic(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), isElastic) ||
         llvm::any_of(op->getResultTypes(), isElastic);
}

bool isHloElementwise(StringRef kind) {
  for (ArrayRef<HloRow> rows : {hloUnaryRows(), hloBinaryRows()})
    for (const HloRow &row : rows)
      if (kind == row.name)
        return kind != "bitcast_convert";
  return false;
}

static bool takesHloElastic(HloNode &n) {
  constexpr StringRef kinds[] = {"call",
                                 "composite",
                                 "concatenate",
                                 "convolution",
                                 "custom_call",
                                 "dot_general",
                                 "dynamic_conv",
                                 "dynamic_update_slice",
                                 "optimization_barrier",
                                 "reshard",
                                 "sharding_constraint",
                                 "sort",
                                 "transpose",
                                 "unrealized_conversion_cast",
                                 "while"};
  if (n.kind == "reduce_window") {
    SmallVector<int64_t> spread = n.integers("base_dilations");
    return n.op->getNumResults() == 1 && hloCombiner(n.op, 0) &&
           llvm::all_of(spread, [](int64_t each) { return each == 1; });
  }
  if (n.kind == "reduce")
    return n.op->getNumResults() == 1 && hloCombiner(n.op, 0);
  if (n.kind == "custom_call") {
    auto target = n.op->getAttrOfType<StringAttr>("call_target_name");
    return target && target.getValue() == "shape_assertion";
  }
  return llvm::is_contained(kinds, n.kind) || isHloElementwise(n.kind) ||
         llvm::any_of(hloElasticRows(),
                      [&](const HloRow &row) { return n.kind == row.name; });
}

bool hloFits(Type declared, Type actual) {
  auto wanted = dyn_cast_if_present<RankedTensorType>(declared),
       given = dyn_cast_if_present<RankedTensorType>(actual);
  if (!wanted || !given || wanted.getElementType() != given.getElementType() ||
      wanted.getRank() != given.getRank())
    return false;
  for (auto [size, dim] : llvm::zip(wanted.getShape(), ts::dimsOf(Type(given))))
    if (!ShapedType::isDynamic(size) && dim.asConstant() &&
        *dim.asConstant() != size)
      return false;
  return true;
}

Value hloDeclared(HloNode &n, Value value, Type declared) {
  if (!value)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(value);
  for (auto [size, dim] :
       llvm::zip(cast<RankedTensorType>(declared).getShape(), dims))
    if (!ShapedType::isDynamic(size))
      dim = n.dim(size);
  return n.castDims(value, dims);
}

void alignHloOperands(HloNode &n) {
  if (!isHloElementwise(n.kind))
    return;
  SmallVector<Dim> dims = hloCommonDims(n);
  for (Value &operand : n.operands)
    if (operand && ts::rankOf(operand) == static_cast<int64_t>(dims.size()))
      operand = n.castDims(operand, dims);
}

SmallVector<Dim> hloCommonDims(HloNode &n) {
  SmallVector<Dim> dims;
  for (Value operand : n.operands)
    if (operand && ts::rankOf(operand) > static_cast<int64_t>(dims.size()))
      dims = ts::dimsOf(operand);
  for (Value operand : n.operands)
    if (operand && ts::rankOf(operand) == static_cast<int64_t>(dims.size()))
      for (auto [dim, own] : llvm::zip(dims, ts::dimsOf(operand)))
        if (own.asConstant())
          dim = own;
  return dims;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

HloSizeNames hloSizeNames(Block &main,
                          llvm::function_ref<Operation *(StringRef)> function) {
  using Place = std::pair<unsigned, unsigned>;
  llvm::DenseMap<Value, Place> read;
  HloSizeNames names;
  for (Operation &op : main) {
    StringRef kind = hloName(&op);
    if (kind == "get_dimension_size") {
      auto of = op.getNumOperands() == 1
                    ? dyn_cast<BlockArgument>(op.getOperand(0))
                    : BlockArgument();
      auto dim = op.getAttrOfType<IntegerAttr>("dimension");
      if (of && dim && op.getNumResults() == 1)
        read[op.getResult(0)] = {
            of.getArgNumber(),
            static_cast<unsigned>(dim.getValue().getLimitedValue(1 << 20))};
    }
    if (kind != "call")
      continue;
    Attribute callee = op.getAttr("callee");
    StringRef name;
    if (auto text = dyn_cast_if_present<StringAttr>(callee))
      name = text.getValue();
    else if (auto symbol = dyn_cast_if_present<FlatSymbolRefAttr>(callee))
      name = symbol.getValue();
    Operation *called = function(name);
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      auto found = read.find(operand);
      DictionaryAttr given =
          called ? hloAttributesAt(called, "arg_attrs", i) : DictionaryAttr();
      auto constant =
          given ? given.getAs<StringAttr>("jax.global_constant") : StringAttr();
      if (found != read.end() && constant && !constant.empty())
        names[found->second] = constant.str();
    }
  }
  // A size that is compared with one that has a name is checked to be it.
  for (Operation &op : main) {
    auto direction = op.getAttrOfType<StringAttr>("comparison_direction");
    if (hloName(&op) != "compare" || op.getNumOperands() != 2 || !direction ||
        direction.getValue() != "EQ")
      continue;
    bool asserted = llvm::any_of(op.getUsers(), [](Operation *user) {
      auto target = user->getAttrOfType<StringAttr>("call_target_name");
      return target && target.getValue() == "shape_assertion";
    });
    auto x = read.find(op.getOperand(0)), y = read.find(op.getOperand(1));
    if (!asserted || x == read.end() || y == read.end())
      continue;
    Place first = x->second, second = y->second;
    if (names.count(first) && !names.count(second))
      names[second] = names[first];
    else if (names.count(second) && !names.count(first))
      names[first] = names[second];
  }
  return names;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The text up to where it repeats the whole signature, with sizes for {0}.
static std::string assertionText(HloNode &n, StringRef text) {
  for (StringRef end :
       {"Using the following polymorphic shapes", "Please see https:"})
    text = text.split(end).first.rtrim();
  std::string message = text.str();
  for (size_t i = 1; i < n.size(); ++i) {
    std::optional<SmallVector<Dim>> size = n.importer.sizes(n[i]);
    std::string hole = "{" + std::to_string(i - 1) + "}";
    std::string said = size && size->size() == 1 ? (*size)[0].str() : "?";
    for (size_t at = message.find(hole); at != std::string::npos;
         at = message.find(hole, at + said.size()))
      message.replace(at, hole.size(), said);
  }
  return message;
}

LogicalResult importHloShapeAssertion(HloNode &n) {
  std::string message = "the sizes of the inputs do not fit";
  for (StringRef holder : {"error_message", "mhlo.backend_config"}) {
    Attribute given = n.op->getAttr(holder);
    if (auto text = dyn_cast_if_present<StringAttr>(given))
      message = assertionText(n, text.getValue());
  }
  if (n.size() < 1 || !n.results.empty() ||
      !ts::elementTypeOf(n[0]).isInteger(1))
    return n.damaged("asserts no condition");
  std::optional<SmallVector<Dim>> known = n.importer.sizes(n[0]);
  if (known && known->size() == 1 && (*known)[0].asConstant()) {
    if (*(*known)[0].asConstant() == 0)
      return n.fail(message, "export the function for these sizes");
    return mlir::success();
  }
  auto compare = n[0].getDefiningOp<ts::CompareOp>();
  std::optional<SmallVector<Dim>> left, right;
  if (compare) {
    left = n.importer.sizes(compare.getLhs());
    right = n.importer.sizes(compare.getRhs());
  }
  if (!left || !right || left->size() != 1 || right->size() != 1)
    return n.unsupported("an assertion of what is no comparison of sizes");
  ts::CheckOp::create(n.b, n.loc, (*left)[0].attr(), compare.getPredicate(),
                      (*right)[0].attr(), message);
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {

LogicalResult importGetSize(HloNode &n) {
  int64_t dim = n.dimension("dimension", ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  return n.out(n.sizeScalar(ts::dimOf(n[0], dim), n.element()));
}

/// What lies beyond the new size is left out.
LogicalResult importSetSize(HloNode &n) {
  int64_t dim = n.dimension("dimension", ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  std::optional<SmallVector<Dim>> known = n.importer.sizes(n[1]);
  Dim size = known && known->size() == 1 ? (*known)[0]
                                         : n.bindSize(n.asIndex(n[1]), "size");
  return n.out(n.sliceDim(n[0], dim, n.dim(0), size));
}

/// An operand of sizes, as many as `rank`.
std::optional<SmallVector<Dim>> sizesOf(HloNode &n, size_t index, int64_t rank,
                                        StringRef what) {
  std::optional<SmallVector<Dim>> given = n.sizes(n[index], what);
  if (given && static_cast<int64_t>(given->size()) != rank) {
    (void)n.damaged("has " + Twine(given->size()) + " sizes for rank " +
                    Twine(rank));
    return std::nullopt;
  }
  return given;
}

int64_t resultRank(HloNode &n) {
  auto type = dyn_cast<RankedTensorType>(n.op->getResult(0).getType());
  return type ? type.getRank() : 0;
}

LogicalResult importDynamicReshape(HloNode &n) {
  auto dims = sizesOf(n, 1, resultRank(n), "the shape");
  return dims ? n.out(n.reshape(n[0], *dims)) : failure();
}

LogicalResult importDynamicIota(HloNode &n) {
  int64_t rank = resultRank(n), dim = n.dimension("iota_dimension", rank);
  auto dims = sizesOf(n, 0, rank, "the shape");
  if (!dims || n.failed())
    return failure();
  return n.out(n.makeAs<ts::IotaOp>(n.type(*dims, n.element()), uint64_t(dim)));
}

LogicalResult importDynamicBroadcast(HloNode &n) {
  int64_t rank = resultRank(n);
  SmallVector<int64_t> at = n.dims("broadcast_dimensions", rank);
  auto dims = sizesOf(n, 1, rank, "the shape");
  if (!dims || n.failed())
    return failure();
  if (static_cast<int64_t>(at.size()) != ts::rankOf(n[0]))
    return n.damaged("names " + Twine(at.size()) + " dims of rank " +
                     Twine(ts::rankOf(n[0])));
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, at.size()));
  llvm::sort(order, [&](int64_t a, int64_t b) { return at[a] < at[b]; });
  SmallVector<int64_t> sorted;
  for (int64_t i : order)
    sorted.push_back(at[i]);
  return n.out(n.broadcastAt(n.transpose(n[0], order), sorted, *dims));
}

/// Pads that are numbers go the way of pad's; others may not cut off.
LogicalResult padded(HloNode &n, SmallVector<Dim> low, SmallVector<Dim> high,
                     ArrayRef<int64_t> interior) {
  int64_t rank = ts::rankOf(n[0]);
  if (static_cast<int64_t>(interior.size()) != rank || ts::rankOf(n[1]) != 0)
    return n.damaged("its pads are of another rank");
  auto number = [](Dim dim) { return dim.asConstant().has_value(); };
  if (llvm::all_of(low, number) && llvm::all_of(high, number) &&
      llvm::all_of(ts::dimsOf(n[0]), number)) {
    SmallVector<int64_t> before, after;
    for (auto [a, b] : llvm::zip(low, high)) {
      before.push_back(*a.asConstant());
      after.push_back(*b.asConstant());
    }
    return n.out(n.pad(n[0], n[1], before, after, interior));
  }
  if (llvm::any_of(interior, [](int64_t each) { return each != 0; }))
    return n.unsupported("interior pads of sizes that only a call knows");
  Value x = n[0];
  for (int64_t i = 0; i < rank && x; ++i) {
    Dim cut = n.dim(0), behind = n.dim(0), own = ts::dimOf(x, i);
    for (auto [pad, off] : {std::pair(&low[i], &cut), {&high[i], &behind}})
      if (int64_t value = pad->asConstant().value_or(0); value < 0) {
        *off = n.dim(-value);
        *pad = n.dim(0);
      }
    if (!cut.isConstant(0) || !behind.isConstant(0))
      x = n.sliceDim(x, i, cut, own - cut - behind);
  }
  MLIRContext *context = n.shared.context;
  return n.out(n.make<ts::PadOp>(x, Optional{n[1]}, ts::dimArray(context, low),
                                 ts::dimArray(context, high),
                                 ts::PadMode::constant));
}

LogicalResult importDynamicPad(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]);
  auto low = sizesOf(n, 2, rank, "the pads"),
       high = sizesOf(n, 3, rank, "the pads");
  std::optional<SmallVector<int64_t>> interior =
      n.numbers(n[4], "the interior pads");
  if (!low || !high || !interior || n.failed())
    return failure();
  return padded(n, *low, *high, *interior);
}

SmallVector<Dim> asDims(HloNode &n, ArrayRef<int64_t> numbers) {
  return llvm::map_to_vector(numbers,
                             [&](int64_t number) { return n.dim(number); });
}

LogicalResult importElasticPad(HloNode &n) {
  size_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> low = n.integers("edge_padding_low", rank),
                       high = n.integers("edge_padding_high", rank),
                       interior = n.integers("interior_padding", rank);
  if (n.failed())
    return failure();
  return padded(n, asDims(n, low), asDims(n, high), interior);
}

LogicalResult importElasticSlice(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> starts = n.integers("start_indices", rank),
                       limits = n.integers("limit_indices", rank),
                       steps = n.integers("strides", rank);
  Value x = n[0];
  for (int64_t i = 0; i < rank && !n.failed() && x; ++i) {
    if (starts[i] < 0 || limits[i] < starts[i] || steps[i] < 1)
      return n.damaged("takes " + Twine(starts[i]) + ":" + Twine(limits[i]) +
                       ":" + Twine(steps[i]));
    x = n.sliceDim(x, i, n.dim(starts[i]),
                   n.dim(llvm::divideCeil(limits[i] - starts[i], steps[i])),
                   steps[i]);
  }
  return n.failed() ? failure() : n.out(x);
}

/// The start is clamped, so that `size` elements fit.
Value clampedSlice(HloNode &n, Value x, int64_t dim, Value start, Dim size) {
  if (!x || !start)
    return {};
  Dim own = ts::dimOf(x, dim);
  if (own == size)
    return x;
  std::optional<SmallVector<Dim>> known = n.importer.sizes(start);
  if (known && known->size() == 1) {
    Dim at = (*known)[0];
    if (!at.isConstant(0))
      at = at.max(n.dim(0)).min(own - size);
    return n.sliceDim(x, dim, at, size);
  }
  Type i64 = n.b.getI64Type();
  Value at = n.binary<ts::MinOp>(
      n.binary<ts::MaxOp>(n.asIndex(start), n.integerScalar(0, i64)),
      n.sizeScalar(own - size, i64));
  Value index =
      n.add(n.makeAs<ts::IotaOp>(n.type({size}, i64), uint64_t(0)), at);
  return n.make<ts::GatherOp>(x, index, uint64_t(dim));
}

LogicalResult importElasticDynamicSlice(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> sizes = n.integers("slice_sizes", rank);
  if (n.failed() || static_cast<int64_t>(n.size()) != rank + 1)
    return n.damaged("has another number of starts than dims");
  Value x = n[0];
  for (int64_t i = 0; i < rank; ++i)
    x = clampedSlice(n, x, i, n[i + 1], n.dim(sizes[i]));
  return n.out(x);
}

LogicalResult importElasticReshape(HloNode &n) {
  auto type = dyn_cast<RankedTensorType>(n.op->getResult(0).getType());
  if (!type || !type.hasStaticShape())
    return n.unsupported("to sizes that only a call knows");
  return n.out(n.reshape(n[0], asDims(n, type.getShape())));
}

LogicalResult importRealDynamicSlice(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]);
  auto starts = sizesOf(n, 1, rank, "the starts"),
       limits = sizesOf(n, 2, rank, "the limits");
  std::optional<SmallVector<int64_t>> steps = n.numbers(n[3], "the strides");
  if (!starts || !limits || !steps || n.failed())
    return failure();
  Value x = n[0];
  for (int64_t i = 0; i < rank && x; ++i) {
    if (static_cast<int64_t>(steps->size()) != rank || (*steps)[i] < 1)
      return n.damaged("its strides are none");
    Dim count = ((*limits)[i] - (*starts)[i]).ceilDiv(n.dim((*steps)[i]));
    x = n.sliceDim(x, i, (*starts)[i], count, (*steps)[i]);
  }
  return n.out(x);
}

/// Dims in another order.
LogicalResult importElasticReverse(HloNode &n) {
  Value x = n[0];
  for (int64_t dim : n.dims("dimensions", ts::rankOf(n[0])))
    if (Dim own = ts::dimOf(x, dim); x && !own.isConstant(0))
      x = n.sliceDim(x, dim, own - 1, own, -1);
  return n.failed() ? failure() : n.out(x);
}

/// One window, at a place that is a size.
LogicalResult gatherSlice(HloNode &n, ArrayRef<Dim> sizes,
                          ArrayRef<int64_t> map, ArrayRef<int64_t> collapsed) {
  auto starts = n.sizes(n[1], "where the window begins");
  if (!starts)
    return failure();
  if (starts->size() != map.size())
    return n.damaged("has another number of starts than dims");
  Value x = n[0];
  SmallVector<Dim> kept;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    Dim own = ts::dimOf(n[0], i), at = n.dim(0);
    if (auto *found = llvm::find(map, static_cast<int64_t>(i));
        found != map.end()) {
      Dim given = (*starts)[found - map.begin()];
      if (!given.isConstant(0))
        at = given.max(n.dim(0)).min(own - size);
    }
    if (!(own == size))
      x = n.sliceDim(x, static_cast<int64_t>(i), at, size);
    if (!llvm::is_contained(collapsed, static_cast<int64_t>(i)))
      kept.push_back(size);
  }
  return n.out(n.reshape(x, kept));
}

/// Slices of one dim by indices, the others whole; or one window.
LogicalResult importElasticGather(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]), ofIndices = ts::rankOf(n[1]);
  SmallVector<int64_t> map = n.dims("start_index_map", rank),
                       collapsed = n.dims("collapsed_slice_dims", rank),
                       offsets = n.dims("offset_dims", resultRank(n));
  int64_t vector = n.integer("index_vector_dim");
  std::optional<SmallVector<Dim>> sizes;
  if (n.kind == "dynamic_gather") {
    sizes = sizesOf(n, 2, rank, "the windows' sizes");
  } else {
    sizes.emplace();
    for (int64_t size : n.integers("slice_sizes", rank))
      sizes->push_back(n.dim(size));
  }
  if (!sizes || n.failed())
    return failure();
  if (!n.integers("operand_batching_dims").empty())
    return n.unsupported("batching dims of sizes that only a call knows");
  if (ofIndices == 0 || (ofIndices == 1 && vector == 0))
    return gatherSlice(n, *sizes, map, collapsed);
  bool whole = map.size() == 1 && collapsed.size() == 1 && map == collapsed &&
               (vector == ofIndices || (vector == ofIndices - 1 &&
                                        ts::dimOf(n[1], vector).isConstant(1)));
  for (int64_t i = 0; i < rank && whole; ++i)
    whole = i == map[0] ? (*sizes)[i].isConstant(1)
                        : (*sizes)[i] == ts::dimOf(n[0], i);
  if (!whole)
    return n.unsupported("windows of several places, of sizes that only a call "
                         "knows");
  SmallVector<Dim> batch = ts::dimsOf(n[1]);
  if (vector < ofIndices)
    batch.pop_back();
  Type i64 = n.b.getI64Type();
  Value index = n.reshape(n.asIndex(n[1]), batch);
  index =
      n.binary<ts::MinOp>(n.binary<ts::MaxOp>(index, n.integerScalar(0, i64)),
                          n.sizeScalar(ts::dimOf(n[0], map[0]) - 1, i64));
  Value read = n.make<ts::GatherOp>(n[0], index, uint64_t(map[0]));
  // [before, batch, behind] to `offsets`, the batch around them.
  llvm::sort(offsets);
  auto count = static_cast<int64_t>(batch.size());
  if (static_cast<int64_t>(offsets.size()) != rank - 1 ||
      resultRank(n) != rank - 1 + count)
    return n.damaged("its result has another rank than its windows");
  SmallVector<int64_t> permutation(resultRank(n), -1);
  for (auto [i, at] : llvm::enumerate(offsets))
    permutation[at] = static_cast<int64_t>(i) +
                      (static_cast<int64_t>(i) < map[0] ? 0 : count);
  int64_t next = map[0];
  for (int64_t &each : permutation)
    if (each < 0)
      each = next++;
  return n.out(n.transpose(read, permutation));
}

constexpr HloRow rows[] = {
    {"dynamic_broadcast_in_dim", 2, importDynamicBroadcast},
    {"dynamic_gather", 3, importElasticGather},
    {"dynamic_iota", 1, importDynamicIota},
    {"dynamic_pad", 5, importDynamicPad},
    {"dynamic_reshape", 2, importDynamicReshape},
    {"get_dimension_size", 1, importGetSize},
    {"real_dynamic_slice", 4, importRealDynamicSlice},
    {"set_dimension_size", 2, importSetSize},
};

/// Instead of those for sizes that are numbers.
constexpr HloRow instead[] = {
    {"dynamic_slice", 1, importElasticDynamicSlice},
    {"gather", 2, importElasticGather},
    {"pad", 2, importElasticPad},
    {"reshape", 1, importElasticReshape},
    {"reverse", 1, importElasticReverse},
    {"slice", 1, importElasticSlice},
};

} // namespace

llvm::ArrayRef<HloRow> hloElasticRows() { return rows; }

const HloRow *findHloElasticRow(HloNode &n, const HloRow *row) {
  for (const HloRow &own : instead)
    if (n.kind == own.name)
      return &own;
  return takesHloElastic(n) ? row : nullptr;
}

} // namespace knapper
