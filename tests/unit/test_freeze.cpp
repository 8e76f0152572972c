// A host with frozen choices, and the manifest of them.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "made_host.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

json frozen(MadeHost &host, const char *expected = nullptr) {
    return host->freeze(expected);
}

// The implementation that serves test.add for these dtypes on the CPU; "" if there is none.
std::string choice(const json &manifest, const char *dtypes) {
    for (const json &one : manifest.at("choices")) {
        for (const json &tuple : one.at("dtypes")) {
            if (one.at("op") == "test.add" && one.at("device") == "cpu" && tuple == dtypes) {
                return one.at("impl_id").get<std::string>();
            }
        }
    }
    return "";
}

void add_two(MadeHost &host) {
    auto narrow = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT, "", 1.0F);
    narrow->dtypes = "f32";
    host.add(std::move(narrow));
    host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
}

} // namespace

TEST_CASE("a manifest has who serves each op for each combination of dtypes, and a digest of just that") {
    MadeHost host;
    add_two(host);
    const json manifest = frozen(host);
    CHECK(manifest.at("schema") == "opdock.frozen/1");
    CHECK(choice(manifest, "f32") == "default.one");
    CHECK(choice(manifest, "bf16") == "reference.two");
    CHECK(choice(manifest, "e4m3") == "");
    CHECK(frozen(host) == manifest);
    MadeHost same;
    add_two(same);
    CHECK(frozen(same) == manifest);
    MadeHost other;
    other.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    CHECK(frozen(other).at("digest") != manifest.at("digest"));
}

TEST_CASE("a manifest has calls that leave out an optional tensor and with it a dtype") {
    MadeHost host;
    auto pairs = std::make_unique<Made>("default.pairs", OPDOCK_KIND_DEFAULT);
    pairs->op = "test.pair";
    pairs->dtypes = "f32,f32|f32,bf16";
    host.add(std::move(pairs));
    const json manifest = frozen(host);
    std::vector<std::string> tuples;
    for (const json &one : manifest.at("choices")) {
        CHECK(one.at("op") == "test.pair");
        tuples.insert(tuples.end(), one.at("dtypes").begin(), one.at("dtypes").end());
    }
    CHECK(tuples == std::vector<std::string>{"f32,-", "f32,bf16", "f32,f32"});
}

