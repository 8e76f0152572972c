// Kinds of implementations and the tokens that orders are made of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/setting_text.hpp"

namespace opdock::core {

enum class Kind : std::uint32_t {
    default_ = OPDOCK_KIND_DEFAULT,
    vendor = OPDOCK_KIND_VENDOR,
    reference = OPDOCK_KIND_REFERENCE,
    measured = UINT32_MAX, // of no implementation; in orders: whoever was measured to be the fastest goes first
};

std::string_view kind_name(Kind kind);

// Whether a list or an order that says `written` means this vendor: without case, and by the company's name for those
// of opdock's GPU plugins, "nvidia" for cuda and "amd" for hip. Not the other way round: a company may bring a plugin
// of its own, and whoever says cuda or hip means opdock's alone.
bool names_vendor(std::string_view written, std::string_view vendor);

// One step of an order: all implementations of a kind, those of one vendor, or one implementation. `measured` names
// none: of what the steps behind it name, it puts the one first that was measured to be the fastest (standings.hpp).
struct Token {
    enum class Type { kind, vendor, impl };

    Type type = Type::kind;
    Kind kind = Kind::default_; // of type kind
    // Of type vendor (folded) or impl (as written; compared without case); "flagos" of a kind that is named so.
    std::string name;

    static Token of_kind(Kind kind) { return {Type::kind, kind, {}}; }
    static Token of_vendor(std::string_view name);
    static Token of_impl(std::string_view id) { return {Type::impl, Kind::default_, std::string(id)}; }

    // "vendor", "vendor:acme", "impl:vendor.acme".
    std::string text() const;
    // Whether it names an implementation with these properties, which Candidate has.
    bool names(std::string_view impl_id, Kind of_kind, std::string_view vendor, bool comes_with_opdock) const;

    bool operator==(const Token &) const = default;
};

using Order = std::vector<Token>;

// "vendor:acme|default".
std::string order_text(const Order &order);
// The same for messages: of a long one the beginning, and how long it is.
std::string shown_order(const Order &order);

// `first`, then the other kinds in the order default, vendor, reference.
Order preferred_order(Kind first);
// Throws for an order in which nothing stands behind `measured`, so that it would name nobody.
void check_order(const Order &order, const Place &place, std::size_t offset = 0);

// "default" (also "flagos"), "vendor", "reference" or "measured".
Kind parse_kind(std::string_view value, const Place &place);

// One token. `offset` is where it starts in the value at `place`.
Token parse_token(std::string_view text, const Place &place, std::size_t offset = 0);

// "vendor:acme|default"; at least one token.
Order parse_order(std::string_view value, const Place &place, std::size_t offset = 0);

// "rmsnorm_fwd=vendor:acme|default;gelu=reference". An op given twice is an error.
std::map<std::string, Order, std::less<>> parse_per_op(std::string_view value, const Place &place);

// `name` as standard_name has it. Throws unless it can be the name of an op: letters, digits, '_' and '.'.
std::string_view parse_op_name(std::string_view name, const Place &place, std::size_t offset = 0);

} // namespace opdock::core
