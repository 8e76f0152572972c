#include "load/registration_fields.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "signature/dtype.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
std::string copy_text(const char *field, const char *text) {
    if (text == nullptr) {
        return {};
    }
    const size_t length = strnlen(text, max_text_bytes + 1);
    if (length > max_text_bytes) {
        throw Rejected(RejectCode::bad_name, fmt::format("{} is longer than {} bytes", field, max_text_bytes));
    }
    return {text, length};
}

std::string copy_name(const char *field, const char *text) {
    std::string name = copy_text(field, text);
    if (name.empty()) {
        throw Rejected(RejectCode::bad_name, fmt::format("{} is {}", field, text == nullptr ? "null" : "empty"));
    }
    if (name.size() > max_name_bytes) {
        throw Rejected(RejectCode::bad_name, fmt::format("{} '{}...' has {} bytes; at most {} are allowed", field,
                                                         name.substr(0, 24), name.size(), max_name_bytes));
    }
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
        std::string bytes;
        for (const char c : name) {
            bytes += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
        throw Rejected(RejectCode::bad_name,
                       fmt::format("{} '{}' has characters other than printable ASCII", field, bytes));
    }
    return name;
}

std::string copy_line(const char *field, const char *text) {
    std::string line = copy_text(field, text);
    if (!is_printable(line)) {
        throw Rejected(RejectCode::bad_field,
                       fmt::format("{} {} has characters that cannot be shown", field, quote(line)));
    }
    return line;
}

std::string copy_identifier(const char *field, const char *text) {
    std::string name = copy_name(field, text);
    if (find_no_name_character(name) != std::string::npos) {
        throw Rejected(RejectCode::bad_name,
                       fmt::format("{} '{}' holds a space or one of , ; : | = ' \", which policies use as separators",
                                   field, name));
    }
    return name;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (size_t begin = 0;;) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        parts.emplace_back(text.substr(begin, end - begin));
        if (end == text.size()) {
            return parts;
        }
        begin = end + 1;
    }
}

namespace {

// The fault of a tuple, or "". `dtypes_are_told`: an earlier message has listed the valid dtypes.
std::string fault_in(const std::string &text, const Signature &signature, std::vector<uint32_t> &tuple,
                     bool &dtypes_are_told) {
    for (const std::string &name : split(text, ',')) {
        const std::optional<uint32_t> dtype = parse_dtype(name);
        if (!dtype) {
            const bool is_told = std::exchange(dtypes_are_told, true);
            return fmt::format("'{}' is not a dtype{}", name, is_told ? "" : "; expected " OPDOCK_DTYPE_NAMES);
        }
        tuple.push_back(*dtype);
    }
    if (tuple.size() != signature.dtype_variables.size()) {
        return fmt::format("'{}' has {}, but the signature has {}; give one dtype for each", text,
                           counted(tuple.size(), "dtype"), counted(signature.dtype_variables.size(), "dtype variable"));
    }
    for (size_t i = 0; i < tuple.size(); ++i) {
        const std::vector<uint32_t> &allowed = signature.allowed_dtypes[i];
        if (std::find(allowed.begin(), allowed.end(), tuple[i]) == allowed.end()) {
            return fmt::format("{} of '{}' is never {}, so '{}' would never be chosen; remove it",
                               signature.dtype_variables[i], signature.name, dtype_name(tuple[i]), text);
        }
    }
    return "";
}

} // namespace

std::vector<std::vector<uint32_t>> parse_dtypes(const std::string &text, const Signature &signature,
                                                bool &dtypes_are_told) {
    std::vector<std::vector<uint32_t>> tuples;
    std::string faults;
    for (const std::string &tuple_text : split(text, '|')) {
        const std::string fault = fault_in(tuple_text, signature, tuples.emplace_back(), dtypes_are_told);
        faults += fault.empty() ? "" : (faults.empty() ? "" : "; ") + fault;
    }
    if (!faults.empty()) {
        throw Rejected(RejectCode::bad_field, fmt::format("dtypes '{}': {}", text, faults));
    }
    return tuples;
}

Kind kind_of(const std::string &what, uint32_t kind) {
    switch (kind) {
    case OPDOCK_KIND_DEFAULT:
        return Kind::default_;
    case OPDOCK_KIND_VENDOR:
        return Kind::vendor;
    case OPDOCK_KIND_REFERENCE:
        return Kind::reference;
    default:
        throw Rejected(
            RejectCode::bad_field,
            fmt::format("{}: kind is {}; expected OPDOCK_KIND_DEFAULT, _VENDOR or _REFERENCE (1, 2, 3)", what, kind));
    }
}

namespace {

std::vector<std::string> copy_choices(const Knob &knob, const char *given) {
    const std::string text = copy_text("a knob's choices", given);
    std::vector<std::string> choices;
    for (const std::string &name : split(text, ',')) {
        choices.push_back(name.empty() && !text.empty() ? name : copy_identifier("a choice of a knob", name.c_str()));
        if (whole_number(name)) {
            throw Rejected(
                RejectCode::bad_field,
                fmt::format("knob '{}': tune files would read its choice '{}' as a number", knob.name, name));
        }
        if (std::find(choices.begin(), choices.end() - 1, name) != choices.end() - 1) {
            throw Rejected(RejectCode::bad_field, fmt::format("knob '{}' has choice '{}' twice", knob.name, name));
        }
    }
    if (knob.minimum < 0 || knob.maximum >= static_cast<int64_t>(choices.size())) {
        throw Rejected(RejectCode::bad_field, fmt::format("knob '{}' has {} choices but ranges from {} to {}",
                                                          knob.name, choices.size(), knob.minimum, knob.maximum));
    }
    return choices;
}

} // namespace

Knob copy_knob(const opdock_knob *given) {
    if (given == nullptr) {
        throw Rejected(RejectCode::bad_field, "a knob is null");
    }
    const opdock_knob knob = known_fields("opdock_knob", *given, OPDOCK_STRUCT_SIZE(opdock_knob, default_value));
    Knob copy;
    copy.name = copy_identifier("a knob's name", knob.name);
    copy.doc = copy_text("a knob's doc", knob.doc);
    copy.type = knob.type;
    copy.minimum = knob.minimum;
    copy.maximum = knob.maximum;
    copy.default_value = knob.default_value;
    if (copy.type != OPDOCK_KNOB_INT && copy.type != OPDOCK_KNOB_BOOL && copy.type != OPDOCK_KNOB_CHOICE) {
        throw Rejected(
            RejectCode::bad_field,
            fmt::format("knob '{}' has type {}; expected OPDOCK_KNOB_INT, _BOOL or _CHOICE", copy.name, copy.type));
    }
    if (copy.type == OPDOCK_KNOB_CHOICE) {
        copy.choices = copy_choices(copy, knob.choices);
    }
    if (copy.type == OPDOCK_KNOB_BOOL && (copy.minimum < 0 || copy.maximum > 1)) {
        throw Rejected(RejectCode::bad_field, fmt::format("knob '{}' is a bool but ranges from {} to {}", copy.name,
                                                          copy.minimum, copy.maximum));
    }
    if (copy.minimum > copy.maximum || copy.default_value < copy.minimum || copy.default_value > copy.maximum) {
        throw Rejected(RejectCode::bad_field, fmt::format("knob '{}' has default {} outside its range {} to {}",
                                                          copy.name, copy.default_value, copy.minimum, copy.maximum));
    }
    return copy;
}

} // namespace opdock::core
