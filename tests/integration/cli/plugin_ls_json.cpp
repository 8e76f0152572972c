// The schema opdock.plugin-ls/1, key by key, as scripts rely on it.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

enum class Is { any, text, text_or_null, number, seconds, boolean, object, list, list_or_null };

bool has_type(const json &value, Is type) {
    switch (type) {
    case Is::any:
        return true;
    case Is::text:
        return value.is_string();
    case Is::text_or_null:
        return value.is_string() || value.is_null();
    case Is::number:
        return value.is_number_integer();
    case Is::seconds:
        return value.is_number() && value >= 0;
    case Is::boolean:
        return value.is_boolean();
    case Is::object:
        return value.is_object();
    case Is::list:
        return value.is_array();
    case Is::list_or_null:
        return value.is_array() || value.is_null();
    }
    return false;
}

// Checks that the object has exactly these members, each with its type.
void check_members(const json &object, const std::map<std::string, Is> &members) {
    REQUIRE(object.is_object());
    for (const auto &[name, type] : members) {
        const std::string &tried = name;
        INFO(tried << " in " << object.dump());
        REQUIRE(object.contains(name));
        CHECK(has_type(object[name], type));
    }
    for (const auto &[name, value] : object.items()) {
        const std::string &tried = name;
        INFO("unexpected " << tried << " in " << object.dump());
        CHECK(members.count(name) == 1);
    }
}

void check_texts(const json &list) {
    for (const json &element : list) {
        CHECK(element.is_string());
    }
}

void check_one_of(const json &value, const std::set<std::string> &allowed) {
    INFO(value.dump());
    CHECK(allowed.count(value.get<std::string>()) == 1);
}

// `variables` lists the settings that exist.
void check_policy(const json &policy, const json &variables) {
    std::map<std::string, Is> members = {{"prefer", Is::text},
                                         {"strict", Is::boolean},
                                         {"allow_vendors", Is::list_or_null},
                                         {"deny_vendors", Is::list_or_null},
                                         {"per_op", Is::object},
                                         {"retry_failed", Is::seconds},
                                         {"fallback_to_cpu", Is::boolean},
                                         {"require", Is::list_or_null},
                                         {"require_per_op", Is::object},
                                         {"trust", Is::text},
                                         {"trusted_sha256", Is::list_or_null},
                                         {"default_plugins", Is::list_or_null},
                                         {"sources", Is::object}};
    for (const json &variable : variables) {
        if (variable["is_policy"] == true && variable["name"] != "PLUGIN_PREFER_VENDOR") {
            std::string setting = variable["name"].get<std::string>().substr(std::string("PLUGIN_").size());
            std::ranges::transform(setting, setting.begin(), [](unsigned char c) { return std::tolower(c); });
            members.try_emplace(setting, Is::any);
        }
    }
    check_members(policy, members);
    for (const auto &[op, order] : policy["per_op"].items()) {
        CHECK(order.is_array());
        check_texts(order);
    }
    for (const auto &[setting, source] : policy["sources"].items()) {
        CHECK(source.is_string());
    }
}

void check_plugin(const json &plugin) {
    check_members(plugin, {{"id", Is::text},
                           {"version", Is::text},
                           {"vendor", Is::text},
                           {"path", Is::text},
                           {"build_id", Is::text},
                           {"replaced_by", Is::text_or_null},
                           {"requested", Is::boolean},
                           {"warnings", Is::list},
                           {"left_out", Is::list},
                           {"status", Is::text},
                           {"code", Is::text},
                           {"reason", Is::text}});
    check_one_of(plugin["status"], {"loaded", "rejected", "skipped"});
    CHECK(plugin["code"].get<std::string>().empty() == (plugin["status"] == "loaded"));
    CHECK(plugin["reason"].get<std::string>().empty() == (plugin["status"] == "loaded"));
}

void check_op(const json &op) {
    check_members(op, {{"op", Is::text}, {"signature", Is::text}, {"implementations", Is::list}, {"chains", Is::list}});
    std::set<std::string> ids;
    for (const json &implementation : op["implementations"]) {
        check_members(implementation, {{"impl_id", Is::text},
                                       {"kind", Is::text},
                                       {"vendor", Is::text},
                                       {"priority", Is::number},
                                       {"device", Is::text},
                                       {"dtypes", Is::list},
                                       {"architectures", Is::list},
                                       {"alignment", Is::number},
                                       {"deterministic", Is::boolean},
                                       {"batch_invariant", Is::boolean},
                                       {"capture_safe", Is::boolean},
                                       {"needs_contiguous", Is::boolean},
                                       {"knobs", Is::list},
                                       {"available", Is::text},
                                       {"reason", Is::text},
                                       {"plugin", Is::text}});
        check_texts(implementation["dtypes"]);
        for (const json &knob : implementation["knobs"]) {
            check_one_of(knob["type"], {"int", "bool"});
            check_members(knob, {{"name", Is::text},
                                 {"type", Is::text},
                                 {"minimum", Is::number},
                                 {"maximum", Is::number},
                                 {"default", Is::number},
                                 {"doc", Is::text}});
        }
        check_one_of(implementation["available"], {"yes", "no", "unknown"});
        check_one_of(implementation["kind"], {"default", "vendor", "reference"});
        ids.insert(implementation["impl_id"].get<std::string>());
    }
    for (const json &chain : op["chains"]) {
        check_members(chain, {{"device", Is::text}, {"dtypes", Is::list}, {"chain", Is::list}});
        check_texts(chain["dtypes"]);
        for (const json &id : chain["chain"]) {
            check_one_of(id, ids);
        }
    }
}

