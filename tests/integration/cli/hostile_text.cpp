// What files, plugins and command lines say on its way to a terminal.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using nlohmann::json;
using opdock::test::contains;
using opdock::test::Finished;
using opdock::test::fixture;
using opdock::test::TemporaryDirectory;
using opdock::test::Tool;

namespace {

// A control sequence of C1, as UTF-8 and as a byte, one of C0, a change of the direction of writing, and DEL.
constexpr const char *hostile = "\u009b2K\u202eos.\x9b"
                                "1A\x1b]0;t\x07\u2066\x7f";

// Whether a terminal shows each character of it and obeys none.
bool is_harmless(const std::string &text) {
    for (const char *const steers : {"\x1b", "\x07", "\x7f", "\u009b", "\u202e", "\u2066"}) {
        if (contains(text, steers)) {
            return false;
        }
    }
    // A byte that is no UTF-8 where it stands.
    return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)) == json(text);
}

void check_harmless(const char *program, const std::vector<std::string> &arguments) {
    const Finished finished = Tool(program, {}).run(arguments);
    CAPTURE(program);
    CAPTURE(arguments.front());
    CAPTURE(json(finished.out).dump(-1, ' ', true, json::error_handler_t::replace));
    CAPTURE(json(finished.err).dump(-1, ' ', true, json::error_handler_t::replace));
    CHECK(!(finished.out + finished.err).empty());
    CHECK(is_harmless(finished.out));
    CHECK(is_harmless(finished.err));
    if (!finished.out.empty() && std::find(arguments.begin(), arguments.end(), "--json") != arguments.end()) {
        CHECK(json::accept(finished.out));
    }
}

} // namespace

TEST_CASE("no tool lets the name of a file steer a terminal") {
    const TemporaryDirectory directory;
    const std::string file = (directory.path() / ("lib" + std::string(hostile) + ".so")).string();
    std::filesystem::copy_file(fixture("good"), file);
    check_harmless(PLUGIN_LS, {"--modules", file});
    check_harmless(PLUGIN_LS, {"--modules", file, "--json"});
    check_harmless(PLUGIN_LS, {"--modules", file, "--why", "fixture.add"});
    check_harmless(PLUGIN_LS, {"--check", file});
    check_harmless(PLUGIN_LS, {"--check", file, "--json"});
    check_harmless(PLUGIN_LS, {"--modules", file, "--bug-report"});
    check_harmless(PLUGIN_CHECK, {file, "--seed", "1"});
    check_harmless(PLUGIN_CHECK, {file, "--seed", "1", "--json"});
    check_harmless(PLUGIN_RUN, {"fixture.add", "--modules", file});
    check_harmless(PLUGIN_RUN, {"fixture.add", "--in", "a=" + file, "--in", "b=" + file, "--modules", file});
    check_harmless(PLUGIN_BENCH, {"fixture.add", "--modules", file + "x"});
    check_harmless(PLUGIN_BENCH, {"--shapes", file, "--json"});
    check_harmless(PLUGIN_TUNE, {"import", file});
    check_harmless(PLUGIN_TUNE, {"--from", file, "--json"});
    check_harmless(PLUGIN_SIGN, {"digest", file});
    check_harmless(PLUGIN_SIGN, {"digest", file, "--json"});
    check_harmless(PLUGIN_SIGN, {"verify", file});
    check_harmless(PLUGIN_SIGN, {"verify", file, "--json"});
    check_harmless(PLUGIN_SIGN, {"keygen", file, "--no-passphrase"});
    check_harmless(PLUGIN_PACK, {"inspect", file});
    check_harmless(PLUGIN_PACK, {"verify", file, "--json"});
}

TEST_CASE("no tool lets a word of its command line steer a terminal") {
    for (const char *const program :
         {PLUGIN_LS, PLUGIN_CHECK, PLUGIN_RUN, PLUGIN_BENCH, PLUGIN_TUNE, PLUGIN_SIGN, PLUGIN_PACK}) {
        check_harmless(program, {hostile});
        check_harmless(program, {"--" + std::string(hostile)});
    }
}

TEST_CASE("no tool lets a plugin's message steer a terminal") {
    const std::string file = fixture("forges");
    check_harmless(PLUGIN_CHECK,
                   {file, "--op", "forges.speaks", "--impl", "vendor.forges", "--case", "0", "--seed", "1"});
    check_harmless(PLUGIN_CHECK,
                   {file, "--op", "forges.speaks", "--impl", "vendor.forges", "--case", "0", "--seed", "1", "--json"});
    check_harmless(PLUGIN_RUN,
                   {"forges.speaks", "--in", "input=random:f32[4]", "--impl", "vendor.forges", "--modules", file});
    check_harmless(PLUGIN_BENCH, {"forges.speaks", "--shape", "input=f32[4]", "--modules", file, "--json"});
}
