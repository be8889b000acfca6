//===- CacheKey.h - What an artefact is made from -------------------------===//
#pragma once

#include "compiler/cache/Cache.h"
#include "compiler/pipeline/Compile.h"

namespace knapper {

/// True when the compile may be answered from the cache and kept in it: a model
/// whose files are known, compiled from end to end without looking inside.
Expected<bool> isCacheable(const CompileInput &input, const Options &options);

/// Hashes of the model and of its external data, the model's file name, this
/// compiler and every option that changes the result. `input` is what
/// withUserKernels gives. UserError for a model that cannot be read.
Expected<CacheKey> cacheKey(const CompileInput &input, const Options &options);

/// compileModel without the cache.
using CompileFn = Expected<int> (*)(const CompileInput &, const Options &,
                                    const std::string &outputPath,
                                    CompileStats *, const ProgressFn &);
/// Answers from the cache, or compiles and keeps the result.
Expected<int>
compileThroughCache(const CompileInput &input, const Options &options,
                    const std::string &outputPath, CompileStats &stats,
                    const ProgressFn &progress, CompileFn compile);

} // namespace knapper
