// How a tool's command line says what a call needs.
#pragma once

#include "op-call/source.hpp"

namespace opdock::op_call {

struct Spelling {
    const char *input;                      // the option for an input
    Source (*parse)(std::string_view text); // what follows NAME=
    const char *forms;                      // of that, for messages
    const char *output = nullptr;           // the option for an output, null where there is none
    bool writes_outputs = false;            // whether it takes every output, and a file; else optional ones alone
};

inline constexpr Spelling sources_spelling{"--in", parse_source, source_forms, "--out", true};
inline constexpr Spelling shapes_or_sources_spelling{"--shape", parse_shape_or_source, shape_or_source_forms,
                                                     "--output"};
inline constexpr Spelling shapes_spelling{"--shape", parse_shape, shape_forms};

} // namespace opdock::op_call
