#include "cli/status_line.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

TEST_CASE("a terminal shows what is being done, on one line that goes") {
    std::string text;
    {
        StatusLine line(12, [&](const std::string &piece) { text += piece; });
        line.show("reading");
        line.show("writing a lot of files");
        line.show("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc");
        line.show("\x1b[2J");
    }
    CHECK(text == "\rreading\x1b[K\rwriting a l\x1b[K\r\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6"
                  "\xc3\xbc\xc3\xa4\xc3\xb6\x1b[K\r\\x1b[2J\x1b[K\r\x1b[K");
}

TEST_CASE("elsewhere nothing is shown") {
    std::string text;
    StatusLine line(0, [&](const std::string &piece) { text += piece; });
    line.show("reading");
    line.clear();
    CHECK(text.empty());
}
