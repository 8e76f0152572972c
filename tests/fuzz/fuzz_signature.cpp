// The signature language: reads, prints and compares signatures, and validates calls of them. The input is a signature,
// or two separated by '%'; after another '%', characters choose the shapes of a call.
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "input.hpp"
#include "made_call.hpp"
#include "signature/bind.hpp"
#include "signature/infer.hpp"
#include "signature/signature.hpp"
#include "signature/signature_json.hpp"
#include "text/error.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

std::optional<Signature> read(std::string_view text) {
    try {
        return parse_signature(text);
    } catch (const Error &error) {
        require(error.status() == OPDOCK_INVALID_ARGUMENT, "a wrong signature is a wrong argument");
        const std::string_view message = error.what();
        require(message.starts_with("signature, column ") || message.starts_with("this signature has "),
                "an error has a column");
        require(message.size() < 1024, "an error can be shown");
        return {};
    }
}

void check_print(const Signature &signature) {
    require(signature.text == print_signature(signature), "the text is the printed form");
    require(parse_signature(signature.text) == signature, "what is printed reads back as it was");
    require(signature.n_params() <= max_parameters && signature.attributes.size() <= max_parameters,
            "a signature has no more parameters than are allowed");
    // Replaces bad bytes as the C API does: a string's default may have bytes that are not UTF-8.
    const auto replace = nlohmann::json::error_handler_t::replace;
    const nlohmann::json json = nlohmann::json::parse(signature_json(signature).dump(-1, ' ', false, replace));
    const bool is_ascii =
        std::none_of(signature.text.begin(), signature.text.end(), [](char c) { return (c & 0x80) != 0; });
    require(json.at("op") == signature.name, "JSON names the op");
    require(json.at("signature") == signature.text || !is_ascii, "JSON has the signature");
    require(json.at("inputs").size() == signature.inputs.size(), "JSON has every input");
}

Compatibility reversed(Compatibility compatibility) {
    switch (compatibility) {
    case Compatibility::extends:
        return Compatibility::extended_by;
    case Compatibility::extended_by:
        return Compatibility::extends;
    default:
        return compatibility;
    }
}

void check_compare(const Signature &one, const Signature &other) {
    std::string why;
    const Compatibility compatibility = compare(one, other, &why);
    require((compatibility == Compatibility::conflict) == !why.empty(), "a conflict has a reason");
    require(compare(other, one, nullptr) == reversed(compatibility), "it does not matter which comes first");
}

// With inferred outputs, a call can only be wrong in what inference does not look at: memory.
bool is_about_memory(std::string_view message) {
    return message.find("larger than 64 bits can address") != std::string_view::npos ||
           message.find("overlaps") != std::string_view::npos ||
           message.find("several indices for one element") != std::string_view::npos;
}

void check_call(const Signature &signature, std::string_view choices) {
    opdock::fuzz::MadeCall call(signature, choices);
    bool inferred = false;
    try {
        call.take_outputs(infer_outputs(signature, call.inputs_only()));
        inferred = true;
        bind(signature, call.whole(), Pointing::optional);
    } catch (const Error &error) {
        const std::string_view message = error.what();
        require(error.status() == OPDOCK_INVALID_ARGUMENT, "a wrong call is a wrong argument");
        require(message.size() < 16 * 1024, "an error can be shown");
        if (inferred && !is_about_memory(message)) {
            std::fprintf(stderr, "%s\n", error.what());
            require(false, "what is inferred is taken");
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    std::string_view rest = opdock::fuzz::text_of(data, size);
    const auto next = [&rest] {
        const std::string_view part = rest.substr(0, rest.find('%'));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
        return part;
    };
    const std::optional<Signature> one = read(next());
    if (!one) {
        return 0;
    }
    check_print(*one);
    require(compare(*one, *one, nullptr) == Compatibility::same, "a signature is the same as itself");
    if (const std::optional<Signature> other = read(next())) {
        check_compare(*one, *other);
    }
    check_call(*one, rest);
    return 0;
}
