//===- Fourier.h - ts.dft -------------------------------------------------===//
//
// Apart from Dialect.h, which everything includes, because few places know it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/Fourier.h.inc"
