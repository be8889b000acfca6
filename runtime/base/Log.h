// Messages to whoever embeds us: silent unless a callback is set.
#pragma once

#include "knapper/knapper.h"

#include <string_view>

namespace knapper {

enum class LogLevel { off = 0, error = 1, warning = 2, info = 3, debug = 4 };

using LogCallback = knapper_log_callback;

/// Process-wide: `callback` gets every message up to `level`, from any thread;
/// nullptr removes it. After the call returns the former callback is no longer
/// running and will not be called again.
void setLogCallback(LogCallback callback, void *user, LogLevel level);

/// True when a message of `level` would reach somebody: guards costly texts.
bool logEnabled(LogLevel level);

void log(LogLevel level, std::string_view text);

} // namespace knapper
