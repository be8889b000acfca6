// The domain of operators that come with the runtime.
#pragma once

namespace knapper {

/// Nobody else registers into it. They compute and do nothing else.
inline constexpr char kHostDomain[] = "knapper";

} // namespace knapper
