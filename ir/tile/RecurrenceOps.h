// A recurrent cell and all of its steps as one operation: few files need it.
#pragma once

#include "ir/tile/TileDialect.h"

#define GET_OP_CLASSES
#include "ir/tile/RecurrenceOps.h.inc"
