// The operations of RecurrenceOps.h.
#ifndef KNAPPER_IR_TILE_RECURRENCEOPS
#define KNAPPER_IR_TILE_RECURRENCEOPS

include "ir/tile/TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_RecurrenceOp : Op<Tile_Dialect, "recurrence"> {
  let summary = "Every program of a recurrent cell, step after step";
  let description = [{
    A whole GPU kernel. `rows` independent rows have `units` f32 of each state. In step t

      sum of matmul p at (row, unit) = sum over k of state[sources[p]][row, k] * weight p (unit, k)

    Each region is one thread's and ends with tile.values. They are

      weights  (unit, k)                          -> a run of weights of each matmul, from k on
      initial  (row, unit)                        -> the states before the first step
      inputs   (step, row, unit)                  -> what a step needs besides states; run a step ahead
      update   (step, row, unit, sums, states, inputs) -> the next states; it stores the outputs
      last     (row, unit, states)                -> nothing; it stores the last states

    `shape`: see RecurrenceGpuConfig (ir/config/RecurrenceConfig.h).
    C1: sums and states are f32, weights runs of f32 or, `packed`, of one type of 16 bits, of one length that divides
    `units` (packed: that is even). C2: `shape` has all entries.
    C3: the regions take and give what is listed.
  }];
  let arguments = (ins Index:$steps, Index:$rows, I64Attr:$units,
      DenseI64ArrayAttr:$sources, DictionaryAttr:$shape);
  let regions = (region SizedRegion<1>:$weights, SizedRegion<1>:$initial,
      SizedRegion<1>:$inputs, SizedRegion<1>:$update, SizedRegion<1>:$last);
  let assemblyFormat = [{
    `steps` $steps `rows` $rows `units` $units `sources` $sources `shape` $shape attr-dict
    `weights` $weights `initial` $initial `inputs` $inputs `update` $update `last` $last
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Weights of a run: 1 for scalars.
    int64_t run();
    int64_t states();
  }];
}

def Tile_ValuesOp
    : Op<Tile_Dialect,
         "values", [Pure, Terminator, ParentOneOf<["RecurrenceOp"]>]> {
  let summary = "Ends a region of a recurrence";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // KNAPPER_IR_TILE_RECURRENCEOPS
