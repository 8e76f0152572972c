// A sequence of calls of a registry as text, so that an input can be read, written by hand and mutated by words. A line
// of one word begins a call or a knob; a line "FIELD VALUE" sets a field of it:
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
// What is not set is zero or null, but for struct_size, kind and the type of a knob, which are sound. A line "kernel"
// sets that function; after "all_functions" those are set that are not named. "null" passes null in place of the
// struct, "no_knobs" in place of the knobs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/plugin.h"

namespace opdock::fuzz {

// One call and what it is given, or a knob.
struct ScriptItem {
    std::string word;
    std::map<std::string, std::string> fields;
    std::vector<ScriptItem> knobs; // of an impl
};

std::vector<ScriptItem> read_script(std::string_view text);

// Calls the registry as the script says; what it passes is what a C program may pass: strings end, and a struct lies in
// memory of as many bytes as its struct_size says. Returns the script's "return" or OPDOCK_OK.
opdock_status run_script(const std::vector<ScriptItem> &script, opdock_registry *registry);

} // namespace opdock::fuzz
