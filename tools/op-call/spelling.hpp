// How a tool's command line says what a call needs.
#pragma once

#include "op-call/source.hpp"

namespace opdock::op_call {

struct Spelling {
    const char *input;                      // the option for an input
    Source (*parse)(std::string_view text); // what follows NAME=
    const char *forms;                      // of that, for messages
    enum class Outputs {
        none,
        optional,
        written
    } outputs; // which --output takes; written: all, each with a file or not
};

inline constexpr Spelling sources_spelling{"--in", parse_source, source_forms, Spelling::Outputs::written};
inline constexpr Spelling shapes_or_sources_spelling{"--shape", parse_shape_or_source, shape_or_source_forms,
                                                     Spelling::Outputs::optional};
inline constexpr Spelling shapes_spelling{"--shape", parse_shape, shape_forms, Spelling::Outputs::none};

} // namespace opdock::op_call
