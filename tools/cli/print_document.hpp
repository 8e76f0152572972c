// Output of JSON documents, the same for all tools.
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

// Prints the members in their order in the document.
inline void print_in_order(const nlohmann::ordered_json &document) {
    std::cout << document_text(document) << '\n';
}

// Prints a document with one more member, a list of the results of `entry_of` for `values`. Only one entry at a time is
// in memory: a list of 200,000 takes a gigabyte as one document.
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

// Prints the schema first, for readers of the beginning only; the other members in nlohmann's order.
inline void print_document(const nlohmann::json &document) {
    nlohmann::ordered_json shown;
    shown["schema"] = document.at("schema");
    for (const auto &[name, value] : document.items()) {
        shown[name] = value;
    }
    print_in_order(shown);
}

} // namespace opdock::cli
