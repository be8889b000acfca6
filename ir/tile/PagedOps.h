// Attention over keys in blocks of a pool, as one operation: few files need it.
#pragma once

#include "ir/tile/TileDialect.h"

#define GET_OP_CLASSES
#include "ir/tile/PagedOps.h.inc"
