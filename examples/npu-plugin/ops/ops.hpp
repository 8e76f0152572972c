#pragma once

#include "opdock/plugin.hpp"

namespace npu {

opdock::Status relu(const opdock::Call &call);

} // namespace npu
