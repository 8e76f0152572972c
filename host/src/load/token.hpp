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
    measured = UINT32_MAX, // not a kind; in orders: the implementation measured to be fastest goes first
};

std::string_view kind_name(Kind kind);

// True if the vendor name `written` in a list or an order means this vendor. Case-insensitive; company names also match
// opdock's GPU plugins: "nvidia" means cuda and "amd" means hip. Not vice versa: a company may provide its own plugin,
// and cuda or hip means only opdock's.
bool names_vendor(std::string_view written, std::string_view vendor);

// One step of an order: all implementations of a kind, those of one vendor, or one implementation. `measured` names
// none itself: of the implementations that later steps name, it puts the fastest measured one first (standings.hpp).
struct Token {
    enum class Type { kind, vendor, impl };

    Type type = Type::kind;
    Kind kind = Kind::default_; // for type kind
    // For type vendor (folded) or impl (as written; compared case-insensitively); "flagos" for a kind written so.
    std::string name;

    static Token of_kind(Kind kind) { return {Type::kind, kind, {}}; }
    static Token of_vendor(std::string_view name);
    static Token of_impl(std::string_view id) { return {Type::impl, Kind::default_, std::string(id)}; }

    // "vendor", "vendor:acme", "impl:vendor.acme".
    std::string text() const;
    // True if it names an implementation with these properties, which Candidate has.
    bool names(std::string_view impl_id, Kind of_kind, std::string_view vendor, bool comes_with_opdock) const;

    bool operator==(const Token &) const = default;
};

using Order = std::vector<Token>;

// "vendor:acme|default".
std::string order_text(const Order &order);
// order_text() for messages: a long order is cut, and its length is given.
std::string shown_order(const Order &order);

// `first`, then the other kinds in the order default, vendor, reference.
Order preferred_order(Kind first);
// Throws if nothing follows `measured` in the order, so that it would name nothing.
void check_order(const Order &order, const Place &place, std::size_t offset = 0);

// "default" (also "flagos"), "vendor", "reference" or "measured".
Kind parse_kind(std::string_view value, const Place &place);

// One token. `offset` is where it starts in the value at `place`.
Token parse_token(std::string_view text, const Place &place, std::size_t offset = 0);

// "vendor:acme|default"; at least one token.
Order parse_order(std::string_view value, const Place &place, std::size_t offset = 0);

// Parses "rmsnorm_fwd=vendor:acme|default;gelu=reference". A repeated op is an error.
std::map<std::string, Order, std::less<>> parse_per_op(std::string_view value, const Place &place);

// Returns standard_name(name). Throws unless it is a valid op name: letters, digits, '_' and '.'.
std::string_view parse_op_name(std::string_view name, const Place &place, std::size_t offset = 0);

} // namespace opdock::core
