#include "compiler/kernels/ScheduleAttr.h"

using namespace mlir;

namespace knapper {

using ts::DimAttr;

DictionaryAttr scheduleAttr(const Schedule &schedule, MLIRContext *context) {
  Builder b(context);
  SmallVector<NamedAttribute> parameters;
  for (const auto &[name, value] : schedule.parameters)
    parameters.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  SmallVector<Attribute> guard, packed;
  for (const Guard::Term &term : schedule.guard.terms)
    guard.push_back(b.getArrayAttr(
        {term.lhs.attr(),
         b.getStringAttr(ts::stringifyComparePredicate(term.predicate)),
         term.rhs.attr()}));
  for (const PackedOperand &p : schedule.packed)
    packed.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("operand", b.getI64IntegerAttr(p.operand)),
         b.getNamedAttr("rows", b.getI64IntegerAttr(p.rows)),
         b.getNamedAttr("columns", b.getI64IntegerAttr(p.columns)),
         b.getNamedAttr("transposed", b.getBoolAttr(p.transposed)),
         b.getNamedAttr("panel", b.getI64IntegerAttr(p.panel)),
         b.getNamedAttr("group", b.getI64IntegerAttr(p.group)),
         b.getNamedAttr("winograd", b.getBoolAttr(p.winograd)),
         b.getNamedAttr("nibbles", b.getBoolAttr(p.nibbles)),
         b.getNamedAttr("pieces", b.getI64IntegerAttr(p.pieces))}));
  SmallVector<Attribute> maps;
  for (const OperandMap &map : schedule.maps) {
    auto dims = [&](ArrayRef<ts::Dim> list) {
      return b.getArrayAttr(llvm::map_to_vector(
          list, [](ts::Dim dim) { return Attribute(dim.attr()); }));
    };
    maps.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("argument", b.getI64IntegerAttr(map.argument)),
         b.getNamedAttr("offset", map.offset.attr()),
         b.getNamedAttr("sizes", dims(map.sizes)),
         b.getNamedAttr("strides", dims(map.strides)),
         b.getNamedAttr("box", b.getDenseI64ArrayAttr(map.box)),
         b.getNamedAttr("swizzle", b.getI64IntegerAttr(map.swizzle))}));
  }
  return b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getStringAttr(schedule.kind)),
       b.getNamedAttr("parameters", b.getDictionaryAttr(parameters)),
       b.getNamedAttr("guard", b.getArrayAttr(guard)),
       b.getNamedAttr("grid", schedule.grid.attr()),
       b.getNamedAttr("grain", schedule.grain.attr()),
       b.getNamedAttr("scratch", schedule.scratch.attr()),
       b.getNamedAttr("group", b.getI64IntegerAttr(schedule.group)),
       b.getNamedAttr("packed", b.getArrayAttr(packed)),
       b.getNamedAttr("maps", b.getArrayAttr(maps)),
       b.getNamedAttr("state", b.getI64IntegerAttr(schedule.state))});
}

std::optional<Schedule> scheduleOf(Attribute attribute) {
  auto entries = dyn_cast_if_present<DictionaryAttr>(attribute);
  if (!entries)
    return std::nullopt;
  auto kind = entries.getAs<StringAttr>("kind");
  auto parameters = entries.getAs<DictionaryAttr>("parameters");
  auto guard = entries.getAs<ArrayAttr>("guard");
  auto grid = entries.getAs<DimAttr>("grid"),
       grain = entries.getAs<DimAttr>("grain"),
       scratch = entries.getAs<DimAttr>("scratch");
  auto group = entries.getAs<IntegerAttr>("group");
  auto packed = entries.getAs<ArrayAttr>("packed");
  auto state = entries.getAs<IntegerAttr>("state");
  if (!state || state.getInt() < 0 || state.getInt() % sizeof(int64_t))
    return std::nullopt;
  if (!group || group.getInt() < 1)
    return std::nullopt;
  if (!kind || !parameters || !guard || !grid || !grain || !scratch || !packed)
    return std::nullopt;
  Schedule schedule;
  schedule.kind = kind.str();
  for (NamedAttribute parameter : parameters) {
    auto value = dyn_cast<IntegerAttr>(parameter.getValue());
    if (!value)
      return std::nullopt;
    schedule.parameters[parameter.getName().str()] = value.getInt();
  }
  for (Attribute entry : guard) {
    auto term = dyn_cast<ArrayAttr>(entry);
    if (!term || term.size() != 3)
      return std::nullopt;
    auto lhs = dyn_cast<DimAttr>(term[0]), rhs = dyn_cast<DimAttr>(term[2]);
    auto text = dyn_cast<StringAttr>(term[1]);
    auto predicate =
        text ? ts::symbolizeComparePredicate(text.getValue()) : std::nullopt;
    if (!lhs || !rhs || !predicate)
      return std::nullopt;
    schedule.guard.terms.push_back({lhs, *predicate, rhs});
  }
  schedule.grid = grid;
  schedule.grain = grain;
  schedule.scratch = scratch;
  schedule.group = group.getInt();
  schedule.state = state.getInt();
  for (Attribute entry : packed) {
    auto operand = dyn_cast<DictionaryAttr>(entry);
    auto number = [&](StringRef name) {
      return operand ? operand.getAs<IntegerAttr>(name) : IntegerAttr();
    };
    auto choice = [&](StringRef name) {
      return operand ? operand.getAs<BoolAttr>(name) : BoolAttr();
    };
    BoolAttr transposed = choice("transposed"), winograd = choice("winograd"),
             nibbles = choice("nibbles");
    if (!number("operand") || !number("rows") || !number("columns") ||
        !number("panel") || !number("group") || number("group").getInt() < 1 ||
        !number("pieces") || number("pieces").getInt() < 1 || !transposed ||
        !winograd || !nibbles ||
        (nibbles.getValue() && number("group").getInt() != 2))
      return std::nullopt;
    schedule.packed.push_back(
        {static_cast<unsigned>(number("operand").getInt()),
         number("rows").getInt(), number("columns").getInt(),
         transposed.getValue(), number("panel").getInt(),
         number("group").getInt(), winograd.getValue(), nibbles.getValue(),
         number("pieces").getInt()});
  }
  auto maps = entries.getAs<ArrayAttr>("maps");
  for (Attribute entry : maps ? maps.getValue() : ArrayRef<Attribute>()) {
    auto from = dyn_cast<DictionaryAttr>(entry);
    if (!from)
      return std::nullopt;
    auto argument = from.getAs<IntegerAttr>("argument"),
         swizzle = from.getAs<IntegerAttr>("swizzle");
    auto offset = from.getAs<DimAttr>("offset");
    auto sizes = from.getAs<ArrayAttr>("sizes"),
         strides = from.getAs<ArrayAttr>("strides");
    auto box = from.getAs<DenseI64ArrayAttr>("box");
    if (!argument || !swizzle || !offset || !sizes || !strides || !box)
      return std::nullopt;
    OperandMap map;
    map.argument = static_cast<unsigned>(argument.getInt());
    map.offset = offset;
    map.swizzle = swizzle.getInt();
    map.box.assign(box.asArrayRef().begin(), box.asArrayRef().end());
    for (auto [list, into] :
         {std::pair(sizes, &map.sizes), std::pair(strides, &map.strides)})
      for (Attribute dim : list) {
        if (!isa<DimAttr>(dim))
          return std::nullopt;
        into->push_back(cast<DimAttr>(dim));
      }
    schedule.maps.push_back(std::move(map));
  }
  return schedule;
}

} // namespace knapper
