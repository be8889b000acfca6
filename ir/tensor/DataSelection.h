//===- DataSelection.h - ts.true_places and ts.non_max_suppression -----===//
//
// Apart from Dialect.h, which everything includes, because few places know
// them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"

#define GET_OP_CLASSES
#include "ir/tensor/DataSelection.h.inc"
