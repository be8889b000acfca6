// Every dialect and pass of the compiler, for tools that take any of them.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace knapper {

/// Adds our dialects and the upstream ones that they are used with.
void registerAllKnapperDialects(mlir::DialectRegistry &registry);

/// Registers our passes and pipelines with MLIR's global registry. Call once,
/// before command lines are parsed.
void registerAllKnapperPasses();

} // namespace knapper
