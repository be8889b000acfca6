// What LLVM ends the process for: here it ends the compile.
#pragma once

namespace knapper {

/// From the first call on, in the whole process: LLVM's out of memory throws
/// std::bad_alloc, its fatal errors throw std::runtime_error with their text.
/// Who calls into the compiler catches both (capi/Handles.h). Any thread.
void throwLlvmErrors();

} // namespace knapper
