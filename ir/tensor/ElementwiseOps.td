// Elementwise ops: every operand has the shape of the result.
#ifndef KNAPPER_IR_TENSOR_ELEMENTWISEOPS
#define KNAPPER_IR_TENSOR_ELEMENTWISEOPS

include "ir/tensor/OpBase.td"

defvar ElementwiseTraits = [DeclareOpInterfaceMethods<Ts_ElementwiseInterface, ["elementFlops"]>, Indexed];

class Ts_UnaryOp<string mnemonic, Type type, string text, int flops>
    : Ts_Op<mnemonic, !listconcat(ElementwiseTraits, [SameOperandsAndResultType])> {
  let summary = text;
  let arguments = (ins type:$input);
  let results = (outs type:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let extraClassDefinition = "int64_t $cppClass::elementFlops() { return " # flops # "; }";
}

class Ts_BinaryOp<string mnemonic, Type type, string text, int flops = 1, list<Trait> traits = []>
    : Ts_Op<mnemonic, !listconcat(ElementwiseTraits, [SameOperandsAndResultType], traits)> {
  let summary = text;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
  let extraClassDefinition = "int64_t $cppClass::elementFlops() { return " # flops # "; }";
}

def Ts_NegOp : Ts_UnaryOp<"neg", Ts_NumberTensor, "-x; integers wrap", 1>;
def Ts_AbsOp : Ts_UnaryOp<"abs", Ts_NumberTensor, "|x|; the smallest integer wraps", 1>;
def Ts_SignOp : Ts_UnaryOp<"sign", Ts_NumberTensor, "-1, 0 or 1; NaN stays", 2>;
def Ts_ExpOp : Ts_UnaryOp<"exp", Ts_FloatTensor, "e^x", 15>;
def Ts_Expm1Op : Ts_UnaryOp<"expm1", Ts_FloatTensor, "e^x - 1, accurate near 0", 18>;
def Ts_LogOp : Ts_UnaryOp<"log", Ts_FloatTensor, "natural logarithm", 15>;
def Ts_Log1pOp : Ts_UnaryOp<"log1p", Ts_FloatTensor, "log(1 + x), accurate near 0", 18>;
def Ts_SqrtOp : Ts_UnaryOp<"sqrt", Ts_FloatTensor, "square root, correctly rounded", 4>;
def Ts_RsqrtOp : Ts_UnaryOp<"rsqrt", Ts_FloatTensor, "1 / sqrt(x)", 6>;
def Ts_TanhOp : Ts_UnaryOp<"tanh", Ts_FloatTensor, "hyperbolic tangent", 15>;
def Ts_SigmoidOp : Ts_UnaryOp<"sigmoid", Ts_FloatTensor, "1 / (1 + e^-x), without overflow", 16>;
def Ts_SoftplusOp : Ts_UnaryOp<"softplus", Ts_FloatTensor, "log(1 + e^x), without overflow", 30>;
def Ts_ErfOp : Ts_UnaryOp<"erf", Ts_FloatTensor, "error function", 15>;
def Ts_SinOp : Ts_UnaryOp<"sin", Ts_FloatTensor, "sine, radians", 15>;
def Ts_CosOp : Ts_UnaryOp<"cos", Ts_FloatTensor, "cosine, radians", 15>;
def Ts_TanOp : Ts_UnaryOp<"tan", Ts_FloatTensor, "tangent, radians", 20>;
def Ts_AsinOp : Ts_UnaryOp<"asin", Ts_FloatTensor, "inverse sine", 20>;
def Ts_AcosOp : Ts_UnaryOp<"acos", Ts_FloatTensor, "inverse cosine", 20>;
def Ts_AtanOp : Ts_UnaryOp<"atan", Ts_FloatTensor, "inverse tangent", 20>;
def Ts_SinhOp : Ts_UnaryOp<"sinh", Ts_FloatTensor, "hyperbolic sine", 20>;
def Ts_CoshOp : Ts_UnaryOp<"cosh", Ts_FloatTensor, "hyperbolic cosine", 20>;
def Ts_AsinhOp : Ts_UnaryOp<"asinh", Ts_FloatTensor, "inverse hyperbolic sine", 25>;
def Ts_AcoshOp : Ts_UnaryOp<"acosh", Ts_FloatTensor, "inverse hyperbolic cosine", 25>;
def Ts_AtanhOp : Ts_UnaryOp<"atanh", Ts_FloatTensor, "inverse hyperbolic tangent", 25>;
def Ts_CeilOp : Ts_UnaryOp<"ceil", Ts_FloatTensor, "towards plus infinity", 1>;
def Ts_FloorOp : Ts_UnaryOp<"floor", Ts_FloatTensor, "towards minus infinity", 1>;
def Ts_RoundEvenOp : Ts_UnaryOp<"round_even", Ts_FloatTensor, "to nearest, ties to even", 1>;
def Ts_TruncOp : Ts_UnaryOp<"trunc", Ts_FloatTensor, "towards zero", 1>;
def Ts_NotOp : Ts_UnaryOp<"not", Ts_IntOrBoolTensor, "complement of every bit; logical not for i1", 1>;

def Ts_AddOp : Ts_BinaryOp<"add", Ts_NumberTensor, "x + y; integers wrap", 1, [Commutative]>;
def Ts_SubOp : Ts_BinaryOp<"sub", Ts_NumberTensor, "x - y; integers wrap", 1>;
def Ts_MulOp : Ts_BinaryOp<"mul", Ts_NumberTensor, "x * y; integers wrap", 1, [Commutative]>;
def Ts_DivOp : Ts_BinaryOp<"div", Ts_NumberTensor, "x / y; integers truncate, division by zero gives 0", 4>;
def Ts_ModOp : Ts_BinaryOp<"mod", Ts_NumberTensor, "remainder with the sign of the divisor (Python); integer division by zero gives 0", 6>;
def Ts_RemOp : Ts_BinaryOp<"rem", Ts_NumberTensor, "remainder with the sign of the dividend (C fmod)", 6>;
def Ts_PowOp : Ts_BinaryOp<"pow", Ts_NumberTensor, "x to the y; integers by repeated squaring, negative integer exponents truncate", 30>;
def Ts_MaxOp : Ts_BinaryOp<"max", Ts_NumberTensor, "larger one; NaN if either is", 1, [Commutative]>;
def Ts_MinOp : Ts_BinaryOp<"min", Ts_NumberTensor, "smaller one; NaN if either is", 1, [Commutative]>;
def Ts_Atan2Op : Ts_BinaryOp<"atan2", Ts_FloatTensor, "angle of the point (y, x), lhs is y", 25>;
def Ts_AndOp : Ts_BinaryOp<"and", Ts_IntOrBoolTensor, "bitwise and", 1, [Commutative]>;
def Ts_OrOp : Ts_BinaryOp<"or", Ts_IntOrBoolTensor, "bitwise or", 1, [Commutative]>;
def Ts_XorOp : Ts_BinaryOp<"xor", Ts_IntOrBoolTensor, "bitwise exclusive or", 1, [Commutative]>;
def Ts_ShiftLeftOp : Ts_BinaryOp<"shift_left", Ts_IntTensor, "x << y; a shift of the width or more gives 0", 2>;
def Ts_ShiftRightOp : Ts_BinaryOp<"shift_right", Ts_IntTensor, "x >> y, filled with zeros; a shift of the width or more gives 0", 2>;

def Ts_CompareOp : Ts_InferredOp<"compare", !listconcat(ElementwiseTraits, [SameTypeOperands])> {
  let summary = "x <predicate> y as i1; comparisons with NaN are false, ne is true";
  let arguments = (ins Ts_ComparePredicateAttr:$predicate, Ts_NumberOrBoolTensor:$lhs,
                       Ts_NumberOrBoolTensor:$rhs);
  let results = (outs Ts_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Ts_SelectOp : Ts_InferredOp<"select", !listconcat(ElementwiseTraits, [AllTypesMatch<["on_true", "on_false"]>])> {
  let summary = "condition ? x : y";
  let description = "C1: all operands have one shape. C2: x and y have one type, the result's.";
  let arguments = (ins Ts_BoolTensor:$condition, Ts_Tensor:$on_true, Ts_Tensor:$on_false);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($on_true)";
  let hasVerifier = 1;
}

def Ts_ConvertOp : Ts_Op<"convert", ElementwiseTraits> {
  let summary = "element type conversion";
  let description = [{
    Float to float rounds to nearest even; float to integer truncates, saturates, NaN gives 0; integer to integer
    wraps; anything to i1 is x != 0.
    To a float of eight or four bits: what rounds beyond the largest number becomes it, or, without `saturate`,
    infinity where the type has one and NaN where not. f4E2M1FN has neither: it always saturates, NaN gives 0.
    f8E8M0FNU holds the powers of two from 2^-127 to 2^127: |x| as f32 goes to the one that `rounding` says (nearest:
    ties up), what is smaller or larger to the least or the largest, or, without `saturate`, to NaN.
    C1: operand and result have the same dims. C2: `saturate` and `rounding` stand only where they mean something.
  }];
  let arguments = (ins Ts_Tensor:$input, DefaultValuedAttr<BoolAttr, "true">:$saturate,
                       DefaultValuedAttr<Ts_RoundingAttr, "::knapper::ts::Rounding::nearest">:$rounding);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_BitcastOp : Ts_Op<"bitcast", ElementwiseTraits> {
  let summary = "the bits of an element seen as another type of the same width";
  let description = [{
    A byte that becomes i1 is x != 0. A signalling NaN of f16 and bf16 may come out quiet.
    C1: operand and result have the same dims. C2: their elements have as many bits; i1 counts as eight.
  }];
  let arguments = (ins Ts_Tensor:$input);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_IsNanOp : Ts_InferredOp<"is_nan", ElementwiseTraits> {
  let summary = "x is NaN";
  let arguments = (ins Ts_FloatTensor:$input);
  let results = (outs Ts_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Ts_IsInfOp : Ts_InferredOp<"is_inf", ElementwiseTraits> {
  let summary = "x is infinite, of the signs asked for";
  let arguments = (ins Ts_FloatTensor:$input, DefaultValuedAttr<BoolAttr, "true">:$positive,
                       DefaultValuedAttr<BoolAttr, "true">:$negative);
  let results = (outs Ts_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Ts_GeluOp : Ts_Op<"gelu", !listconcat(ElementwiseTraits, [SameOperandsAndResultType])> {
  let summary = "x * Phi(x), by erf or by the tanh approximation";
  let description = "A composite: `decompose` gives erf or tanh form.";
  let arguments = (ins Ts_FloatTensor:$input, DefaultValuedAttr<BoolAttr, "false">:$tanh);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

#endif
