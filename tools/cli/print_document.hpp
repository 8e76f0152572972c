// A JSON document as every tool prints one.
#pragma once

#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/printable.hpp"

namespace opdock::cli {

// With its members in this order.
inline void print_in_order(const nlohmann::ordered_json &document) {
    std::cout << printable_json(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) << '\n';
}

// The schema first, for those who look at the beginning only; else as nlohmann sorts them.
inline void print_document(const nlohmann::json &document) {
    nlohmann::ordered_json shown;
    shown["schema"] = document.at("schema");
    for (const auto &[name, value] : document.items()) {
        shown[name] = value;
    }
    print_in_order(shown);
}

} // namespace opdock::cli
