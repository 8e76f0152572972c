// Copies and checks the fields of registered structs one by one. All functions throw Rejected with a message that names
// the field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "files/reject.hpp"
#include "load/registration.hpp"

namespace opdock::core {

// A string without a NUL within this many bytes is taken for an invalid pointer.
inline constexpr size_t max_text_bytes = 4096;

// Copies a string field; null gives the empty string.
std::string copy_text(const char *field, const char *text);

// Like copy_text, for a single line without control characters, which messages can quote.
std::string copy_line(const char *field, const char *text);

// A name: not empty, printable ASCII, at most 128 bytes.
std::string copy_name(const char *field, const char *text);

// A name used in policies and logs: no policy separators, no spaces.
std::string copy_identifier(const char *field, const char *text);

std::vector<std::string> split(std::string_view text, char separator);

// Parses "f32,f16|bf16,bf16": tuples of dtypes for the signature's variables. The first rejection in a registration
// because of an unknown dtype lists all dtypes, unless `dtypes_are_told`.
std::vector<std::vector<uint32_t>> parse_dtypes(const std::string &text, const Signature &signature,
                                                bool &dtypes_are_told);

// `what` names the owner in messages.
Kind kind_of(const std::string &what, uint32_t kind);

Knob copy_knob(const opdock_knob *given);

// Copies the fields of a struct that both sides know; fields that its writer did not know are zero. The writer must
// know the first `needed` bytes. All later fields of these structs have pointer size, so a size that ends inside one
// would give half a pointer.
template<class T>
T known_fields(const char *type, const T &given, uint32_t needed) {
    if (given.struct_size < needed) {
        throw Rejected(RejectCode::bad_field,
                       fmt::format("{}.struct_size is {}; this ABI needs at least {} (OPDOCK_STRUCT_SIZE sets it)",
                                   type, given.struct_size, needed));
    }
    if (given.struct_size < sizeof(T) && given.struct_size % sizeof(void *) != 0) {
        throw Rejected(RejectCode::bad_field, fmt::format("{}.struct_size is {}, which ends inside a field "
                                                          "(OPDOCK_STRUCT_SIZE sets it)",
                                                          type, given.struct_size));
    }
    T known = {};
    std::memcpy(&known, &given, std::min<size_t>(given.struct_size, sizeof known));
    return known;
}

} // namespace opdock::core
