// A JSON document as every tool prints one.
#pragma once

#include <iostream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/printable.hpp"

namespace opdock::cli {

template<class Json>
std::string document_text(const Json &document) {
    return printable_json(document.dump(2, ' ', false, Json::error_handler_t::replace));
}

// With its members in this order.
inline void print_in_order(const nlohmann::ordered_json &document) {
    std::cout << document_text(document) << '\n';
}

// The same of a document with one more member, a list of what `entry_of` makes of each of `values`. One entry at a time
// is in memory: a list of 200,000 takes a gigabyte as one document.
template<class Values, class EntryOf>
void print_with_list(nlohmann::ordered_json document, const char *name, const Values &values, EntryOf entry_of) {
    constexpr std::string_view end = "]\n}";
    document[name] = nlohmann::ordered_json::array();
    const std::string text = document_text(document);
    std::cout << std::string_view(text).substr(0, text.size() - end.size());
    bool is_first = true;
    for (const auto &value : values) {
        std::cout << (is_first ? "\n    " : ",\n    ") << indent_further_lines(document_text(entry_of(value)), 4);
        is_first = false;
    }
    std::cout << (is_first ? "" : "\n  ") << end << '\n';
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
