// Operations on texts of chat templates that keep in mind which bytes are the
// user's: those never become control tokens.
#pragma once

#include "jinja/string.h"

namespace knapper::serving {

/// What `+` makes of them. Where one is marked as safe the other is escaped, as
/// Jinja2's Markup does.
jinja::string concatenated(const jinja::string &left,
                           const jinja::string &right);
/// `by` in each place of `old`, which is not empty; it is the user's where any
/// byte of what it replaces is.
jinja::string replaced(const jinja::string &text, const std::string &old,
                       const jinja::string &by);

} // namespace knapper::serving
