// Operators on strings that every runtime has, of the domain "knapper". The
// ONNX front end makes what models ask for out of them
// (frontends/onnx/Strings.h).
#pragma once

#include "knapper/knapper.h"
#include "runtime/operators/HostDomain.h"

#include <vector>

namespace knapper {

/// Their definitions. x and y are strings of any shape:
///   StringConstant  values[...], shape[...] -> strings of that shape
///   StringSelect    x, index i64: x flat, by position -> strings of index'
///   shape StringJoin      x, y, ...: all of them flat, one after the other
///   StringLookup    x; keys[...] sorted: position of the equal key, else -1
///   StringEqual     x, y of one shape -> i1
///   StringConcat    x, y of one shape: y's bytes after x's
///   StringSplit     x; delimiter, maxsplit -> strings [x.., most], i64 [x..]
///   StringNormalize x [n] or [1, n]; case_change_action, is_case_sensitive,
///                   stopwords[...]: fewer strings, one empty one for none
///   StringParse     x -> numbers; type: f32, f64, i64 or u64 (a knapper_dtype)
///   StringFormat    f32, f64, i64 or u64 -> strings
std::vector<knapper_operator> textOperators();

} // namespace knapper
