#include "observe/call_files.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/replace_file.hpp"
#include "files/safetensors.hpp"
#include "load/token.hpp"
#include "opdock_version.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

std::string text_of(const json &value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::map<std::string, std::string> metadata_of(const CallFile &call) {
    json attributes = json::object();
    for (const CallText::Attribute &attribute : call.text.attributes) {
        attributes[attribute.name] = attribute.value;
    }
    json strides = json::object();
    for (const CallFile::Strides &one : call.strides) {
        strides[one.name] = one.strides;
    }
    std::map<std::string, std::string> metadata = {{"format", "opdock.call/1"},
                                                   {"opdock", version},
                                                   {"op", call.text.op},
                                                   {"device", call.text.device},
                                                   {"implementation", call.text.impl_id},
                                                   {"attributes", text_of(attributes)},
                                                   {"outputs", text_of(call.text.wanted_outputs)},
                                                   {"strides", text_of(strides)}};
    const auto add = [&](const char *name, const std::string &value) {
        if (!value.empty()) {
            metadata[name] = value;
        }
    };
    add("config", call.text.config);
    add("shadow", call.shadow);
    add("difference", call.difference);
    return metadata;
}

// Ids may contain any printable character.
std::string as_file_name(std::string text) {
    constexpr std::string_view kept = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
    std::replace_if(
        text.begin(), text.end(), [&](char c) { return kept.find(c) == std::string_view::npos; }, '-');
    return text;
}

// Parses "3" or "3..5"; returns false for anything else.
bool read_numbers(std::string_view text, CallNumbers &numbers) {
    const char *const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, numbers.first);
    numbers.last = numbers.first;
    if (first.ec != std::errc() || numbers.first == 0 || first.ptr == end) {
        return first.ec == std::errc() && numbers.first != 0;
    }
    constexpr std::string_view dots = "..";
    const std::string_view rest(first.ptr, static_cast<size_t>(end - first.ptr));
    if (!rest.starts_with(dots)) {
        return false;
    }
    const auto last = std::from_chars(rest.data() + dots.size(), end, numbers.last);
    return last.ec == std::errc() && last.ptr == end && numbers.last >= numbers.first;
}

CallNumbers parse_numbers(const Piece &piece, const Place &place) {
    const size_t at = std::min(piece.text.rfind('@'), piece.text.size());
    const std::string_view op = trimmed(piece.text.substr(0, at));
    CallNumbers numbers;
    if (at == piece.text.size() || !read_numbers(trimmed(piece.text.substr(at + 1)), numbers)) {
        reject(place, piece.offset,
               "expected OP@NUMBER or OP@FIRST..LAST, such as gelu@1 or all@1..3, found " + quote(piece.text));
    }
    numbers.op = op == "all" ? "" : std::string(parse_op_name(op, place, piece.offset));
    return numbers;
}

std::string mebibytes(uint64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

} // namespace

CallFiles::CallFiles(std::string_view value, const Place &place, uint64_t bytes) : left_(bytes) {
    std::vector<Piece> pieces = split(value, ";");
    folder_ = pieces.empty() ? "" : pieces.front().text;
    if (!folder_.starts_with('/') || !is_printable(folder_)) {
        reject(place, 0, "expected the absolute path of a folder, such as /var/tmp/calls; found " + quote(folder_));
    }
    pieces.erase(pieces.begin());
    for (const Piece &piece : pieces) {
        CallNumbers numbers = parse_numbers(piece, place);
        if (std::any_of(numbers_.begin(), numbers_.end(),
                        [&](const CallNumbers &one) { return one.op == numbers.op; })) {
            reject(place, piece.offset, quote(piece.text) + ": this op is given twice; keep one");
        }
        numbers_.push_back(std::move(numbers));
    }
}

const CallNumbers *CallFiles::numbers_for(std::string_view op) const {
    const CallNumbers *found = nullptr;
    for (const CallNumbers &one : numbers_) {
        if (one.op == op || (one.op.empty() && found == nullptr)) {
            found = &one;
        }
    }
    return found;
}

bool CallFiles::reserve(uint64_t bytes, std::string *told) {
    uint64_t left = left_.load(std::memory_order_relaxed);
    while (bytes <= left) {
        if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) {
            return true;
        }
    }
    if (!is_full_told_.exchange(true)) {
        *told = fmt::format("the call is not written: it has {}, but the files of this process have {} left; further "
                            "calls that are too large are left out silently",
                            mebibytes(bytes), mebibytes(left));
    }
    return false;
}

std::string CallFiles::path_of(const CallFile &call, const std::string &which) const {
    return fmt::format("{}/{}-{}-{}-{}-{}.safetensors", folder_, as_file_name(call.text.op),
                       as_file_name(call.text.impl_id), as_file_name(call.text.device), ::getpid(), which);
}

// Files of an earlier process with the same id count too: a program that restarts again and again fills no disk.
std::string CallFiles::free_path(const CallFile &call, std::atomic<uint32_t> &count) const {
    for (uint32_t number = count.fetch_add(1) + 1; number <= most_files; number = count.fetch_add(1) + 1) {
        std::string path = path_of(call, std::to_string(number));
        struct stat status = {};
        if (::lstat(path.c_str(), &status) != 0) {
            return path;
        }
    }
    return {};
}

std::string CallFiles::write_to(const std::string &path, const CallFile &call) {
    std::vector<SafetensorsTensor> tensors;
    for (const CallFile::Tensor &tensor : call.tensors) {
        tensors.push_back({tensor.name,
                           tensor.dtype,
                           tensor.shape,
                           {reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size()}});
    }
    SafetensorsFile file;
    try {
        file = safetensors_file(tensors, metadata_of(call));
    } catch (const Error &error) { // concerns only this op
        return fmt::format("the call is not written: {}", error.what());
    }
    (void)::mkdir(folder_.c_str(), S_IRWXU); // an error shows when the file is written
    file.pieces.insert(file.pieces.begin(), file.header);
    const std::string why = replace_private_file(path, file.pieces);
    if (!why.empty()) {
        has_failed_ = true;
        return fmt::format("the call is not written, and no later call will be: {}", why);
    }
    return {};
}

std::string CallFiles::write(const CallFile &call, std::atomic<uint32_t> &count) {
    if (has_failed_) {
        return {};
    }
    const std::string path = free_path(call, count);
    if (path.empty()) {
        return fmt::format("no more calls of '{}' are written: '{}' already has {} of a process with this id",
                           call.text.impl_id, folder_, most_files);
    }
    const std::string why = write_to(path, call);
    if (!why.empty()) {
        count.store(most_files, std::memory_order_relaxed);
        return why;
    }
    return fmt::format("the call was written to '{}', and plugin-run replays it{}", path,
                       takes(count) ? "" : fmt::format("; no more calls of '{}' are written", call.text.impl_id));
}

std::string CallFiles::write(const CallFile &call, uint64_t number) {
    if (has_failed_) {
        return {};
    }
    const std::string path = path_of(call, fmt::format("call-{}", number));
    const std::string why = write_to(path, call);
    return why.empty()
               ? fmt::format("'{}' now has call {} of '{}', and plugin-run replays it", path, number, call.text.impl_id)
               : why;
}

} // namespace opdock::core
