// The words of a PTX module (PTX ISA, chapter 4), as far as renaming what it
// defines needs them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace knapper {

/// A word or a character; `text` refers to the module.
struct PtxToken {
  enum class Kind {
    name,      ///< of a variable, function, register, label, or an opcode
    directive, ///< ".entry", ".u64"
    text,      ///< "in quotes"
    other,     ///< a number or a character
  };
  Kind kind;
  llvm::StringRef text;
  bool is(llvm::StringRef other) const { return text == other; }
};

/// The module with blanks for its comments, which may hold anything.
std::string withoutPtxComments(llvm::StringRef module);

/// Of a module without comments. What follows an opcode is a directive of its
/// own: "add", ".s32".
std::vector<PtxToken> ptxTokens(llvm::StringRef module);

} // namespace knapper
