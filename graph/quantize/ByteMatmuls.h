//===- ByteMatmuls.h - Matmuls of bytes on floating-point units -----------===//
//
//   dot(u8 or i8, u8 or i8) -> i32   becomes a sum of dots of bf16 in f32, each
//                                    converted to i32
//
// for targets whose matmuls of bytes have no instructions of their own here. A
// byte is exact in bf16, and f32 holds every partial sum of a slice, in
// whatever order it is formed: a slice of K is so short that they stay below
// 2^24. The slices are added in i32, which wraps as the matmul itself does.
// Matmuls with more than one contracting dim, or a symbolic one, stay.
//
//   conv(u8 or i8, u8 or i8) -> i32  likewise, in f32, in slices of channels
//
// Those of which a window of one channel is too large for a slice stay, and
// grouped ones of more than one slice.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

void expandByteMatmuls(mlir::func::FuncOp function);

} // namespace knapper
