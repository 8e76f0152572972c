#include "load/token.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "signature/other_names.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::array<std::string_view, 3> kind_words = {"default", "vendor", "reference"};
constexpr std::array<Kind, 3> kinds = {Kind::default_, Kind::vendor, Kind::reference};
constexpr std::string_view alias_of_default = "flagos";
constexpr std::string_view measured_word = "measured";
constexpr Kind measured_kind = Kind::measured;

const Kind *find_kind(std::string_view word) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (same_name(word, kind_words[i])) {
            return &kinds[i];
        }
    }
    return same_name(word, alias_of_default) ? kinds.data() : same_name(word, measured_word) ? &measured_kind : nullptr;
}

} // namespace

std::string_view kind_name(Kind kind) {
    return kind == Kind::measured ? measured_word : kind_words[static_cast<std::size_t>(kind) - OPDOCK_KIND_DEFAULT];
}

bool names_vendor(std::string_view written, std::string_view vendor) {
    return same_name(written, vendor) || (same_name(written, "nvidia") && same_name(vendor, "cuda")) ||
           (same_name(written, "amd") && same_name(vendor, "hip"));
}

Token Token::of_vendor(std::string_view name) {
    return {Type::vendor, Kind::vendor, folded(name)};
}

std::string Token::text() const {
    switch (type) {
    case Type::vendor:
        return "vendor:" + name;
    case Type::impl:
        return "impl:" + name;
    case Type::kind:
        break;
    }
    return name.empty() ? std::string(kind_name(kind)) : name;
}

bool Token::names(std::string_view impl_id, Kind of_kind, std::string_view vendor, bool comes_with_opdock) const {
    switch (type) {
    case Type::vendor:
        return of_kind == Kind::vendor && names_vendor(name, vendor);
    case Type::impl:
        return same_name(name, impl_id);
    case Type::kind:
        break;
    }
    // "flagos" means everything that comes with opdock; its own GPU implementations are of kind vendor. Others may use
    // these vendor names too.
    const bool own_of_gpu = name == alias_of_default && comes_with_opdock && of_kind == Kind::vendor &&
                            (same_name(vendor, "cuda") || same_name(vendor, "hip"));
    return of_kind == kind || own_of_gpu;
}

std::string order_text(const Order &order) {
    std::string result;
    for (const Token &token : order) {
        result += (result.empty() ? "" : "|") + token.text();
    }
    return result;
}

std::string shown_order(const Order &order) {
    constexpr size_t most_shown = 16;
    return order.size() <= most_shown
               ? order_text(order)
               : fmt::format("{}|... ({} tokens)", order_text({order.begin(), order.begin() + most_shown}),
                             order.size());
}

Order preferred_order(Kind first) {
    Order order = {Token::of_kind(first)};
    for (const Kind kind : kinds) {
        if (kind != first) {
            order.push_back(Token::of_kind(kind));
        }
    }
    return order;
}

void check_order(const Order &order, const Place &place, std::size_t offset) {
    if (!order.empty() && order.back() == Token::of_kind(Kind::measured)) {
        reject(place, offset,
               "'measured' names no implementation: it puts the fastest one of the tokens after it first; write "
               "'measured|default|vendor'");
    }
}

Kind parse_kind(std::string_view value, const Place &place) {
    static constexpr std::array<std::string_view, 5> prefer_words = {"default", "vendor", "reference", alias_of_default,
                                                                     measured_word};
    const std::string_view word = trimmed(value);
    if (const Kind *kind = find_kind(word)) {
        return *kind;
    }
    const auto offset = static_cast<std::size_t>(word.data() - value.data());
    reject(place, word.empty() ? 0 : offset,
           "expected " + one_of(prefer_words) + ", found " + quote(word) + did_you_mean(word, prefer_words));
}

