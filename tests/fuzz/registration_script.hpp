// A sequence of registry calls as text, so that an input can be read, written by hand and mutated word by word. A line
// of one word begins a call or a knob; a line "FIELD VALUE" sets one of its fields:
//
//     op
//     signature acme.f(x: T[n]) -> (y: T[n])
//     impl
//     op acme.f
//     impl_id vendor.acme
//     kind 2
//     device cpu
//     kernel
//     knob
//     name block
//     maximum 64
//     default 8
//
// Fields that are not set are zero or null, except struct_size, kind and a knob's type, which have valid values. A line
// "kernel" sets that function; after "all_functions", every function that is not named is set too. "null" passes null
// instead of the struct, "no_knobs" instead of the knobs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/plugin.h"

namespace opdock::fuzz {

// One call with its fields, or one knob.
struct ScriptItem {
    std::string word;
    std::map<std::string, std::string> fields;
    std::vector<ScriptItem> knobs; // of an impl
};

std::vector<ScriptItem> read_script(std::string_view text);

// Calls the registry as the script says, with arguments that a C program could pass: strings are terminated, and each
// struct has as much memory as its struct_size states. Returns the script's "return", or OPDOCK_OK.
opdock_status run_script(const std::vector<ScriptItem> &script, opdock_registry *registry);

} // namespace opdock::fuzz
