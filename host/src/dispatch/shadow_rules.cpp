// The value of the variable SHADOW.
#include <algorithm>
#include <charconv>
#include <utility>

#include "dispatch/shadow.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::string_view every_op = "all";

constexpr std::string_view drop = "drop";

// Parses "1/100,drop" or one of the two; `offset` is its position in the value.
void parse_how(std::string_view text, const Place &place, std::size_t offset, ShadowRule &rule) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = trimmed(comma < text.size() ? text.substr(comma + 1) : text);
    rule.drops = word == drop;
    if (word == drop && comma == text.size()) {
        return;
    }
    if (word != drop && comma < text.size()) {
        reject(place, offset + comma + 1, "expected 'drop' or nothing after the rate, found " + quote(word));
    }
    const std::string_view rate = trimmed(text.substr(0, comma));
    const std::string_view number = rate.starts_with("1/") ? rate.substr(2) : "";
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rule.one_in);
    if (number.empty() || error != std::errc() || end != number.data() + number.size() || rule.one_in == 0) {
        reject(place, offset, "expected a rate such as 1/1000 after '@', found " + quote(rate));
    }
}

} // namespace

std::vector<ShadowRule> parse_shadow_rules(std::string_view value, const Place &place) {
    std::vector<ShadowRule> rules;
    for (const Piece &piece : split(value, ";")) {
        const size_t equals = piece.text.find('=');
        const size_t at = std::min(piece.text.rfind('@'), piece.text.size());
        if (equals == std::string_view::npos || equals > at) {
            reject(place, piece.offset,
                   "expected OP=TOKEN@1/N, such as gelu=reference@1/1000, found " + quote(piece.text));
        }
        ShadowRule rule;
        const std::string_view op = trimmed(piece.text.substr(0, equals));
        rule.op = op == every_op ? "" : std::string(parse_op_name(op, place, piece.offset));
        rule.order = parse_order(piece.text.substr(equals + 1, at - equals - 1), place, piece.offset + equals + 1);
        if (at < piece.text.size()) {
            parse_how(piece.text.substr(at + 1), place, piece.offset + at + 1, rule);
        }
        if (std::any_of(rules.begin(), rules.end(), [&](const ShadowRule &one) { return one.op == rule.op; })) {
            reject(place, piece.offset, quote(op) + " is given twice; keep one");
        }
        rules.push_back(std::move(rule));
    }
    return rules;
}

const ShadowRule *shadow_rule_for(std::span<const ShadowRule> rules, std::string_view op) {
    const ShadowRule *found = nullptr;
    for (const ShadowRule &rule : rules) {
        if (rule.op == op || (rule.op.empty() && found == nullptr)) {
            found = &rule;
        }
    }
    return found;
}

} // namespace opdock::core