void check_document(const json &document) {
    check_members(document, {{"schema", Is::text},
                             {"host", Is::object},
                             {"policy", Is::object},
                             {"variables", Is::list},
                             {"paths", Is::list},
                             {"problems", Is::list},
                             {"plugins", Is::list},
                             {"vendors", Is::list},
                             {"ops", Is::list}});
    CHECK(document["schema"] == "opdock.plugin-ls/1");
    check_members(document["host"], {{"version", Is::text}, {"abi", Is::list}});
    CHECK(document["host"]["abi"].size() == 2);
    CHECK(document["host"]["version"] == OPDOCK_VERSION);
    check_policy(document["policy"], document["variables"]);
    for (const json &path : document["paths"]) {
        check_members(path, {{"path", Is::text}, {"origin", Is::text}});
    }
    for (const json &variable : document["variables"]) {
        check_members(
            variable,
            {{"name", Is::text}, {"value", Is::text_or_null}, {"default", Is::text}, {"is_policy", Is::boolean}});
    }
    for (const json &problem : document["problems"]) {
        check_members(problem,
                      {{"message", Is::text}, {"requested", Is::boolean}, {"taken", Is::boolean}, {"code", Is::text}});
    }
    for (const json &plugin : document["plugins"]) {
        check_plugin(plugin);
    }
    for (const json &vendor : document["vendors"]) {
        check_members(vendor, {{"name", Is::text},
                               {"device_name", Is::text},
                               {"dispatch_key", Is::text},
                               {"device_query_command", Is::text}});
    }
    for (const json &op : document["ops"]) {
        check_op(op);
    }
}

} // namespace

TEST_CASE("the document has every key of its schema, of the right type, and no other") {
    PluginLs tool({fixture("good"), fixture("default_adder"), fixture("reference_adder"), fixture("other_abi"),
                   fixture("same_id"), fixture("for_cuda"), REFERENCE_PLUGIN});
    tool.with("PLUGIN_PER_OP", "fixture.add=vendor:acme|default").with("PLUGIN_SKIP_CUDA", "1");
    tool.with("PLUGIN_ALLOW_VENDORS", "acme").with("PLUGIN_DENY_VENDORS", "globex");
    const auto broken = tool.home().write("plugin.json", R"({"library": 3})");
    const Finished finished = tool.run({"--json", "--modules", broken.string()});
    CHECK(finished.code == 1); // not everything requested was accepted
    const json document = json::parse(finished.out);
    check_document(document);
    REQUIRE(document["problems"].size() == 1);
    CHECK(document["problems"][0]["requested"] == true);
    CHECK(document["problems"][0]["taken"] == false);
    std::map<std::string, int> count;
    for (const json &plugin : document["plugins"]) {
        ++count[plugin["status"].get<std::string>()];
    }
    CHECK(count["loaded"] == 4);
    CHECK(count["rejected"] >= 1);
    CHECK(count["skipped"] >= 1);
    CHECK(document["ops"].size() > 10);
    CHECK(document["policy"]["sources"]["per_op.fixture.add"] == "PLUGIN_PER_OP");
    CHECK(document["policy"]["allow_vendors"] == json{"acme"});
}

TEST_CASE("the document has what a vendor registers for frameworks") {
    const json document = json::parse(PluginLs({fixture("registers_everything")}).run({"--json"}).out);
    check_document(document);
    REQUIRE(document["vendors"].size() == 1);
    CHECK(document["vendors"][0]["name"] == "acme");
    CHECK(document["vendors"][0]["dispatch_key"] == "PrivateUse1");
}

TEST_CASE("an empty host is a valid document too") {
    const json document = json::parse(PluginLs({}).run({"--json"}).out);
    check_document(document);
    CHECK(document["plugins"].empty());
    CHECK(document["ops"].empty());
    CHECK(document["policy"]["allow_vendors"].is_null());
}

TEST_CASE("a path that is no UTF-8 leaves the document valid") {
    const std::string path = "/nonexistent/caf\xe9";
    const Finished finished = PluginLs({path}).run({"--json"});
    CHECK(finished.code == 1);
    check_document(json::parse(finished.out));
    PluginLs tool({});
    tool.with("PLUGIN_TUNE_DB", "/nonexistent/caf\xe9");
    check_document(json::parse(tool.run({"--json"}).out)); // it contains the values of all variables
    tool.with("PLUGIN_DENY_VENDORS", "\xe9");
    CHECK(contains(tool.run({"--json"}).err, "unexpected '\\xe9' in '\\xe9'"));
}

