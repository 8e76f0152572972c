// The fields of what a plugin registers, copied and checked one by one. All of these throw Rejected with a message that
// names the field.
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

// A string without an end within so many bytes is a pointer to something else.
inline constexpr size_t max_text_bytes = 4096;

// A string of a struct's field; the empty string for null.
std::string copy_text(const char *field, const char *text);

// The same, on one line without control characters: what messages quote.
std::string copy_line(const char *field, const char *text);

// A name: not empty, printable ASCII, at most 128 bytes.
std::string copy_name(const char *field, const char *text);

// A name that policies and logs spell: no separators of policies, no spaces.
std::string copy_identifier(const char *field, const char *text);

std::vector<std::string> split(std::string_view text, char separator);

// "f32,f16|bf16,bf16": tuples of dtypes that the signature's variables may have. The first rejection of a registration
// that has a word which is no dtype lists them all, unless `dtypes_are_told`.
std::vector<std::vector<uint32_t>> parse_dtypes(const std::string &text, const Signature &signature,
                                                bool &dtypes_are_told);

// `what` is what has it, for the message.
Kind kind_of(const std::string &what, uint32_t kind);

Knob copy_knob(const opdock_knob *given);

// The fields of a struct that both sides know, zero for those its writer did not: it must know the first `needed`
// bytes. Behind those, each of these structs has fields of a pointer's size alone; a size that ends inside one would
// give half a pointer.
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
