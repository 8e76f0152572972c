#include "cli/print_document.hpp"

#include <sstream>
#include <vector>

#include <doctest/doctest.h>

using namespace opdock::cli;
using nlohmann::json;

namespace {

template<class Print>
std::string printed_by(Print print) {
    std::ostringstream out;
    std::streambuf *before = std::cout.rdbuf(out.rdbuf());
    print();
    std::cout.rdbuf(before);
    return out.str();
}

} // namespace

TEST_CASE("a list that is printed entry by entry looks as the document would as a whole") {
    const auto entry_of = [](int value) {
        return json{{"name", "a\nb\x7f\xff" + std::to_string(value)}, {"of", {{"value", value}, {"none", json()}}}};
    };
    for (const std::vector<int> &values : {std::vector<int>{}, {1}, {1, 2, 3}}) {
        json entries = json::array();
        for (const int value : values) {
            entries.push_back(entry_of(value));
        }
        const std::string whole = printed_by([&] {
            print_document({{"schema", "x/1"}, {"database", "d]}"}, {"entries", entries}});
        });
        CHECK(printed_by([&] {
                  print_with_list({{"schema", "x/1"}, {"database", "d]}"}}, "entries", values, entry_of);
              }) == whole);
    }
}