TEST_CASE("nothing that would change a choice of a frozen host is done") {
    MadeHost host;
    add_two(host);
    const core::PolicyPtr policy =
        std::make_shared<const core::Policy>(host->make_policy(std::array{core::Setting{"prefer", "reference"}}));
    frozen(host);
    const auto refused = [&](auto function) {
        const core::Error error = thrown_by(function);
        CHECK(error.status() == OPDOCK_FROZEN);
        CHECK(contains(error.what(), "the host is frozen"));
    };
    refused([&] { host->set_program_policy(policy); });
    refused([&] { host->push_scope(policy); });
    refused([&] { host->reload_policy(); });
    refused([&] { host->load("/opt/acme/libacme.so"); });
    refused([&] { host->reset_health(nullptr, nullptr); });
    refused([&] { host->refresh_availability(); });
    refused([&] { host->import_tuning("", "a.yaml"); });
    refused([&] { host->register_module("late", "", [](opdock_registry *) { return OPDOCK_OK; }); });
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("a scope of before the host was frozen means nothing afterwards") {
    MadeHost host;
    add_two(host);
    const core::PolicyPtr policy =
        std::make_shared<const core::Policy>(host->make_policy(std::array{core::Setting{"prefer", "reference"}}));
    host->push_scope(policy);
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
    CHECK(choice(frozen(host), "f32") == "default.one");
    CHECK(rows.added(host.op()) == 1);
    host->pop_scope();
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("what is chosen stays chosen on a frozen host, however often it fails, and nothing falls back") {
    MadeHost host;
    Made &one = host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    Made &two = host.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    frozen(host);
    one.status = OPDOCK_FAILED;
    Rows rows;
    for (int i = 0; i < 5; ++i) {
        CHECK(rows.call(host.op()) == OPDOCK_FAILED);
        CHECK(contains(last_error(), "Nothing else is tried because strict is set (the host is frozen)"));
    }
    one.status = OPDOCK_OK;
    CHECK(rows.added(host.op()) == 1);
    CHECK(two.calls == 0);
}

TEST_CASE("a host is frozen as a manifest has it, or not at all, with what differs") {
    MadeHost first;
    add_two(first);
    const std::string manifest = frozen(first).dump();
    MadeHost same;
    add_two(same);
    CHECK(frozen(same, manifest.c_str()).dump() == manifest);
    MadeHost other;
    other.add("reference.two", OPDOCK_KIND_REFERENCE, {}, 2);
    const core::Error error = thrown_by([&] { frozen(other, manifest.c_str()); });
    CHECK(error.status() == OPDOCK_INVALID_POLICY);
    CHECK_FALSE(other->is_frozen());
    CHECK(contains(error.what(), "op 'test.add' on cpu ("));
    CHECK(contains(error.what(), ", f32: expected 'default.one' of plugin 'module-1' (without a build id, no "
                                 "configs), found 'reference.two' of plugin 'module-1'"));
    Rows rows;
    other.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1); // not frozen
    CHECK(rows.added(other.op()) == 1);
}

TEST_CASE("what is no manifest, or was changed, is refused") {
    MadeHost host;
    add_two(host);
    const auto refusal = [&](const std::string &text) {
        const core::Error error = thrown_by([&] { frozen(host, text.c_str()); });
        CHECK(error.status() == OPDOCK_INVALID_ARGUMENT);
        return std::string(error.what());
    };
    CHECK(contains(refusal(""), "it is not JSON"));
    CHECK(contains(refusal("{"), "it is not JSON"));
    CHECK(contains(refusal("[]"), "its schema is different"));
    CHECK(contains(refusal(R"({"schema": "opdock.frozen/2"})"), "its schema is different"));
    CHECK(contains(refusal(R"({"schema": "opdock.frozen/1"})"), "choices"));
    CHECK(contains(refusal(R"({"schema": "opdock.frozen/1", "choices": [{"op": 3}]})"), "this is not a manifest"));
    MadeHost other;
    add_two(other);
    json changed = frozen(other);
    changed["choices"][0]["impl_id"] = "vendor.acme";
    CHECK(contains(refusal(changed.dump()), "its digest does not match its choices"));
    CHECK_FALSE(host->is_frozen());
}

TEST_CASE("of many ops that are served otherwise eight are told, and how many more there are") {
    const auto add_ops = [](MadeHost &host, const char *impl_id) {
        static std::vector<std::unique_ptr<Made>> made;
        host.module("ops", [&](opdock_registry *registry) {
            for (int i = 0; i < 10; ++i) {
                const std::string op = "test.op" + std::to_string(i);
                declare(registry, (op + "(x: f32[n]) -> (y: f32[n])").c_str());
                Made &one = *made.emplace_back(std::make_unique<Made>(impl_id, OPDOCK_KIND_DEFAULT));
                one.op = op;
                register_made(registry, one);
            }
            return OPDOCK_OK;
        });
    };
    MadeHost here, there;
    add_ops(there, "default.there");
    add_ops(here, "default.here");
    const std::string expected = frozen(there).dump();
    const std::string message = message_of([&] { (void)frozen(here, expected.c_str()); });
    CHECK(contains(message, "op 'test.op7' on cpu"));
    CHECK_FALSE(contains(message, "op 'test.op8' on cpu"));
    CHECK(message.ends_with("\n  and 2 more"));
}

TEST_CASE("dtypes for which a choice differs alike are one line, of the first and how many more there are") {
    const auto add_one = [](MadeHost &host, const char *impl_id) {
        auto one = std::make_unique<Made>(impl_id, OPDOCK_KIND_DEFAULT);
        one->dtypes = "f32|f16|bf16";
        host.add(std::move(one));
    };
    MadeHost here, there;
    add_one(here, "default.here");
    add_one(there, "default.there");
    const std::string expected = frozen(there).dump();
    const std::string message = message_of([&] { (void)frozen(here, expected.c_str()); });
    CHECK(contains(message, ", bf16 and 2 more: expected 'default.there'"));
}
