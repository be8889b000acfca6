// What nearly every file of the front ends and of the pipeline includes.
#include "cmake/compiler_pch.h"
#include "frontends/common/NodeBuilder.h"
#include "runtime/artefact/artefact_generated.h"
#include "runtime/operators/Operator.h"

#include <nlohmann/json.hpp>
