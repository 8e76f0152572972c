#include "document.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "documents.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;

TEST_CASE("values of every type become words") {
    CHECK(words(json("text")) == "text");
    CHECK(words(json("")) == "-");
    CHECK(words(json(nullptr)) == "-");
    CHECK(words(json(true)) == "yes");
    CHECK(words(json(7)) == "7");
    CHECK(words(json::array()) == "-");
    CHECK(words(json{"a", "b"}, " > ") == "a > b");
}

TEST_CASE("a source reads as what it is") {
    CHECK(source_text("PLUGIN_PREFER") == "from PLUGIN_PREFER");
    CHECK(source_text("built-in") == "built-in");
}

TEST_CASE("an op that nobody declares is a failure with near misses") {
    CHECK_THROWS_WITH_AS(find_op(small_document(), "rmsnorm_fdw"),
                         "no plugin declares the op 'rmsnorm_fdw'; did you mean 'rmsnorm_fwd'?", opdock::cli::Failure);
}

TEST_CASE("a standard op that nobody brings is no misspelling of another") {
    CHECK_THROWS_WITH_AS(find_op(small_document(), "rmsnorm_bwd"),
                         "'rmsnorm_bwd' is a standard op that no loaded plugin implements", opdock::cli::Failure);
}

TEST_CASE("an op is looked for in vain when there is no plugin at all") {
    const json empty = {{"ops", json::array()}};
    CHECK_THROWS_WITH_AS(
        find_op(empty, "no_such_op"),
        "no plugin declares the op 'no_such_op'; no plugin was loaded at all, see 'plugin-ls --rejected' "
        "and '--paths'",
        opdock::cli::Failure);
}

TEST_CASE("each implementation id is listed once") {
    CHECK(impl_ids(small_document()) == std::vector<std::string>{"reference.cpp", "vendor.acme"});
}

TEST_CASE("what was asked for is lacking when a plugin or a place is, not when a manifest was only warned about") {
    json document = small_document();
    CHECK_FALSE(lacks_requested(document)); // the rejected one was merely found
    document["problems"] = {{{"message", "unknown field"}, {"requested", true}, {"taken", true}},
                            {{"message", "gone"}, {"requested", false}, {"taken", false}}};
    CHECK_FALSE(lacks_requested(document));
    document["problems"][1]["requested"] = true;
    CHECK(lacks_requested(document));
    for (const char *status : {"rejected", "skipped"}) {
        json other = small_document();
        other["plugins"][0]["status"] = status;
        CHECK(lacks_requested(other));
    }
}

TEST_CASE("a line of the log repeats what the document says of a plugin or a problem") {
    json document = small_document();
    document["problems"] = {{{"message", "/x/plugin.json: broken"}, {"requested", true}, {"taken", false}}};
    CHECK(
        repeats("[opdock host.cpp:1 WARNING] Plugin '/usr/lib/opdock/plugins/libold.so' rejected (OPDOCK-E012): plugin "
                "'libold.so' was built for ABI 7.0; this host supports 0.1.\nRebuild it.",
                document));
    CHECK(repeats("[opdock host.cpp:1 WARNING] /x/plugin.json: broken", document));
    document["plugins"][0]["warnings"] = {"'libacme.so' changes the locale when it is loaded"};
    CHECK(repeats("[opdock host.cpp:1 WARNING] Plugin 'libacme.so' changes the locale when it is loaded", document));
    CHECK_FALSE(repeats("[opdock host.cpp:1 WARNING] PLUGIN_PREFRE: did you mean PLUGIN_PREFER?", document));
}

TEST_CASE("rejected and skipped plugins are those that are not loaded") {
    const json plugins = rejected_plugins(small_document());
    REQUIRE(plugins.size() == 2);
    CHECK(plugins[0]["status"] == "rejected");
    CHECK(plugins[1]["status"] == "skipped");
}
