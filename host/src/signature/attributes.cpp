#include "signature/attributes.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "signature/dtype.hpp"
#include "signature/solve.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

bool is_packed_dtype(int64_t value) {
    if (value < 0 || value > UINT32_MAX) {
        return false;
    }
    const DLDataType type = opdock_dtype_unpack(static_cast<uint32_t>(value));
    return type.lanes == 1 || (type.lanes == 2 && type.bits == 4);
}

[[noreturn]] void fail_attribute(const Signature &signature, const AttributeSpec &spec, const std::string &message) {
    fail(signature, fmt::format("attribute '{}' {}", spec.name, message));
}

[[noreturn]] void fail_unknown(const Signature &signature, std::string_view name) {
    std::string known;
    for (const AttributeSpec &spec : signature.attributes) {
        known += (known.empty() ? "" : ", ") + spec.name;
    }
    fail(signature, fmt::format("unknown attribute '{}'; the op has {}", name, known.empty() ? "none" : known));
}

[[noreturn]] void fail_type(const Signature &signature, const AttributeSpec &spec, const opdock_value &value) {
    const std::string_view found = value_type_name(value.type);
    fail_attribute(signature, spec,
                   fmt::format("is of type {}, expected {}", found.empty() ? fmt::format("{}", value.type) : found,
                               spec.type_name()));
}

opdock_value check(const Signature &signature, const AttributeSpec &spec, opdock_value value) {
    if (value.type == OPDOCK_VALUE_INT && spec.type == OPDOCK_VALUE_FLOAT) {
        const auto number = static_cast<double>(value.as.i);
        value.type = OPDOCK_VALUE_FLOAT;
        value.as.f = number;
    }
    if (value.type != spec.type) {
        fail_type(signature, spec, value);
    }
    switch (value.type) {
    case OPDOCK_VALUE_BOOL:
        if (value.as.i != 0 && value.as.i != 1) {
            fail_attribute(signature, spec, fmt::format("is {}, expected 0 or 1 for a bool", value.as.i));
        }
        break;
    case OPDOCK_VALUE_STRING:
        if (value.as.s == nullptr || strnlen(value.as.s, value.count) != value.count) {
            fail_attribute(signature, spec,
                           fmt::format("is not a string of {} without NUL", counted(value.count, "byte")));
        }
        break;
    case OPDOCK_VALUE_INTS:
    case OPDOCK_VALUE_FLOATS:
    case OPDOCK_VALUE_STRINGS:
        if (value.as.ints == nullptr && value.count != 0) {
            fail_attribute(signature, spec,
                           fmt::format("is null, expected {} {}", value.count,
                                       value.type == OPDOCK_VALUE_STRINGS ? "strings" : "numbers"));
        }
        for (uint32_t i = 0; value.type == OPDOCK_VALUE_STRINGS && i < value.count; ++i) {
            const opdock_text &one = value.as.strings[i];
            if (one.text == nullptr || strnlen(one.text, one.size) != one.size) {
                fail_attribute(
                    signature, spec,
                    fmt::format("has at index {} no string of {} without NUL", i, counted(one.size, "byte")));
            }
        }
        break;
    case OPDOCK_VALUE_DTYPE:
        if (!is_packed_dtype(value.as.i)) {
            fail_attribute(signature, spec,
                           fmt::format("is {:#x}, expected a dtype as OPDOCK_DTYPE or OPDOCK_DTYPE_4X2 packs it",
                                       static_cast<uint64_t>(value.as.i)));
        }
        break;
    default:
        break;
    }
    return value;
}

bool is_default(const AttributeSpec &spec, const opdock_value &value) {
    if (spec.required || spec.optional) {
        return false;
    }
    switch (spec.type) {
    case OPDOCK_VALUE_FLOAT:
        return value.as.f == spec.number;
    case OPDOCK_VALUE_STRING:
        return std::string_view(value.as.s, value.count) == spec.text;
    case OPDOCK_VALUE_INTS:
        return std::equal(spec.integers.begin(), spec.integers.end(), value.as.ints, value.as.ints + value.count);
    case OPDOCK_VALUE_FLOATS:
        return std::equal(spec.numbers.begin(), spec.numbers.end(), value.as.floats, value.as.floats + value.count);
    case OPDOCK_VALUE_STRINGS:
        return value.count == 0;
    default:
        return value.as.i == spec.integer;
    }
}

size_t find(const Signature &signature, const char *name, size_t guess) {
    const auto &specs = signature.attributes;
    if (name == nullptr) {
        if (guess >= specs.size()) {
            fail(signature, fmt::format("got {}, expected at most {}", counted(guess + 1, "attribute"), specs.size()));
        }
        return guess;
    }
    // Most callers pass them in signature order.
    if (guess < specs.size() && std::strcmp(specs[guess].name.c_str(), name) == 0) {
        return guess;
    }
    const auto found =
        std::find_if(specs.begin(), specs.end(), [name](const AttributeSpec &s) { return s.name == name; });
    if (found == specs.end()) {
        fail_unknown(signature, name);
    }
    return static_cast<size_t>(found - specs.begin());
}

} // namespace

size_t bind_attributes(const Signature &signature, const opdock_args &args, std::vector<opdock_value> &values) {
    const auto &specs = signature.attributes;
    values.assign(specs.size(), opdock_value{});
    uint64_t given = 0;
    for (uint32_t i = 0; i < args.n_attributes; ++i) {
        const opdock_value &value = args.attributes[i].value;
        const size_t at = find(signature, args.attributes[i].name, i);
        if ((given >> at & 1u) != 0) {
            fail_attribute(signature, specs[at], "is given twice");
        }
        given |= uint64_t{1} << at;
        if (value.type != OPDOCK_VALUE_NONE) {
            values[at] = check(signature, specs[at], value);
        }
    }
    size_t used = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
        if (values[i].type == OPDOCK_VALUE_NONE) {
            if (specs[i].required) {
                fail_attribute(signature, specs[i],
                               fmt::format("of type {} is missing; it has no default", specs[i].type_name()));
            }
            values[i] = specs[i].default_value();
        } else if (!is_default(specs[i], values[i])) {
            used = i + 1;
        }
    }
    return used;
}

} // namespace opdock::core
