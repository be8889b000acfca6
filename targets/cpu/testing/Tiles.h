// For tests: machine code that uses tile registers (AMX), on any machine.
#pragma once

namespace knapper::tiles {

/// After this call tile instructions can be executed in this process: by the
/// processor if it has them, else in software, by a handler of the signal that
/// they raise. What the processor would refuse (shapes that do not fit, no
/// configuration) ends the process with a message. Slow: a signal an
/// instruction. False on processors below AVX-512, whose other code does not
/// run.
bool enable();

/// Whether that is done in software.
bool areEmulated();

/// Whether this thread's tile registers are in use, as far as they are
/// emulated: false after every kernel.
bool inUse();

} // namespace knapper::tiles
