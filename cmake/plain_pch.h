// What nearly every file over JSON includes.
#include "cmake/runtime_pch.h"

#include <nlohmann/json.hpp>
