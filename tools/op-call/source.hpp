// The source or destination of a tensor, as spelled on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace opdock::op_call {

// "random:i64[8]:0..100"
struct MadeUp {
    enum class Kind { random, spaced, zeros, ones };
    Kind kind = Kind::random;
    uint32_t dtype = 0; // packed
    std::vector<int64_t> shape;
    // For random: uniform over this range, which excludes the second number for integers. For spaced: the first and the
    // last value.
    std::optional<std::pair<double, double>> range = std::nullopt;
    std::vector<int64_t> strides = {}; // in elements, a permutation of `shape`; empty: row-major
};

// True for random integers without a given range; guess_ranges gives them one.
bool wants_guess(const MadeUp &made_up);

// "dir/file.safetensors:tensor"
struct FilePart {
    enum class Format { npy, safetensors };
    Format format = Format::npy;
    std::string path;
    std::string tensor; // of .safetensors; "" stands for the parameter's name
};

// The accepted forms of SOURCE, for messages; continuation lines are indented by two.
inline constexpr const char *source_forms = "SOURCE is FILE.npy, FILE.safetensors:NAME, random:bf16[64,1024],\n"
                                            "  random:i64[8]:0..100, spaced:i32[9]:0..64, zeros:DTYPE[DIMS]\n"
                                            "  or ones:DTYPE[DIMS]";

inline constexpr const char *shape_or_source_forms =
    "SOURCE is DTYPE[DIMS], short for random:DTYPE[DIMS], such as bf16[64,1024],\n"
    "  or FILE.npy, FILE.safetensors:NAME, random:i64[8]:0..100, spaced:i32[9]:0..64,\n"
    "  zeros:DTYPE[DIMS] or ones:DTYPE[DIMS]";
inline constexpr const char *shape_forms = "SOURCE is DTYPE[DIMS], such as bf16[64,1024]";

using Source = std::variant<MadeUp, FilePart>;

// All of these throw cli::UsageError, whose message says what was expected.
Source parse_source(std::string_view text);
// Also accepts "bf16[64,1024]", short for random:..., whose integers need no range.
Source parse_shape_or_source(std::string_view text);
// Accepts only that short form.
Source parse_shape(std::string_view text);
FilePart parse_file_part(std::string_view text);
// Parses "[1,64]", for a tensor of these dims that is packed in another order of dims; returns nothing for "packed".
// Throws cli::UsageError for any other text, and for strides that leave gaps or overlap.
std::vector<int64_t> parse_strides(std::string_view text, const std::vector<int64_t> &shape);

// The same for every spelling of a file's path. A link differs from the file it points to, because it is the link that
// gets replaced.
std::string place_of(const FilePart &file);
uint32_t parse_dtype(std::string_view name);

// "bf16[64,1024]"
std::string type_text(uint32_t dtype, const std::vector<int64_t> &shape);

} // namespace opdock::op_call
