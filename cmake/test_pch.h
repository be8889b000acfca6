// What nearly every test without MLIR includes.
#include "cmake/plain_pch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
