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
    CHECK_THROWS_WITH_AS(find_op(small_document(), "nothing_like_it"),
                         "no plugin declares the op 'nothing_like_it'; 'plugin-ls' lists the available ones",
                         opdock::cli::Failure);
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
    CHECK_FALSE(lacks_requested(document)); // the rejected plugin was not requested by name
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
    CHECK(repeats("[opdock] [warning] Plugin '/usr/lib/opdock/plugins/libold.so' rejected (OPDOCK-E012): plugin "
                  "'libold.so' was built for ABI 7.0; this host supports 1.0.\nRebuild it.",
                  document));
    CHECK(repeats("[opdock] [warning] /x/plugin.json: broken", document));
    document["plugins"][0]["warnings"] = {"'libacme.so' changes the locale when it is loaded"};
    CHECK(repeats("[opdock] [warning] Plugin 'libacme.so' changes the locale when it is loaded", document));
    CHECK_FALSE(repeats("[opdock] [warning] PLUGIN_PREFRE: did you mean PLUGIN_PREFER?", document));
}

TEST_CASE("rejected and skipped plugins are those that are not loaded") {
    const json plugins = rejected_plugins(small_document());
    REQUIRE(plugins.size() == 2);
    CHECK(plugins[0]["status"] == "rejected");
    CHECK(plugins[1]["status"] == "skipped");
}

TEST_CASE("a document is narrowed to a plugin, a vendor or a type of device") {
    json document = small_document();
    document["vendors"] = json::array();
    document["plugins"][0]["vendor"] = "acme";
    document["plugins"].push_back({{"id", "reference"}, {"vendor", "opdock"}, {"status", "loaded"}});
    const auto shown = [&](const Filter &filter) {
        const json kept = filtered(document, filter);
        std::string text;
        for (const json &plugin : kept["plugins"]) {
            text += words(plugin["id"]) + " ";
        }
        text += "|";
        for (const json &op : kept["ops"]) {
            text +=
                " " + words(op["op"]) + ":" + words(op["implementations"].size()) + ":" + words(op["chains"].size());
        }
        return text;
    };
    CHECK(filtered(document, {}) == document);
    CHECK(shown({"acme", "", ""}) == "acme | rmsnorm_fwd:1:1");
    CHECK(shown({"", "Acme", ""}) == "acme | rmsnorm_fwd:1:1");
    CHECK(shown({"reference", "", ""}) == "reference | gelu:1:1 rmsnorm_fwd:1:1");
    CHECK(shown({"", "opdock", ""}) == "gpu reference | gelu:1:1 rmsnorm_fwd:1:1");
    document["ops"][1]["chains"][0]["chain"] = {"reference.cpp"}; // as if the policy denied acme
    CHECK(filtered(document, {"acme", "", ""})["ops"][0]["chains"][0]["chain"] == json{"reference.cpp"});
    document["ops"][0]["chains"][0]["device"] = "cpu";
    CHECK(shown({"", "", "cpu"}).starts_with("acme - gpu reference | gelu:1:1 rmsnorm_fwd:2:"));
    document["vendors"] = {{{"name", "ACME"}}, {{"name", "opdock"}}, {{"name", "gone"}}};
    const auto vendors = [&](const Filter &filter) { return words(filtered(document, filter)["vendors"]); };
    CHECK(vendors({}) == words(document["vendors"]));
    CHECK(vendors({"acme", "", ""}) == words(json{{{"name", "ACME"}}}));
    CHECK(vendors({"reference", "", ""}) == words(json{{{"name", "opdock"}}}));
    CHECK(vendors({"", "acme", ""}) == words(json{{{"name", "ACME"}}}));
    CHECK_THROWS_WITH(filtered(document, {"acmee", "", ""}), "no plugin has the id 'acmee'; did you mean 'acme'?");
    CHECK_THROWS_WITH(filtered(document, {"", "nobody", ""}), "no plugin is of vendor 'nobody'");
    CHECK_THROWS_WITH(filtered(document, {"", "", "cqu"}),
                      "no plugin is for the device type 'cqu'; did you mean 'cpu'?");
}
