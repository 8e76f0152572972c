// Spelling of a call's arguments on a tool's command line.
#pragma once

#include "op-call/source.hpp"

namespace opdock::op_call {

struct Spelling {
    const char *input;                      // the option for inputs
    Source (*parse)(std::string_view text); // parses the text after NAME=
    const char *forms;                      // the forms of that text, for messages
    enum class Outputs {
        none,
        optional,
        written
    } outputs; // outputs that --output takes; written: all of them, each with an optional file
};

inline constexpr Spelling sources_spelling{"--in", parse_source, source_forms, Spelling::Outputs::written};
inline constexpr Spelling shapes_or_sources_spelling{"--shape", parse_shape_or_source, shape_or_source_forms,
                                                     Spelling::Outputs::optional};
inline constexpr Spelling shapes_spelling{"--shape", parse_shape, shape_forms, Spelling::Outputs::none};

} // namespace opdock::op_call
