// Strings in parts, and words without those that say nothing.
#pragma once

#include "knapper/knapper.h"

namespace knapper {

int splitShape(void *, const knapper_call *call, knapper_result_shape *results);
int split(void *, const knapper_call *call);

int normalizedShape(void *, const knapper_call *call,
                    knapper_result_shape *results);
int normalize(void *, const knapper_call *call);

} // namespace knapper
