// Base classes of the tensor dialect's ops.
#ifndef KNAPPER_IR_TENSOR_OPBASE
#define KNAPPER_IR_TENSOR_OPBASE

include "ir/tensor/Attributes.td"
include "ir/tensor/Interfaces.td"
include "ir/tensor/Types.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Ts_Float : AnyTypeOf<[F32, F16, BF16, F64]>;
def Ts_SInt : AnyTypeOf<[I8, I16, I32, I64]>;
def Ts_Int : AnyTypeOf<[I8, UI8, I16, UI16, I32, UI32, I64, UI64]>;
def Ts_Number : AnyTypeOf<[Ts_Float, Ts_Int]>;
// What is moved, converted and reinterpreted, but never computed with.
def Ts_Storage : AnyTypeOf<[F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E4M3, F8E3M4, F8E4M3B11FNUZ, F8E8M0FNU,
                             F6E2M3FN, F6E3M2FN, F4E2M1FN, I<4>, UI<4>, I<2>, UI<2>]>;
def Ts_Element : AnyTypeOf<[Ts_Number, I1, Ts_Storage]>;

def Ts_Tensor : RankedTensorOf<[Ts_Element]>;
// Also strings: what is passed on and seen with other sizes, outside kernels.
def Ts_AnyTensor : RankedTensorOf<[Ts_Element, Ts_StringType]>;
def Ts_NumberOrBoolTensor : RankedTensorOf<[Ts_Number, I1]>;
def Ts_FloatTensor : RankedTensorOf<[Ts_Float]>;
def Ts_NumberTensor : RankedTensorOf<[Ts_Number]>;
def Ts_IntTensor : RankedTensorOf<[Ts_Int]>;
def Ts_BoolTensor : RankedTensorOf<[I1]>;
def Ts_IntOrBoolTensor : RankedTensorOf<[I1, Ts_Int]>;
def Ts_IndexTensor : RankedTensorOf<[I32, I64]>;

def Ts_DimArray : TypedArrayAttrBase<Ts_DimAttr, "sizes">;

class Ts_Op<string mnemonic, list<Trait> traits = []>
    : Op<Ts_Dialect, mnemonic, !listconcat([Pure], traits)>;

// The result type follows from the operands: `inferReturnTypes` is the op's shape inference, its
// builders take no types, its verifier compares.
class Ts_InferredOp<string mnemonic, list<Trait> traits = []>
    : Ts_Op<mnemonic, !listconcat([InferTypeOpAdaptor], traits)>;

defvar Indexed = DeclareOpInterfaceMethods<Ts_IndexingInterface>;

#endif
