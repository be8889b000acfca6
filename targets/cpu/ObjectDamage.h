// Object files that nobody of ours wrote.
#pragma once

#include "llvm/Object/ELF.h"

#include <string>

namespace knapper {

/// What is wrong in the tables of a relocatable object for x86-64 that objcopy
/// and lld take on trust, and would read or write outside the file for; ""
/// where nothing is.
std::string damageOf(const llvm::object::ELF64LEFile &file);

} // namespace knapper
