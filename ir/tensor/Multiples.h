// Sizes that were rounded to whole multiples, in one form.
#pragma once

#include "ir/tensor/Dim.h"

namespace knapper::ts {

/// The same number: x - mod(x, m) as m * floordiv(x, m), and x + mod(-x, m), as
/// padding to whole windows is written, as m * floordiv(x + m - 1, m). What
/// divides by the window then divides exactly. Any other sum as it is. Sums do
/// not do it by themselves: a + b - b must be a.
Dim multiplesAsProducts(Dim sum);

} // namespace knapper::ts
