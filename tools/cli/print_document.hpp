// A JSON document as every tool prints one.
#pragma once

#include <iostream>

#include <nlohmann/json.hpp>

namespace opdock::cli {

// The schema first, for those who look at the beginning only; else as nlohmann sorts them.
inline void print_document(const nlohmann::json &document) {
    nlohmann::ordered_json shown;
    shown["schema"] = document.at("schema");
    for (const auto &[name, value] : document.items()) {
        shown[name] = value;
    }
    std::cout << shown.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

} // namespace opdock::cli
