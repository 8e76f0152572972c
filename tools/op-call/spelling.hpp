// How a tool's command line says what a call needs.
#pragma once

#include "op-call/source.hpp"

namespace opdock::op_call {

struct Spelling {
    const char *input;                      // the option for an input
    Source (*parse)(std::string_view text); // what follows NAME=
    const char *forms;                      // of that, for messages
    bool takes_outputs = false;             // whether there is --out
};

inline constexpr Spelling sources_spelling{"--in", parse_source, source_forms, true};
inline constexpr Spelling shapes_or_sources_spelling{"--shape", parse_shape_or_source, shape_or_source_forms};
inline constexpr Spelling shapes_spelling{"--shape", parse_shape, shape_forms};

} // namespace opdock::op_call
