// Where a tensor comes from or goes to, as the command line spells it.
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
    // Of random: evenly spread from the first to the second, which integers do not reach. Of spaced: the first value
    // and the last.
    std::optional<std::pair<double, double>> range = std::nullopt;
    std::vector<int64_t> strides = {}; // in elements, those of `shape` in another order; empty: row-major
};

// Whether it consists of integers that nobody said anything about: guess_ranges gives them a range.
bool wants_guess(const MadeUp &made_up);

// "dir/file.safetensors:tensor"
struct FilePart {
    enum class Format { npy, safetensors };
    Format format = Format::npy;
    std::string path;
    std::string tensor; // of .safetensors; "" takes the parameter's name
};

// What a SOURCE may be, for messages; continues after an indentation of two.
inline constexpr const char *source_forms = "SOURCE is FILE.npy, FILE.safetensors:NAME, random:bf16[64,1024],\n"
                                            "  random:i64[8]:0..100, spaced:i32[9]:0..64, zeros:DTYPE[DIMS]\n"
                                            "  or ones:DTYPE[DIMS]";

inline constexpr const char *shape_or_source_forms =
    "SOURCE is DTYPE[DIMS], short for random:DTYPE[DIMS], such as bf16[64,1024],\n"
    "  or FILE.npy, FILE.safetensors:NAME, random:i64[8]:0..100, spaced:i32[9]:0..64,\n"
    "  zeros:DTYPE[DIMS] or ones:DTYPE[DIMS]";
inline constexpr const char *shape_forms = "SOURCE is DTYPE[DIMS], such as bf16[64,1024]";

using Source = std::variant<MadeUp, FilePart>;

// All throw cli::UsageError, whose message says what was expected.
Source parse_source(std::string_view text);
// Also "bf16[64,1024]", short for random:..., whose integers need no range.
Source parse_shape_or_source(std::string_view text);
// That alone.
Source parse_shape(std::string_view text);
FilePart parse_file_part(std::string_view text);
// "[1,64]" of a tensor of these dims whose elements lie without gaps in another order of its dims; nothing for
// "packed". Throws cli::UsageError for what is none, and for strides that leave gaps or overlap.
std::vector<int64_t> parse_strides(std::string_view text, const std::vector<int64_t> &shape);

// The same for every spelling of a file's path. A link is another file than the one that it leads to, as it is
// replaced.
std::string place_of(const FilePart &file);
uint32_t parse_dtype(std::string_view name);

// "bf16[64,1024]"
std::string type_text(uint32_t dtype, const std::vector<int64_t> &shape);

} // namespace opdock::op_call
