#include "load/contract.hpp"

#include <algorithm>
#include <array>

#include "load/token.hpp"
#include "opdock/abi/impl.h"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::array<std::string_view, 2> words = {"deterministic", "batch_invariant"};
constexpr std::array<std::uint32_t, words.size()> flags = {OPDOCK_IMPL_DETERMINISTIC, OPDOCK_IMPL_BATCH_INVARIANT};

} // namespace

std::vector<std::string> names_of(Contracts contracts) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if ((contracts.flags & flags[i]) != 0) {
            names.emplace_back(words[i]);
        }
    }
    return names;
}

Contracts parse_contract(std::string_view name, const Place &place, std::size_t offset) {
    const auto word =
        std::find_if(words.begin(), words.end(), [name](std::string_view known) { return same_name(name, known); });
    if (word != words.end()) {
        return {flags[static_cast<std::size_t>(word - words.begin())]};
    }
    std::string hint = did_you_mean(name, words);
    if (name.find('=') != std::string_view::npos) {
        hint = "; write the contracts of one op after a ';'";
    } else if (name.find('|') != std::string_view::npos) {
        hint = "; write ',' between contracts";
    }
    reject(place, offset, "expected a contract (" + one_of(words) + "), found " + quote(name) + hint);
}

Contracts parse_contracts(std::string_view value, const Place &place, std::size_t offset) {
    Contracts contracts;
    for (const Piece &piece : split(value, ",")) {
        contracts.flags |= parse_contract(piece.text, place, offset + piece.offset).flags;
    }
    return contracts;
}

Required parse_require(std::string_view value, const Place &place) {
    Required required;
    if (trimmed(value).empty()) {
        required.everywhere = Contracts{};
    }
    for (const Piece &piece : split(value, ";")) {
        // A comma before the first '=' means that a ',' was written instead of a ';'.
        const std::size_t equals = piece.text.find('=');
        const bool of_op = equals < piece.text.find(',');
        if (!of_op) {
            if (piece.text.empty()) {
                parse_contract(piece.text, place, piece.offset);
            }
            if (required.everywhere) {
                reject(place, piece.offset,
                       "the contracts of all ops are given twice; keep one list, with ',' between contracts");
            }
            required.everywhere = parse_contracts(piece.text, place, piece.offset);
            continue;
        }
        const std::string_view op = parse_op_name(trimmed(piece.text.substr(0, equals)), place, piece.offset);
        const Contracts contracts = parse_contracts(piece.text.substr(equals + 1), place, piece.offset + equals + 1);
        if (!required.per_op.emplace(op, contracts).second) {
            reject(place, piece.offset, "op " + quote(op) + " is given twice; keep one list");
        }
    }
    return required;
}

} // namespace opdock::core