TEST_CASE("op and rejected narrow the document") {
    const PluginLs tool({fixture("good"), fixture("other_abi"), REFERENCE_PLUGIN});
    const json op = json::parse(tool.run({"--json", "--op", "fixture.add"}).out);
    check_document(op);
    REQUIRE(op["ops"].size() == 1);
    CHECK(op["ops"][0]["op"] == "fixture.add");
    const json rejected = json::parse(tool.run({"--json", "--rejected"}).out);
    check_document(rejected);
    REQUIRE(rejected["plugins"].size() == 1);
    CHECK(rejected["plugins"][0]["code"] == "OPDOCK-E012");
}

TEST_CASE("why as JSON accounts for every implementation once") {
    PluginLs tool({fixture("good"), fixture("second_vendor"), fixture("default_adder"), fixture("for_cuda")});
    tool.with("PLUGIN_DENY_VENDORS", "globex");
    const json decision = json::parse(tool.run({"--json", "--why", "fixture.add", "--dtype", "f32"}).out);
    CHECK(decision["schema"] == "opdock.plugin-ls.why/1");
    check_members(decision, {{"schema", Is::text},
                             {"op", Is::text},
                             {"device", Is::text},
                             {"dtypes", Is::text_or_null},
                             {"strict", Is::boolean},
                             {"order", Is::text},
                             {"order_source", Is::text},
                             {"chain", Is::list},
                             {"kept", Is::list},
                             {"dropped", Is::list}});
    CHECK(decision["chain"] == json{"default.adder", "vendor.acme"});
    for (const json &kept : decision["kept"]) {
        check_members(kept, {{"impl_id", Is::text}, {"rule", Is::text}});
    }
    std::set<std::string> dropped;
    for (const json &one : decision["dropped"]) {
        check_members(one, {{"impl_id", Is::text}, {"rule", Is::text}, {"reason", Is::text}});
        dropped.insert(one["impl_id"].get<std::string>());
    }
    CHECK(dropped == std::set<std::string>{"vendor.acme-cuda", "vendor.globex"});
}

TEST_CASE("--format json prints what --json does, and --format table what neither does") {
    const PluginLs tool({fixture("good")});
    for (const std::vector<std::string> &question : {std::vector<std::string>(), {"--why", "fixture.add"}}) {
        const auto printed = [&](std::vector<std::string> arguments) {
            arguments.insert(arguments.end(), question.begin(), question.end());
            return tool.run(arguments).out;
        };
        CHECK(printed({"--format", "json"}) == printed({"--json"}));
        CHECK(printed({"--format=table"}) == printed({}));
        CHECK(json::parse(printed({"--format", "json", "--json"})).contains("schema"));
    }
    const Finished wrong = tool.run({"--format", "csv"});
    CHECK(wrong.code == 2);
    CHECK(wrong.err == "plugin-ls: --format 'csv': expected table or json\nTry 'plugin-ls --help'.\n");
}

TEST_CASE("every document begins with its schema") {
    const PluginLs tool({fixture("good")});
    const std::vector<std::pair<std::vector<std::string>, std::string>> questions = {
        {{"--json"}, "opdock.plugin-ls/1"},
        {{"--json", "--why", "fixture.add"}, "opdock.plugin-ls.why/1"},
        {{"--json", "--check", fixture("good")}, "opdock.plugin-ls.check/1"}};
    for (const auto &[question, schema] : questions) {
        CHECK(tool.run(question).out.rfind("{\n  \"schema\": \"" + schema + "\",\n", 0) == 0);
    }
}

TEST_CASE("check as JSON has the verdict and the note") {
    const json good = json::parse(PluginLs({}).run({"--json", "--check", fixture("good")}).out);
    CHECK(good["schema"] == "opdock.plugin-ls.check/1");
    check_members(good, {{"schema", Is::text},
                         {"path", Is::text},
                         {"status", Is::text},
                         {"code", Is::text},
                         {"reason", Is::text},
                         {"note", Is::object},
                         {"warnings", Is::list},
                         {"build_id", Is::text},
                         {"linkage", Is::object}});
    CHECK(good["linkage"]["exports"] == json{"opdock_register"});
    CHECK(good["linkage"]["search_paths"].empty());
    CHECK(good["linkage"]["versions"].contains("GLIBC"));
    CHECK(good["status"] == "ok");
    CHECK(good["note"]["id"] == "acme");
    const Finished rejected = PluginLs({}).run({"--json", "--check", fixture("other_abi")});
    CHECK(rejected.code == 1);
    CHECK(json::parse(rejected.out)["code"] == "OPDOCK-E012");
}
