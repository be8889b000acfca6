// What the threads of a block do together beside reductions: scans, lists in
// shared memory. Operations of the tile dialect that few files need.
#pragma once

#include "ir/tile/TileDialect.h"

#define GET_OP_CLASSES
#include "ir/tile/BlockOps.h.inc"