Token parse_token(std::string_view text, const Place &place, std::size_t offset) {
    static constexpr std::array<std::string_view, 7> words = {
        "default", "vendor", "reference", alias_of_default, measured_word, "vendor:NAME", "impl:ID"};
    if (const Kind *kind = find_kind(text)) {
        const bool is_alias = same_name(text, alias_of_default);
        return {Token::Type::kind, *kind, is_alias ? std::string(alias_of_default) : ""};
    }
    const std::size_t colon = text.find(':');
    const std::string_view head = text.substr(0, colon);
    const bool vendor = same_name(head, "vendor");
    if (colon == std::string_view::npos || (!vendor && !same_name(head, "impl"))) {
        static constexpr std::array<std::string_view, 6> heads = {"default", "vendor", "reference",
                                                                  "flagos",  "impl",   measured_word};
        const std::string_view guess = nearest(head, heads);
        std::string hint;
        if (text.find('.') != std::string_view::npos && colon == std::string_view::npos) { // like impl_ids
            hint = "; did you mean " + quote("impl:" + std::string(text)) + "?";
        } else if (!guess.empty()) {
            const bool keep_name = colon != std::string_view::npos && (guess == "vendor" || guess == "impl");
            hint = "; did you mean " +
                   quote(guess == "impl" && !keep_name
                             ? "impl:ID"
                             : std::string(guess) + std::string(keep_name ? text.substr(colon) : std::string_view())) +
                   "?";
        } else if (colon == std::string_view::npos && !text.empty() &&
                   find_no_name_character(text) == std::string_view::npos) {
            hint = "; for a vendor of that name write " + quote("vendor:" + std::string(text));
        }
        reject(place, offset, "expected a token (" + one_of(words) + "), found " + quote(text) + hint);
    }
    const std::string_view name = text.substr(colon + 1);
    if (trimmed(name).empty()) {
        reject(place, offset + colon + 1, "expected a name after " + quote(text.substr(0, colon + 1)));
    }
    if (trimmed(name).size() != name.size()) {
        reject(place, offset + colon + 1, "unexpected space in " + quote(text) + "; write it without");
    }
    // In a list of a policy file: printed with the other tokens, it would read as two.
    if (const std::size_t separator = text.find_first_of("|;"); separator != std::string_view::npos) {
        reject(place, offset + separator,
               "unexpected " + quote(text.substr(separator, 1)) + " in " + quote(text) +
                   "; write each token separately");
    }
    if (vendor) {
        return Token::of_vendor(parse_vendor(name, place, offset + colon + 1));
    }
    const auto bad = std::find_if(name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~'; });
    if (bad != name.end()) {
        const auto at = static_cast<std::size_t>(bad - name.begin());
        reject(place, offset + colon + 1 + at,
               "unexpected " + quote(name.substr(at, 1)) + " in " + quote(text) +
                   "; ids of implementations are printable ASCII without spaces");
    }
    return Token::of_impl(name);
}

Order parse_order(std::string_view value, const Place &place, std::size_t offset) {
    Order order;
    Faults faults;
    for (const Piece &piece : split(value, "|")) {
        faults.attempt([&] { order.push_back(parse_token(piece.text, place, offset + piece.offset)); });
    }
    faults.raise();
    if (order.empty()) {
        reject(place, offset, "expected at least one token, such as 'default' or 'vendor:acme'");
    }
    check_order(order, place, offset);
    return order;
}

std::map<std::string, Order, std::less<>> parse_per_op(std::string_view value, const Place &place) {
    std::map<std::string, Order, std::less<>> orders;
    Faults faults;
    for (const Piece &piece : split(value, ";")) {
        faults.attempt([&] {
            const std::size_t equals = piece.text.find('=');
            if (equals == std::string_view::npos) {
                reject(place, piece.offset, "expected OP=TOKEN|TOKEN, found " + quote(piece.text));
            }
            const std::string_view op = parse_op_name(trimmed(piece.text.substr(0, equals)), place, piece.offset);
            Order order = parse_order(piece.text.substr(equals + 1), place, piece.offset + equals + 1);
            if (!orders.emplace(op, std::move(order)).second) {
                reject(place, piece.offset, "op " + quote(op) + " is given twice; keep one order");
            }
        });
    }
    faults.raise();
    return orders;
}

std::string_view parse_op_name(std::string_view name, const Place &place, std::size_t offset) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    const auto bad = std::find_if_not(name.begin(), name.end(), allowed);
    if (name.empty() || bad != name.end()) {
        reject(place, offset + static_cast<std::size_t>(bad - name.begin()),
               "expected the name of an op (letters, digits, '_' and '.'), found " + quote(name));
    }
    return standard_name(name);
}

} // namespace opdock::core
