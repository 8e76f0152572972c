// The call of a file (PLUGIN_CALL_FILES) as cases with the file's own values; other cases have random ones.
#pragma once

#include <vector>

#include "cases.hpp"
#include "op-call/call_file.hpp"
#include "pinned.hpp"

namespace opdock::plugin_check {

// The file's shapes and attributes.
Pins pins_of(const op_call::CallFile &file);

// The one of the subject's tuples, which fit the inputs, that fits the outputs too; the first if none does.
std::vector<std::string> tuples_of(const op_call::CallFile &file, const Subject &subject,
                                   const op_call::Signature &signature);

// Row-major; if the call had strides, also with gaps between rows and transposed.
std::vector<Case> cases_of(const op_call::CallFile &file, const Subject &subject, const op_call::Signature &signature,
                           const Pinned &pinned, uint64_t seed);

} // namespace opdock::plugin_check
