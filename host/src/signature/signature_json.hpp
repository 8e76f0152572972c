// A signature as JSON, for programs that fill in arguments by name.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "signature/signature.hpp"

namespace opdock::core {

// {"op", "signature", "inputs": [{"name", "optional", "list", "mut"}], "outputs": [the same], "attributes": [{"name",
// "type", "default"}], "dtype_variables": [...]}. A required attribute's default is null.
nlohmann::json signature_json(const Signature &signature);

} // namespace opdock::core
