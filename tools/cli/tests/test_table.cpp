#include "cli/table.hpp"

#include <doctest/doctest.h>

using opdock::cli::Page;
using opdock::cli::Table;

namespace {

std::string last_cell(const std::string &cell, size_t width) {
    Table table;
    table.row({{"f32,f32"}, {"n=4096 rows=2048 has_rsigma=0"}, {cell}});
    return table.text(Page(false, width));
}

} // namespace

TEST_CASE("a last cell goes on below itself, and near the margin where its column has no room for a word") {
    CHECK(last_cell("block=64 stages=3", 80) == "  f32,f32  n=4096 rows=2048 has_rsigma=0  block=64 stages=3\n");
    CHECK(last_cell("block=64 stages=3", 58) ==
          "  f32,f32  n=4096 rows=2048 has_rsigma=0  block=64\n                                          stages=3\n");
    CHECK(last_cell("block=64 stages=3", 54) == "  f32,f32  n=4096 rows=2048 has_rsigma=0  block=64\n      stages=3\n");
    CHECK(last_cell("block=64 stages=3", 48) == "  f32,f32  n=4096 rows=2048 has_rsigma=0\n      block=64 stages=3\n");
}

TEST_CASE("where words are broken, one that is too wide for its column goes on near the margin") {
    const auto shown = [](const std::string &path, size_t width) {
        Table table;
        table.row({{"acme"}, {"loaded"}, {path}});
        return table.text(Page(false, width, true));
    };
    const std::string path = "/usr/lib/opdock/plugins/libacme.so";
    CHECK(shown(path, 50) == "  acme  loaded  /usr/lib/opdock/plugins/libacme.so\n");
    CHECK(shown(path, 49) == "  acme  loaded\n      /usr/lib/opdock/plugins/libacme.so\n");
    CHECK(shown(path, 40) == "  acme  loaded\n      /usr/lib/opdock/plugins/libacme.so\n");
    CHECK(shown(path, 39) == "  acme  loaded\n      /usr/lib/opdock/plugins/\n      libacme.so\n");
}

TEST_CASE("a head without rows is no text") {
    Table table;
    table.head({"a", "b"});
    CHECK(table.text(Page(false)) == "");
}

TEST_CASE("a note is as wide as the page, and its lines keep how they are indented") {
    Table table;
    table.head({"a", "b"});
    table.row({{"first"}, {"second"}});
    table.note("one two three four five\n  six seven eight nine\nten");
    CHECK(table.text(Page(false, 24)) == "  a      b\n  first  second\n      one two three four\n      five\n"
                                         "        six seven eight\n          nine\n      ten\n");
}
