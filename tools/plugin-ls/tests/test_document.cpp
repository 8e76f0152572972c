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

TEST_CASE("an op is looked for in vain when there is no plugin at all") {
    const json empty = {{"ops", json::array()}};
    CHECK_THROWS_WITH_AS(find_op(empty, "gelu"),
                         "no plugin declares the op 'gelu'; no plugin was loaded at all, see 'plugin-ls --rejected' "
                         "and '--paths'",
                         opdock::cli::Failure);
}

TEST_CASE("each implementation id is listed once") {
    CHECK(impl_ids(small_document()) == std::vector<std::string>{"reference.cpp", "vendor.acme"});
}

TEST_CASE("rejected and skipped plugins are those that are not loaded") {
    const json plugins = rejected_plugins(small_document());
    REQUIRE(plugins.size() == 2);
    CHECK(plugins[0]["status"] == "rejected");
    CHECK(plugins[1]["status"] == "skipped");
}
