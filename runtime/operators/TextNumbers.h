// Numbers as text, and back.
#pragma once

#include "knapper/knapper.h"

namespace knapper {

int parsedShape(void *, const knapper_call *call,
                knapper_result_shape *results);
/// Plain or scientific notation, "NaN", "INF" in any case, spaces around it. A
/// text that is no number, or too large for an integer, is an error.
int parseNumbers(void *, const knapper_call *call);
/// The shortest digits that read back as the number, in Python's notation
/// ("1.0", "1e-05", "1e+16"); "NaN", "INF", "-INF".
int formatNumbers(void *, const knapper_call *call);

} // namespace knapper
