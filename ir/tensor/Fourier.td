// Discrete Fourier transforms.
#ifndef KNAPPER_IR_TENSOR_FOURIER
#define KNAPPER_IR_TENSOR_FOURIER

include "ir/tensor/OpBase.td"

def Ts_DftOp : Ts_InferredOp<"dft", [Indexed]> {
  let summary = "the discrete Fourier transform of every row";
  let description = [{
    y[k] = sum over j < N of x[j] exp(-2 pi i j k / N), N the `length`; `inverse`: the exponent's sign is plus. No factor.
    Complex numbers lie side by side, the real part first: x and y are [rows, 2 N].
    `fromReal`: x is real, [rows, N]; of y the first H = floor(N / 2) + 1 are given, [rows, 2 H]. `toReal`: x is the first
    H of a symmetric spectrum (x[N - k] is the conjugate of x[k]), [rows, 2 H]; y is real, [rows, N]; the imaginary parts
    of x[0] and, if N is even, x[N / 2] count as zero.
    `table`: the roots of one in the order of FourierPlan.h, which a target puts there whose schedule reads it.
    C1: not both `fromReal` and `toReal`. C2: x is such. C3: a length that is known is positive. C4: the table is as the
    plan of the length has it.
  }];
  let arguments = (ins RankedTensorOf<[F32, F64]>:$input, Optional<RankedTensorOf<[F32, F64]>>:$table,
      Ts_DimAttr:$length, UnitAttr:$inverse, UnitAttr:$fromReal, UnitAttr:$toReal);
  let results = (outs RankedTensorOf<[F32, F64]>:$result);
  let assemblyFormat = [{
    $input (`table` $table^ `:` type($table))? `length` $length (`inverse` $inverse^)? (`from_real` $fromReal^)?
    (`to_real` $toReal^)? attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
}

#endif
