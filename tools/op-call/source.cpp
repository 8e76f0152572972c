#include "op-call/source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "cli/exit.hpp"
#include "op-call/element.hpp"
#include "opdock/cpp/dtype.hpp"
#include "tensor_files.hpp"

namespace opdock::op_call {
namespace {

[[noreturn]] void malformed(std::string_view text, const std::string &expected) {
    throw cli::UsageError("'" + std::string(text) + "': expected " + expected);
}

template<class Number>
bool parse_number(std::string_view text, Number &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

// "64,1024" or "".
std::vector<int64_t> parse_dims(std::string_view text, std::string_view whole) {
    std::vector<int64_t> shape;
    while (!text.empty()) {
        const size_t comma = text.find(',');
        int64_t dim = 0;
        if (!parse_number(text.substr(0, comma), dim) || dim < 0 || comma + 1 == text.size()) {
            malformed(whole, "dims such as [64,1024], none of them negative");
        }
        shape.push_back(dim);
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return shape;
}

std::pair<double, double> parse_range(std::string_view text, uint32_t dtype, std::string_view whole) {
    const size_t dots = text.find("..");
    double low = 0;
    double high = 0;
    if (dots == std::string_view::npos || !parse_number(text.substr(0, dots), low) ||
        !parse_number(text.substr(dots + 2), high)) {
        malformed(whole, "a range such as 0..100 after the dims");
    }
    if (!is_integer(dtype)) {
        if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
            malformed(whole, "a range of finite numbers whose end is not below its start");
        }
        return {low, high};
    }
    const auto [least, past] = integers_of(dtype);
    if (!(low >= least && high <= past && low < high) || low != std::trunc(low) || high != std::trunc(high)) {
        malformed(whole, "a range of whole numbers that " + std::string(files::dtype_name(dtype)) +
                             " can hold (at most 2^53), with its end above its start");
    }
    return {low, high};
}

std::optional<MadeUp::Kind> made_up_kind(std::string_view word) {
    if (word == "random") {
        return MadeUp::Kind::random;
    }
    if (word == "spaced") {
        return MadeUp::Kind::spaced;
    }
    if (word == "zeros") {
        return MadeUp::Kind::zeros;
    }
    if (word == "ones") {
        return MadeUp::Kind::ones;
    }
    return std::nullopt;
}

// `rest` is the text after "random:".
MadeUp parse_made_up(MadeUp::Kind kind, std::string_view rest, std::string_view whole, bool may_guess = false) {
    const size_t open = rest.find('[');
    const size_t close = rest.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
        malformed(whole, "a dtype and dims, such as random:bf16[64,1024]");
    }
    MadeUp made_up{kind, parse_dtype(rest.substr(0, open)), parse_dims(rest.substr(open + 1, close - open - 1), whole)};
    const std::string_view range = rest.substr(close + 1);
    if (!range.empty()) {
        const bool has_range = kind == MadeUp::Kind::random || kind == MadeUp::Kind::spaced;
        if (!has_range || range.front() != ':') {
            malformed(whole, has_range ? "':' and a range after the dims" : "nothing after the dims");
        }
        made_up.range = parse_range(range.substr(1), made_up.dtype, whole);
        if (kind == MadeUp::Kind::spaced && is_integer(made_up.dtype) &&
            made_up.range->second == integers_of(made_up.dtype).second) {
            malformed(whole, "a last number that " + std::string(files::dtype_name(made_up.dtype)) + " can hold");
        }
    } else if (kind == MadeUp::Kind::spaced) {
        malformed(whole, "the first and the last number, such as " + std::string(whole) + ":0..100");
    } else if (!may_guess && wants_guess(made_up)) {
        malformed(whole, "a range for random integers, such as " + std::string(whole) + ":0..100");
    }
    return made_up;
}

// True if it begins like "bf16[". No path to a supported file does, except one without a folder.
bool begins_as_shape(std::string_view text) {
    return std::any_of(std::begin(named_dtypes), std::end(named_dtypes), [&](const NamedDtype &dtype) {
        const std::string_view name = dtype.name;
        return text.starts_with(name) && text.substr(name.size()).starts_with('[');
    });
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

} // namespace

uint32_t parse_dtype(std::string_view name) {
    for (const NamedDtype &known : named_dtypes) {
        if (known.name == name) {
            return known.packed;
        }
    }
    throw cli::UsageError("'" + std::string(name) + "' is not a dtype; expected " OPDOCK_DTYPE_NAMES);
}

FilePart parse_file_part(std::string_view text) {
    constexpr std::string_view safetensors = ".safetensors";
    if (ends_with(text, ".npy")) {
        return {FilePart::Format::npy, std::string(text), ""};
    }
    if (ends_with(text, safetensors)) {
        return {FilePart::Format::safetensors, std::string(text), ""};
    }
    const size_t at = text.rfind(std::string(safetensors) + ":");
    if (at == std::string_view::npos || at == 0 || at + safetensors.size() + 1 == text.size()) {
        malformed(text, "FILE.npy, FILE.safetensors or FILE.safetensors:NAME");
    }
    return {FilePart::Format::safetensors, std::string(text.substr(0, at + safetensors.size())),
            std::string(text.substr(at + safetensors.size() + 1))};
}

std::vector<int64_t> parse_strides(std::string_view text, const std::vector<int64_t> &shape) {
    if (text == "packed") {
        return {};
    }
    std::vector<int64_t> strides;
    std::string_view rest = text;
    if (!rest.starts_with('[') || !rest.ends_with(']')) {
        malformed(text, "strides such as [1,64], or packed");
    }
    rest.remove_prefix(1);
    rest.remove_suffix(1);
    while (!rest.empty()) {
        const size_t comma = rest.find(',');
        int64_t stride = 0;
        if (!parse_number(rest.substr(0, comma), stride)) {
            malformed(text, "strides such as [1,64], or packed");
        }
        strides.push_back(stride);
        rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    if (strides.size() != shape.size()) {
        malformed(text, "a stride for each of " + std::to_string(shape.size()) + " dims");
    }
    std::vector<size_t> order(shape.size()); // the dims, innermost first
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
    int64_t packed = 1;
    for (const size_t d : order) {
        if (shape[d] != 1 && strides[d] != packed) {
            malformed(text, "strides of a tensor without gaps, with its dims in any order; tools support no others");
        }
        packed *= std::max<int64_t>(shape[d], 1);
    }
    return strides;
}

std::string place_of(const FilePart &file) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(file.path);
    const std::filesystem::path folder = std::filesystem::weakly_canonical(path.parent_path(), error);
    return error ? file.path : (folder / path.filename()).string();
}

Source parse_source(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
        if (const auto kind = made_up_kind(text.substr(0, colon))) {
            return parse_made_up(*kind, text.substr(colon + 1), text);
        }
    }
    try {
        return parse_file_part(text);
    } catch (const cli::UsageError &) {
        malformed(text, "FILE.npy, FILE.safetensors:NAME, random:bf16[64,1024], zeros:... or ones:...");
    }
}

Source parse_shape_or_source(std::string_view text) {
    const size_t open = text.find('[');
    const bool is_shape =
        begins_as_shape(text) || (open != std::string_view::npos && text.ends_with(']') &&
                                  text.substr(0, open).find_first_of(":./") == std::string_view::npos);
    return is_shape ? parse_made_up(MadeUp::Kind::random, text, text, true) : parse_source(text);
}

Source parse_shape(std::string_view text) {
    MadeUp shape = parse_made_up(MadeUp::Kind::random, text, text, true);
    if (shape.range) {
        malformed(text, "nothing after the dims");
    }
    return shape;
}

bool wants_guess(const MadeUp &made_up) {
    return made_up.kind == MadeUp::Kind::random && !made_up.range && is_integer(made_up.dtype) &&
           made_up.dtype != OPDOCK_BOOL;
}

std::string type_text(uint32_t dtype, const std::vector<int64_t> &shape) {
    std::string dims;
    for (const int64_t dim : shape) {
        dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    }
    return std::string(files::dtype_name(dtype)) + "[" + dims + "]";
}

} // namespace opdock::op_call
