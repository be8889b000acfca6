// Products of bytes lane by lane, an operation of the tile dialect that few
// files need.
#pragma once

#include "ir/tile/TileDialect.h"

#define GET_OP_CLASSES
#include "ir/tile/ByteOps.h.inc"
