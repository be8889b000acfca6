// Matmuls with packed integers, as one operation: few files need it.
#pragma once

#include "ir/tile/TileDialect.h"

#define GET_OP_CLASSES
#include "ir/tile/PackedOps.h.inc"
