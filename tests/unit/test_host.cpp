#include "host/host.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "fake_device.hpp"
#include "inspect/library_place.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::RawEnvironment;

namespace {

std::string fixture(const std::string &name) {
    return fixtures_folder().string() + "/lib" + name + ".so";
}

nlohmann::json plugin_row(MadeHost &host, const std::string &path) {
    const nlohmann::json described = host->describe();
    for (const auto &row : described["plugins"]) {
        if (row["path"] == path) {
            return row;
        }
    }
    return {};
}

} // namespace

TEST_CASE("a host without plugins opens, and says of every op that nobody declares it") {
    MadeHost host;
    CHECK(thrown_by([&] { host->op("rmsnorm_fwd"); }).status() == OPDOCK_UNKNOWN_OP);
}

TEST_CASE("a vendor's shared object named in PLUGIN_MODULES serves a call") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good")}});
    Rows a, b;
    const Op add = host.op("fixture.add");
    CHECK(add.try_call({a.x, b.x}, {a.y}) == OPDOCK_OK);
    CHECK(a.out[1] == 2 + 2 + 100);
    CHECK(host.logged("Registered impl_ids: ['vendor.acme']") == 1);
}

TEST_CASE("what the program adds later is among the registered impl_ids") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good")}});
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    CHECK(host.logged("Registered impl_ids: ['default.one', 'vendor.acme']") == 1);
}

TEST_CASE("a module given by the program is searched before the environment's") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("same_id")}}, "/nonexistent", {fixture("good")});
    CHECK(plugin_row(host, fixture("good"))["status"] == "loaded");
    CHECK(plugin_row(host, fixture("same_id"))["status"] == "skipped");
}

TEST_CASE("a rejected plugin leaves nothing and the others load") {
    for (const char *name : {"returns_error", "throws", "duplicate", "null_kernel", "bad_name", "bad_signature",
                             "undeclared_op", "bad_kind", "bad_dtypes", "small_struct", "no_entry", "no_note",
                             "other_abi", "missing_library", "unresolved_symbol", "needs_cpu"}) {
        CAPTURE(name);
        MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture(name) + "," + fixture("default_adder")},
                                     {"PLUGIN_DEFAULT_PLUGINS", "adder"}});
        const nlohmann::json row = plugin_row(host, fixture(name));
        CHECK(row["status"] == "rejected");
        CHECK(row["code"].get<std::string>().starts_with("OPDOCK-E0"));
        CHECK_FALSE(row["reason"].get<std::string>().empty());
        CHECK(plugin_row(host, fixture("default_adder"))["status"] == "loaded");
        CHECK(host->describe()["ops"].size() == 1);
        CHECK(host->describe()["ops"][0]["implementations"].size() == 1);
    }
}

TEST_CASE("an implementation for a device that the note does not name is told, and taken") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("undeclared_device") + "," + fixture("good")}});
    CHECK(host.logged("implementation 'vendor.acme-npu' for op 'fixture.add' is for device 'npu', which the plugin's "
                      "note does not name") == 1);
    CHECK(host.logged("does not name") == 1);
    CHECK(plugin_row(host, fixture("undeclared_device"))["status"] == "loaded");
}

TEST_CASE("plugins are searched first in the folder beside the library, unless other folders are given") {
    core::HostOptions options;
    options.environment = core::make_environment("PLUGIN_", {}, false);
    options.cache_folder = "";
    options.log = core::Log([](void *, int32_t, const char *) {}, nullptr);
    const core::Host host(options);
    const nlohmann::json paths = host.describe()["paths"];
    REQUIRE_FALSE(paths.empty());
    CHECK(paths[0]["origin"] == "install");
    CHECK(paths[0]["path"] == (core::library_directory() / "opdock" / "plugins").string());
}

TEST_CASE("a plugin that is replaced after it was found and before it is looked at is rejected, whatever it is now") {
    const TemporaryDirectory folder;
    const std::filesystem::path first = folder.path() / "one", second = folder.path() / "two";
    for (const auto &path : {first, second}) { // one of them has the lower inode
        std::filesystem::copy_file(fixture("good"), path);
    }
    for (const auto &[found, other] : {std::pair(first, second), std::pair(second, first)}) {
        struct Replacement {
            std::filesystem::path plugin, other;
        } replacement;
        const TemporaryDirectory plugins;
        plugins.write("liba.so", "no plugin");
        replacement = {plugins.path() / "libb.so", plugins.path() / "other"};
        std::filesystem::create_hard_link(found, replacement.plugin);
        std::filesystem::create_hard_link(other, replacement.other);
        core::HostOptions options;
        options.environment = core::make_environment("PLUGIN_", {}, false);
        options.standard_directories = {{plugins.path().string(), "test"}};
        options.cache_folder = "";
        options.log = core::Log(
            [](void *self, int32_t, const char *line) {
                const Replacement &paths = *static_cast<const Replacement *>(self);
                if (contains(line, "liba.so' rejected")) { // by now both were found
                    std::filesystem::rename(paths.other, paths.plugin);
                }
            },
            &replacement);
        const core::Host host(options);
        const nlohmann::json rows = host.describe()["plugins"];
        REQUIRE(rows.size() == 2);
        CHECK(rows[1]["path"] == replacement.plugin.string());
        CHECK(rows[1]["code"] == core::code_text(core::RejectCode::file_changed));
    }
}

TEST_CASE("strict: a module that was asked for and does not load keeps the host from opening") {
    for (const char *name : {"returns_error", "no_note", "other_abi", "does_not_exist"}) {
        CAPTURE(name);
        const core::Error error = thrown_by([&] {
            MadeHost(RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_MODULES", fixture(name)}});
        });
        CHECK(error.status() == OPDOCK_LOAD_FAILED);
        CHECK(contains(error.what(), name));
    }
}

TEST_CASE("memory that makes attacks easier is a warning, and strict mode refuses it") {
    MadeHost lenient(RawEnvironment{{"PLUGIN_MODULES", fixture("executable_stack")}});
    const nlohmann::json plugin = lenient->describe()["plugins"][0];
    if (plugin["status"] == "rejected") { // glibc 2.41 and newer refuses libraries that want an executable stack
        CHECK(contains(plugin["reason"], "stack"));
    } else {
        REQUIRE(plugin["warnings"].size() == 1);
        CHECK(contains(plugin["warnings"][0], "stack"));
    }
    const core::Error error = thrown_by([&] {
        MadeHost(RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_MODULES", fixture("executable_stack")}});
    });
    CHECK(contains(error.what(), "OPDOCK-E009"));
}

TEST_CASE("a plugin with several faults has all of them reported") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("many_faults")}});
    const std::string reason = plugin_row(host, fixture("many_faults"))["reason"];
    CHECK(contains(reason, "impl_id"));
    CHECK(contains(reason, "signature"));
    CHECK(contains(reason, "errors:"));
}

TEST_CASE("a signature that contradicts another plugin's is rejected and both are named") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good") + "," + fixture("other_signature")}});
    const std::string reason = plugin_row(host, fixture("other_signature"))["reason"];
    CHECK(contains(reason, "'acme-other'"));
    CHECK(contains(reason, "'acme'"));
}

TEST_CASE("an implementation that needs a newer host is left out alone") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("unknown_flag")}});
    CHECK(plugin_row(host, fixture("unknown_flag"))["status"] == "loaded");
    CHECK(host.logged("required_flags") == 1);
}

TEST_CASE("of a plugin that is rejected nothing is told of what would be left out of it") {
    const TemporaryDirectory folder;
    std::filesystem::copy_file(fixture("unknown_flag"), folder.path() / "libfaulty.so");
    folder.write("faulty.tune.yaml", "schema: opdock.tune/1\nbeside: 1\n");
    MadeHost host(RawEnvironment{{"PLUGIN_STRICT", "1"}}, "/nonexistent", {}, {}, {}, false, "/nonexistent",
                  folder.path().string());
    const nlohmann::json row = plugin_row(host, (folder.path() / "libfaulty.so").string());
    CHECK(row["code"] == core::code_text(core::RejectCode::tune_file_wrong));
    CHECK(host.logged("required_flags") == 1);
    CHECK(row["left_out"].empty());
}

TEST_CASE("PLUGIN_SKIP_CUDA skips plugins for CUDA") {
    MadeHost skipping(RawEnvironment{{"PLUGIN_MODULES", fixture("for_cuda")}, {"PLUGIN_SKIP_CUDA", "1"}});
    CHECK(plugin_row(skipping, fixture("for_cuda"))["status"] == "skipped");
    MadeHost loading(RawEnvironment{{"PLUGIN_MODULES", fixture("for_cuda")}});
    CHECK(plugin_row(loading, fixture("for_cuda"))["status"] == "loaded");
}

TEST_CASE("a module of the program is listed as one that nobody asked for by name") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    const nlohmann::json module = host->describe()["plugins"][0];
    CHECK(module["requested"] == false);
    CHECK(module["status"] == "loaded");
    CHECK(module["path"] == "");
    CHECK(module["warnings"].empty());
    CHECK(module["left_out"].empty());
}

TEST_CASE("a plugin loaded late joins the chains of later calls") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good")}, {"PLUGIN_DEFAULT_PLUGINS", "adder"}});
    Rows a, b;
    const Op add = host.op("fixture.add");
    add({a.x, b.x}, {a.y});
    CHECK(a.out[0] == 102);
    host->load(fixture("default_adder"));
    add({a.x, b.x}, {a.y});
    CHECK(a.out[0] == 302);
    CHECK(thrown_by([&] { host->load(fixture("no_entry")); }).status() == OPDOCK_LOAD_FAILED);
    CHECK(thrown_by([&] { host->load("/nonexistent/libx.so"); }).status() == OPDOCK_LOAD_FAILED);
}

TEST_CASE("a module of the program whose entry fails leaves nothing") {
    MadeHost host;
    const core::Error error = thrown_by([&] {
        host.module("half", [](opdock_registry *registry) {
            declare(registry, "test.half(x: T[n]) -> (y: T[n])");
            return registry->fail(registry, OPDOCK_FAILED, "the second half is missing");
        });
    });
    CHECK(error.status() == OPDOCK_LOAD_FAILED);
    CHECK(contains(error.what(), "the second half is missing"));
    CHECK(host->find_op("test.half") == nullptr);
}

TEST_CASE("a module id can be used once") {
    MadeHost host;
    host.module("mine", [](opdock_registry *) { return OPDOCK_OK; });
    CHECK_THROWS_AS(host.module("mine", [](opdock_registry *) { return OPDOCK_OK; }), core::Error);
}

TEST_CASE("an entry cannot open a host or load plugins") {
    MadeHost host;
    host.module("curious", [&](opdock_registry *registry) {
        CHECK(registry->host->get_extension(registry->host, OPDOCK_ALLOCATOR) == nullptr);
        opdock_host *runtime = nullptr;
        CHECK(opdock_open(nullptr, &runtime) == OPDOCK_INVALID_ARGUMENT);
        CHECK(runtime == nullptr);
        CHECK_THROWS_AS(host->load(fixture("good")), core::Error);
        CHECK_THROWS_WITH_AS(
            (void)host->find_extension("test.add", "vendor.acme", "acme.any"),
            "a plugin's entry must not look for extensions: it only registers what the plugin provides", core::Error);
        return OPDOCK_OK;
    });
}

TEST_CASE("an entry cannot call or prepare ops that the program called before") {
    MadeHost host;
    host.add(std::make_unique<Made>("default.added", OPDOCK_KIND_DEFAULT));
    const Op add = host.op();
    Rows rows;
    rows.call(add);
    std::vector<std::string> heard;
    host.module("curious", [&](opdock_registry *) {
        CHECK(add.try_call({rows.x}, {rows.y}) == OPDOCK_INVALID_ARGUMENT);
        heard.emplace_back(opdock_last_error());
        try {
            (void)add.prepare({&rows.x}, {&rows.y});
        } catch (const std::exception &error) {
            heard.emplace_back(error.what());
        }
        return OPDOCK_OK;
    });
    CHECK(heard == std::vector<std::string>(
                       2, "a plugin's entry must not call ops: it only registers what the plugin provides"));
    rows.call(add);
}

TEST_CASE("a registry used after its entry returned answers with an error") {
    MadeHost host;
    opdock_registry *kept = nullptr;
    host.module("keeper", [&](opdock_registry *registry) {
        kept = registry;
        return OPDOCK_OK;
    });
    CHECK(declare(kept, "test.late(x: T[n]) -> (y: T[n])") == OPDOCK_INVALID_ARGUMENT);
    CHECK(host->find_op("test.late") == nullptr);
}

TEST_CASE("what plugins may have kept of a closed host answers instead of crashing") {
    opdock_registry *registry = nullptr;
    const opdock_host_api *table = nullptr;
    MadeHost host;
    host.module("keeper", [&](opdock_registry *given) {
        registry = given;
        table = given->host;
        return OPDOCK_OK;
    });
    table->log(table, OPDOCK_LOG_WARNING, "a line of the keeper's");
    CHECK(host.logged("a line of the keeper's") == 1);
    host.close();
    // Overwrites freed memory, so that its former content is not found there.
    std::vector<std::unique_ptr<std::array<unsigned char, sizeof(core::PluginTable)>>> others(64);
    for (auto &other : others) {
        other = std::make_unique<std::array<unsigned char, sizeof(core::PluginTable)>>();
        other->fill(0xff);
    }
    CHECK(declare(registry, "test.late(x: T[n]) -> (y: T[n])") == OPDOCK_INVALID_ARGUMENT);
    CHECK(registry->fail(registry, OPDOCK_FAILED, "too late") == OPDOCK_FAILED);
    table->log(table, OPDOCK_LOG_WARNING, "a line for nobody");
    CHECK(host.logged("a line for nobody") == 0);
    CHECK(table->fail(table, OPDOCK_UNSUPPORTED, "as ever") == OPDOCK_UNSUPPORTED);
    CHECK(table->get_extension(table, "none") == nullptr);
}

TEST_CASE("what a plugin logs is copied") {
    MadeHost host;
    const opdock_host_api *table = nullptr;
    host.module("talker", [&](opdock_registry *given) {
        table = given->host;
        return OPDOCK_OK;
    });
    std::string line = "first words";
    table->log(table, OPDOCK_LOG_INFO, line.c_str());
    line = "other words";
    CHECK(host.logged("first words") == 1);
    table->log(table, 1000, nullptr); // an invalid level, and no line
    table->log(table, -1000, "below every level");
    CHECK(host.logged("other words") == 0);
}

TEST_CASE("device_fini and shutdown functions that call, prepare or tune ops get an error") {
    static const Op *op;
    static Rows *rows;
    static std::vector<std::string> heard;
    heard.clear();
    const auto ask = [] {
        CHECK(op->try_call({rows->x}, {rows->y}) == OPDOCK_INVALID_ARGUMENT);
        heard.emplace_back(opdock_last_error());
        const auto hear = [](auto work) {
            try {
                (void)work();
            } catch (const std::exception &error) {
                heard.emplace_back(error.what());
            }
        };
        hear([] { return op->prepare({&rows->x}, {&rows->y}); });
        hear([] { return op->tune({&rows->x}, {&rows->y}); });
    };
    static constexpr void (*asks)() = ask;
    MadeHost host;
    auto made = std::make_unique<Made>("default.asks", OPDOCK_KIND_DEFAULT);
    made->adjust = [](opdock_impl &impl) {
        impl.device_init = [](const opdock_host_api *, void *, DLDevice, void **) { return opdock_status{OPDOCK_OK}; };
        impl.device_fini = [](const opdock_host_api *, void *, DLDevice, void *) { asks(); };
    };
    host.add(std::move(made));
    host.module("with-shutdown", [](opdock_registry *registry) {
        return registry->register_shutdown(
            registry, [](void *) { asks(); }, nullptr);
    });
    const Op add = host.op();
    op = &add;
    Rows own;
    rows = &own;
    own.call(add);
    host.close();
    CHECK(heard == std::vector<std::string>(6, "a plugin must not call ops while its host is being closed"));
}

TEST_CASE("shutdown functions run when the host closes, newest first") {
    static std::vector<int> order;
    order.clear();
    static int one = 1, two = 2, three = 3;
    {
        MadeHost host;
        const auto remember = [](void *which) { order.push_back(*static_cast<int *>(which)); };
        host.module("a", [&](opdock_registry *registry) {
            registry->register_shutdown(registry, remember, &one);
            return registry->register_shutdown(registry, remember, &two);
        });
        host.module("b",
                    [&](opdock_registry *registry) { return registry->register_shutdown(registry, remember, &three); });
    }
    CHECK(order == std::vector<int>{3, 2, 1});
}

TEST_CASE("a longer form with one more dtype variable leaves old implementations their dtypes") {
    MadeHost host;
    Made old("default.old", OPDOCK_KIND_DEFAULT, "", 1.0f);
    Made grown("reference.new", OPDOCK_KIND_REFERENCE, "", 2.0f);
    old.op = grown.op = "test.grow";
    old.dtypes = "f32|bf16";
    const auto add = [&](const char *id, Made &made, const char *signature) {
        host.module(id, [&, signature](opdock_registry *registry) {
            declare(registry, signature);
            register_made(registry, made);
            return OPDOCK_OK;
        });
    };
    add("old", old, "test.grow(input: T[..., n]) -> (output: T[..., n])");
    add("new", grown, "test.grow(input: T[..., n], mask: U[n]?) -> (output: T[..., n])");
    Rows rows;
    std::vector<float> mask(3);
    host.op("test.grow")({rows.x}, {rows.y});
    CHECK(rows.out[0] - rows.in[0] == 1);
    host.op("test.grow")({rows.x, Tensor(mask.data(), f32, {3})}, {rows.y});
    CHECK(rows.out[0] - rows.in[0] == 2);
}

TEST_CASE("a longer form of a signature serves old implementations with calls that do not use it") {
    MadeHost host;
    auto old = std::make_unique<Made>("default.old", OPDOCK_KIND_DEFAULT, "", 1.0f);
    Made &made_old = *old;
    host.module("old", [&](opdock_registry *registry) {
        declare(registry, "test.grow(input: T[..., n]) -> (output: T[..., n])");
        made_old.op = "test.grow";
        register_made(registry, made_old);
        return OPDOCK_OK;
    });
    auto grown = std::make_unique<Made>("reference.new", OPDOCK_KIND_REFERENCE, "", 2.0f);
    Made &made_new = *grown;
    host.module("new", [&](opdock_registry *registry) {
        declare(registry, "test.grow(input: T[..., n], mask: u8[n]?, *, scale: float = 1.0) -> (output: T[..., n])");
        made_new.op = "test.grow";
        register_made(registry, made_new);
        return OPDOCK_OK;
    });
    Rows rows;
    std::vector<uint8_t> mask(3);
    const Op grow = host.op("test.grow");
    for (int i = 0; i < 2; ++i) {
        grow({rows.x}, {rows.y});
        CHECK(rows.out[0] - rows.in[0] == 1);
        grow({rows.x}, {rows.y}, {{"scale", 1.0}});
        CHECK(rows.out[0] - rows.in[0] == 1);
        grow({rows.x}, {rows.y}, {{"scale", 2.0}});
        CHECK(rows.out[0] - rows.in[0] == 2);
        grow({rows.x, Tensor(mask.data(), u8, {3})}, {rows.y});
        CHECK(rows.out[0] - rows.in[0] == 2);
    }
}

TEST_CASE("a plugin that allows more dtypes serves them, and leaves old implementations those that they know") {
    for (const bool old_first : {true, false}) {
        CAPTURE(old_first);
        MadeHost host;
        Made old("default.old", OPDOCK_KIND_DEFAULT, "", 1.0f);
        Made wide("reference.wide", OPDOCK_KIND_REFERENCE);
        old.op = wide.op = "test.grow";
        wide.work = [](const opdock_problem &, const opdock_call &) { return OPDOCK_OK; };
        const auto add = [&](Made &made, const char *signature) {
            host.module(made.impl_id, [&, signature](opdock_registry *registry) {
                declare(registry, signature);
                register_made(registry, made);
                return OPDOCK_OK;
            });
        };
        const char *narrow = "test.grow(input: T[..., n]) -> (output: T[..., n]) where T in f32|bf16";
        const char *all = "test.grow(input: T[..., n]) -> (output: T[..., n]) where T in f32|bf16|e4m3";
        if (old_first) {
            add(old, narrow);
        }
        add(wide, all);
        if (!old_first) {
            add(old, narrow);
        }
        Rows rows;
        std::vector<uint8_t> in(3), out(3);
        const DLDataType dtype = opdock_dtype_unpack(OPDOCK_E4M3);
        const Op grow = host.op("test.grow");
        for (int i = 1; i <= 2; ++i) { // looked up, then remembered
            grow({rows.x}, {rows.y});
            CHECK(rows.out[0] - rows.in[0] == 1);
            grow({Tensor(in.data(), dtype, {3})}, {Tensor(out.data(), dtype, {3})});
            CHECK(wide.calls == i);
        }
        CHECK(old.calls == 2);
        const nlohmann::json why = host->explain("test.grow", "cpu", "e4m3", nullptr);
        CHECK(why["chain"] == nlohmann::json{"reference.wide"});
        REQUIRE(why["dropped"].size() == 1);
        CHECK(why["dropped"][0]["rule"] == "dtypes");
        CHECK(why["dropped"][0]["reason"] ==
              "it lists no dtypes, and its own declaration of the op allows f32|bf16, not e4m3");
        const nlohmann::json op = host->describe()["ops"][0];
        CHECK(op["signature"] == all);
        CHECK(op["implementations"][0]["dtypes"] == nlohmann::json{"f32", "bf16"});
        CHECK(op["implementations"][1]["dtypes"] == nlohmann::json{"f32", "bf16", "e4m3"});
        CHECK(op["chains"].size() == 2);
    }
}

TEST_CASE("two plugins that each allow dtypes of their own serve those, and share the others") {
    for (const bool first_first : {true, false}) {
        CAPTURE(first_first);
        MadeHost host;
        Made first("vendor.first", OPDOCK_KIND_VENDOR), second("vendor.second", OPDOCK_KIND_VENDOR);
        first.op = second.op = "test.grow";
        const auto add = [&](Made &made, const char *dtypes) {
            host.module(made.impl_id, [&, dtypes](opdock_registry *registry) {
                declare(registry, ("test.grow(x: T[n]) -> (y: T[n]) where T in " + std::string(dtypes)).c_str());
                register_made(registry, made);
                return OPDOCK_OK;
            });
        };
        const auto add_first = [&] { add(first, "f32|bf16|e4m3"); };
        if (first_first) {
            add_first();
        }
        add(second, "f64|f32");
        if (!first_first) {
            add_first();
        }
        CHECK(host->describe()["ops"][0]["signature"] ==
              "test.grow(x: T[n]) -> (y: T[n]) where T in f64|f32|bf16|e4m3");
        const auto chain = [&](const char *dtype) {
            return host->explain("test.grow", "cpu", dtype, nullptr)["chain"];
        };
        CHECK(chain("f32").size() == 2);
        CHECK(chain("e4m3") == nlohmann::json{"vendor.first"});
        CHECK(chain("f64") == nlohmann::json{"vendor.second"});
    }
}

TEST_CASE("a longer form that allows fewer dtypes takes none away from older implementations") {
    MadeHost host;
    Made old("default.old", OPDOCK_KIND_DEFAULT);
    Made grown("reference.new", OPDOCK_KIND_REFERENCE, "", 2.0f);
    old.op = grown.op = "test.grow";
    old.work = [](const opdock_problem &problem, const opdock_call &) {
        CHECK(problem.n_attributes == 0);
        return OPDOCK_OK;
    };
    const auto add = [&](Made &made, const char *signature) {
        host.module(made.impl_id, [&, signature](opdock_registry *registry) {
            declare(registry, signature);
            register_made(registry, made);
            return OPDOCK_OK;
        });
    };
    add(old, "test.grow(input: T[..., n]) -> (output: T[..., n]) where T in f32|e4m3");
    add(grown, "test.grow(input: T[..., n], *, scale: float = 1.0) -> (output: T[..., n]) where T in f32");
    std::vector<uint8_t> in(3), out(3);
    const DLDataType dtype = opdock_dtype_unpack(OPDOCK_E4M3);
    const Tensor x(in.data(), dtype, {3}), y(out.data(), dtype, {3});
    CHECK(host.op("test.grow").try_call({x}, {y}) == OPDOCK_OK);
    CHECK(old.calls == 1);
    CHECK(host.op("test.grow").try_call({x}, {y}, {{"scale", 2.0}}) == OPDOCK_ALL_FAILED);
    CHECK(contains(last_error(), "it implements the shorter signature"));
    CHECK(contains(last_error(), "reference.new: it lists no dtypes"));
    CHECK(grown.calls == 0);
}

TEST_CASE("of a plugin for a newer minor a host leaves out what it does not know, and takes the rest") {
    for (const std::optional<std::string> &probe : {std::optional<std::string>(), std::optional(std::string())}) {
        MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("newer_minor")}}, "/nonexistent", {}, {}, probe);
        const nlohmann::json row = plugin_row(host, fixture("newer_minor"));
        CHECK(row["status"] == "loaded");
        REQUIRE(row["left_out"].size() == 2);
        CHECK(contains(row["left_out"][0], "op 'fixture.unparsable' is left out: signature, column "));
        CHECK(contains(row["left_out"][1],
                       "implementation 'vendor.faulty' for op 'fixture.faulty' is left out: kind is 77"));
        CHECK(host.logged("install a newer opdock") == 2);
        Rows rows;
        CHECK(rows.call(host.op("fixture.faulty")) == OPDOCK_OK); // this opens it
        CHECK(host->find_op("fixture.unparsable") == nullptr);
    }
}

TEST_CASE("a wrong policy keeps the host from opening, with the variable named") {
    const core::Error error = thrown_by([&] { MadeHost(RawEnvironment{{"PLUGIN_PREFER", "quickest"}}); });
    CHECK(error.status() == OPDOCK_INVALID_POLICY);
    CHECK(contains(error.what(), "PLUGIN_PREFER"));
}

TEST_CASE("an op or vendor nobody knows is a warning, and an error when strict") {
    const RawEnvironment lenient = {{"PLUGIN_PER_OP", "nosuchop=default;otherop=vendor"},
                                    {"PLUGIN_DENY_VENDORS", "nobody"}};
    MadeHost host(lenient);
    CHECK(host.logged("nosuchop") == 1);
    CHECK(host.logged("nobody") == 1);
    RawEnvironment strict = lenient;
    strict["PLUGIN_STRICT"] = "1";
    const core::Error error = thrown_by([&] { MadeHost made(strict); });
    CHECK(error.status() == OPDOCK_INVALID_POLICY);
    CHECK(contains(error.what(), "nosuchop"));
    CHECK(contains(error.what(), "otherop")); // all of them are reported at once
}

TEST_CASE("a policy of the program may name an implementation, and one that is not there is a warning") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    (void)host->make_policy(std::array{core::Setting{"per_op", "test.add=impl:default.one"}});
    CHECK(host.logged("has no implementation") == 0);
    (void)host->make_policy(std::array{core::Setting{"per_op", "test.add=impl:default.two"}});
    CHECK(host.logged("op 'test.add' has no implementation 'default.two'") == 1);
}

TEST_CASE("a section of a policy file for a device type that nothing knows is a warning, also when strict") {
    const TemporaryDirectory folder;
    const std::string file =
        folder.write("policy.yaml", "devices:\n  cudda: {prefer: vendor}\n  cuda: {prefer: vendor}\n").string();
    MadeHost host(RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_CONFIG", file}});
    CHECK(host.logged(file + ":2:11: the section for 'cudda': no loaded plugin supports device type 'cudda'") == 1);
    CHECK(host.logged("no loaded plugin supports device type") == 1);
}

TEST_CASE("an op that is misspelt below enforce is an error of opening the host") {
    const TemporaryDirectory folder;
    const struct {
        const char *text, *problem;
    } cases[] = {
        {"enforce:\n  per_op:\n    rellu: reference\n", ":3:5 (enforced): no plugin declares op 'rellu'"},
        {"enforce:\n  per_op: rellu=reference\n", ":2:3 (enforced): no plugin declares op 'rellu'"},
        {"enforce:\n  require: [{rellu: deterministic}]\n", ":2:14 (enforced): no plugin declares op 'rellu'"},
        {"enforce:\n  devices: {cpu: {per_op: {rellu: reference}}}\n",
         ":2:28 (enforced): no plugin declares op 'rellu'"},
    };
    for (const auto &[text, problem] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        const std::string file = folder.write("policy.yaml", text).string();
        const core::Error error = thrown_by([&] { MadeHost made({}, file); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(contains(message, file + problem));
        CHECK(contains(message, "a misspelt name would not be enforced"));
    }
}

TEST_CASE("what is misspelt below enforce leaves the policy in force when it is read again") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "enforce: {prefer: vendor}\n").string();
    MadeHost host({}, file);
    folder.write("policy.yaml", "enforce: {prefer: reference, per_op: {rellu: vendor}}\n");
    CHECK(contains(message_of([&] { host->reload_policy(); }), "no plugin declares op 'rellu'"));
    CHECK(host->describe()["policy"]["prefer"] == "vendor");
}

TEST_CASE("names below enforce that may be known elsewhere or later are no error") {
    const TemporaryDirectory folder;
    const std::string file = folder
                                 .write("policy.yaml", "enforce:\n"
                                                       "  deny_vendors: [ghost]\n"
                                                       "  per_op: {relu: default, acme.fancy: vendor}\n"
                                                       "  devices: {npu: {strict: 1}, CPU: {strict: 0}}\n")
                                 .string();
    MadeHost host({}, file);
    CHECK(host.logged("no plugin declares op 'acme.fancy'") == 1);
    CHECK(host.logged("'relu' is a standard op that no loaded plugin implements") == 1);
    CHECK(host.logged("the section for 'npu': no loaded plugin supports device type 'npu'") == 1);
    // Outside of `enforce`, a misspelling is only a warning.
    const std::string lenient = folder.write("lenient.yaml", "per_op: {rellu: default}\n").string();
    CHECK(MadeHost({}, lenient).logged("no plugin declares op 'rellu'") == 1);
}

TEST_CASE("a device type is known by whoever provides its devices, before anything computes there") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "prefer: vendor\n").string();
    FakeKind fake;
    MadeHost host(RawEnvironment{{"PLUGIN_CONFIG", file}});
    host.module("fake-device", [&fake](opdock_registry *registry) { return fake.provide(registry); });
    folder.write("policy.yaml", "devices:\n  fakke: {prefer: vendor}\n  Fake: {prefer: vendor}\n");
    host->reload_policy();
    CHECK(host.logged("no loaded plugin supports device type 'fakke'; did you mean 'fake'?") == 1);
    CHECK(host.logged("no loaded plugin supports device type") == 1);
}

TEST_CASE("who is denied and not there is a warning, also when strict: the denial is fulfilled") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "deny_vendors: [ghost]\n").string();
    const std::string enforced = folder.write("enforced.yaml", "enforce: {deny_vendors: [spectre]}\n").string();
    MadeHost by_variable(RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_DENY_VENDORS", "nobody"}});
    CHECK(by_variable.logged("PLUGIN_DENY_VENDORS: no plugin is from vendor 'nobody'") == 1);
    MadeHost by_file(RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_CONFIG", file}});
    CHECK(by_file.logged("no plugin is from vendor 'ghost'") == 1);
    MadeHost by_machine(RawEnvironment{{"PLUGIN_STRICT", "1"}}, enforced);
    CHECK(by_machine.logged("no plugin is from vendor 'spectre'") == 1);
    CHECK_NOTHROW(by_machine->set_program_policy(by_machine.policy("deny_vendors", "phantom")));
    CHECK(by_machine.logged("setting 'deny_vendors': no plugin is from vendor 'phantom'") == 1);
}

TEST_CASE("a reload that fails leaves the old policy in force") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "prefer: vendor\n").string();
    MadeHost host(RawEnvironment{}, file);
    host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
    host.add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    Rows rows;
    CHECK(rows.added(host.op()) == 2);
    folder.write("policy.yaml", "prefer: [nonsense\n");
    CHECK_THROWS_AS(host->reload_policy(), core::Error);
    CHECK(rows.added(host.op()) == 2);
    folder.write("policy.yaml", "prefer: default\n");
    host->reload_policy();
    CHECK(rows.added(host.op()) == 1);
}

TEST_CASE("what is wrong with a policy that is reloaded is said as when the host opened") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "prefer: vendor\n").string();
    MadeHost host(RawEnvironment{{"PLUGIN_CONFIG", file}});
    CHECK(host.logged("unknown key") == 0);
    folder.write("policy.yaml", "prefr: vendor\n");
    host->reload_policy();
    CHECK(host.logged("policy.yaml:1:1: unknown key 'prefr'; did you mean 'prefer'?") == 1);
}

TEST_CASE("describe follows its schema and says the same twice") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good") + "," + fixture("default_adder")},
                                 {"PLUGIN_DEFAULT_PLUGINS", "adder"}});
    const nlohmann::json one = host->describe();
    CHECK(one == host->describe());
    CHECK(one["schema"] == "opdock.plugin-ls/1");
    const nlohmann::json &op = one["ops"][0];
    CHECK(op["op"] == "fixture.add");
    CHECK(op["chains"] == nlohmann::json::parse(
                              R"([{"device": "cpu", "dtypes": ["f32"], "chain": ["default.adder", "vendor.acme"]}])"));
    CHECK(op["implementations"][0]["available"] == "yes");
}

TEST_CASE("dtypes with the same chain share a row, and others have their own") {
    MadeHost host;
    for (const auto &[impl_id, dtypes] : {std::pair{"default.zeta", ""}, std::pair{"default.alpha", "f16"}}) {
        auto made = std::make_unique<Made>(impl_id, OPDOCK_KIND_DEFAULT);
        made->dtypes = dtypes;
        host.add(std::move(made));
    }
    const nlohmann::json described = host->describe();
    for (const auto &op : described["ops"]) {
        if (op["op"] == "test.add") {
            CHECK(op["chains"] == nlohmann::json::parse(R"([
                {"device": "cpu", "dtypes": ["f32", "bf16"], "chain": ["default.zeta"]},
                {"device": "cpu", "dtypes": ["f16"], "chain": ["default.zeta", "default.alpha"]}])"));
        }
    }
}

TEST_CASE("explain gives every implementation with the rule that kept or dropped it") {
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good") + "," + fixture("default_adder")},
                                 {"PLUGIN_DEFAULT_PLUGINS", "OPDOCK"},
                                 {"PLUGIN_DENY_VENDORS", "acme"}});
    const nlohmann::json why = host->explain("fixture.add", "cpu", "f32", nullptr);
    CHECK(why["chain"] == nlohmann::json::parse(R"(["default.adder"])"));
    CHECK(why["dropped"][0]["impl_id"] == "vendor.acme");
    CHECK(why["dropped"][0]["rule"] == "deny_vendors");
    CHECK(contains(why["dropped"][0]["reason"], "PLUGIN_DENY_VENDORS"));
    CHECK_THROWS_AS(host->explain("fixture.add", "toaster", nullptr, nullptr), core::Error);
    CHECK_THROWS_AS(host->explain("fixture.add", nullptr, "f99", nullptr), core::Error);
}

TEST_CASE("a description of the host's own device has the model, the memory and the processors of the machine") {
    MadeHost host;
    const nlohmann::json devices = host->describe_devices();
    REQUIRE(devices.size() == 1);
    CHECK(devices[0]["device"] == "cpu:0");
    CHECK(devices[0]["memory"] == static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
    CHECK(devices[0]["compute_units"] == std::thread::hardware_concurrency());
    std::ifstream file("/proc/cpuinfo");
    const std::string known{std::istreambuf_iterator<char>(file), {}};
    const std::string model = devices[0]["name"];
    const bool is_named = contains(known, "model name") ? contains(known, ": " + model) : model == "cpu";
    CHECK(is_named);
}

TEST_CASE("a description says of each implementation what it registered") {
    MadeHost host;
    const auto add = [&](const char *id, const std::function<void(opdock_impl &)> &adjust) {
        auto made = std::make_unique<Made>(id, OPDOCK_KIND_VENDOR, "acme");
        made->adjust = adjust;
        host.add(std::move(made));
    };
    static constexpr opdock_knob block = {
        OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_INT, "block", 1, 64, 8, "of a block", nullptr};
    static constexpr opdock_knob wide = {
        OPDOCK_STRUCT_SIZE(opdock_knob, doc), OPDOCK_KNOB_BOOL, "wide", 0, 1, 1, nullptr, nullptr};
    static constexpr opdock_knob pipeline = {
        OPDOCK_STRUCT_SIZE(opdock_knob, choices), OPDOCK_KNOB_CHOICE, "pipeline", 0, 1, 1, nullptr, "none,tma"};
    static constexpr const opdock_knob *knobs[] = {&block, &wide, &pipeline};
    add("vendor.batches", [](opdock_impl &impl) { impl.flags = OPDOCK_IMPL_BATCH_INVARIANT; });
    add("vendor.capture", [](opdock_impl &impl) { impl.flags = OPDOCK_IMPL_CAPTURE_SAFE; });
    add("vendor.contiguous", [](opdock_impl &impl) { impl.required_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS; });
    add("vendor.deterministic", [](opdock_impl &impl) { impl.flags = OPDOCK_IMPL_DETERMINISTIC; });
    add("vendor.plain", [](opdock_impl &) {});
    add("vendor.tuned", [](opdock_impl &impl) {
        impl.priority = -3;
        impl.alignment = 64;
        impl.dtypes = "f32|f16";
        impl.n_knobs = 3;
        impl.knobs = knobs;
        impl.available = [](const opdock_host_api *api, void *, DLDevice) {
            return api->fail(api, OPDOCK_UNSUPPORTED, "not on this machine");
        };
    });
    Rows rows;
    CHECK(rows.call(host.op()) == OPDOCK_OK);
    std::map<std::string, nlohmann::json> ops;
    const nlohmann::json described = host->describe();
    for (const nlohmann::json &op : described["ops"]) {
        ops[op["op"]] = op;
    }
    const nlohmann::json list = ops["test.add"]["implementations"];
    REQUIRE(list.size() == 6);
    const nlohmann::json &batches = list[0], &capture = list[1], &contiguous = list[2], &deterministic = list[3],
                         &plain = list[4], &tuned = list[5];
    CHECK(plain == nlohmann::json{{"impl_id", "vendor.plain"},
                                  {"kind", "vendor"},
                                  {"vendor", "acme"},
                                  {"priority", 0},
                                  {"device", "cpu"},
                                  {"dtypes", plain["dtypes"]},
                                  {"architectures", nlohmann::json::array()},
                                  {"alignment", plain["alignment"]},
                                  {"deterministic", false},
                                  {"batch_invariant", false},
                                  {"capture_safe", false},
                                  {"needs_contiguous", false},
                                  {"knobs", nlohmann::json::array()},
                                  {"available", plain["available"]},
                                  {"reason", ""},
                                  {"plugin", "module-5"}});
    const auto differs = [&](const nlohmann::json &other) {
        std::vector<std::string> fields;
        for (const char *field : {"deterministic", "batch_invariant", "capture_safe", "needs_contiguous"}) {
            if (other[field] != plain[field]) {
                fields.emplace_back(field);
            }
        }
        return fields;
    };
    using Fields = std::vector<std::string>;
    CHECK(differs(batches) == Fields{"batch_invariant"});
    CHECK(differs(capture) == Fields{"capture_safe"});
    CHECK(differs(contiguous) == Fields{"needs_contiguous"});
    CHECK(differs(deterministic) == Fields{"deterministic"});
    CHECK(tuned["priority"] == -3);
    CHECK(tuned["alignment"] == 64);
    CHECK(tuned["knobs"] ==
          nlohmann::json::array(
              {{{"name", "block"},
                {"doc", "of a block"},
                {"type", "int"},
                {"minimum", 1},
                {"maximum", 64},
                {"default", 8}},
               {{"name", "wide"}, {"doc", ""}, {"type", "bool"}, {"minimum", 0}, {"maximum", 1}, {"default", 1}},
               {{"name", "pipeline"},
                {"doc", ""},
                {"type", "choice"},
                {"choices", {"none", "tma"}},
                {"default", "tma"}}}));
}

TEST_CASE("dtypes to explain are one for each variable, or one for all") {
    MadeHost host;
    host.module("mixed", [](opdock_registry *registry) {
        declare(registry, "test.mixed(a: T[n], b: U[n]) -> (output: T[n])");
        Made made("default.mixed", OPDOCK_KIND_DEFAULT);
        made.op = "test.mixed";
        made.dtypes = "f32,f16|f16,f16";
        register_made(registry, made);
        return OPDOCK_OK;
    });
    const auto chain = [&](const char *dtypes) {
        return host->explain("test.mixed", "cpu", dtypes, nullptr)["chain"].size();
    };
    CHECK(chain("f32,f16") == 1);
    CHECK(chain("f16,f32") == 0);
    CHECK(chain("f16") == 1); // for both
    CHECK(chain("f32") == 0);
    CHECK(contains(message_of([&] { chain("f16,f16,f16"); }),
                   "dtypes 'f16,f16,f16': op 'test.mixed' has 2 dtype variables"));
    CHECK(contains(message_of([&] { chain("f16,"); }), "'' is not a dtype"));
    CHECK(contains(message_of([&] { chain("f61"); }), "'f61' is not a dtype"));
}

TEST_CASE("two hosts in one process are independent") {
    MadeHost one, two(RawEnvironment{{"PLUGIN_PREFER", "vendor"}});
    for (MadeHost *host : {&one, &two}) {
        host->add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        host->add("vendor.acme", OPDOCK_KIND_VENDOR, "acme", 2);
    }
    Rows rows;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.added(one.op()) == 1);
        CHECK(rows.added(two.op()) == 2);
    }
    one->set_program_policy(one.policy("per_op", "test.add=vendor"));
    CHECK(rows.added(one.op()) == 2);
    two->set_program_policy(two.policy("prefer", "default"));
    CHECK(rows.added(two.op()) == 1);
    one.close();
    CHECK(rows.added(two.op()) == 1);
}

TEST_CASE("hosts opened one after the other do not remember each other's calls") {
    for (int round = 0; round < 20; ++round) {
        MadeHost host;
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, static_cast<float>(round));
        Rows rows;
        CHECK(rows.added(host.op()) == static_cast<float>(round));
        CHECK(rows.added(host.op()) == static_cast<float>(round));
    }
}

TEST_CASE("an implementation of a shorter form is given the tensors of that form and no others") {
    MadeHost host;
    Made old("default.old", OPDOCK_KIND_DEFAULT);
    Made grown("reference.new", OPDOCK_KIND_REFERENCE);
    old.op = grown.op = "test.grow";
    std::vector<const DLTensor *> tensors;
    std::vector<uint32_t> first;
    std::vector<void *> data;
    old.work = [&](const opdock_problem &problem, const opdock_call &call) {
        tensors.assign(problem.tensors, problem.tensors + problem.n_tensors);
        first.assign(problem.tensor_offsets, problem.tensor_offsets + problem.n_inputs + problem.n_outputs + 1);
        data.assign(call.data, call.data + problem.n_tensors);
        return OPDOCK_OK;
    };
    const auto add = [&](const char *id, Made &made, const char *signature) {
        host.module(id, [&, signature](opdock_registry *registry) {
            declare(registry, signature);
            register_made(registry, made);
            return OPDOCK_OK;
        });
    };
    add("old", old, "test.grow(input: T[..., n]) -> (output: T[..., n])");
    add("new", grown, "test.grow(input: T[..., n], mask: T[n]?) -> (output: T[..., n], scales: T[n]?)");
    Rows rows;
    for (int i = 0; i < 2; ++i) {
        host.op("test.grow")({rows.x}, {rows.y});
        REQUIRE(first == std::vector<uint32_t>{0, 1, 2});
        REQUIRE(tensors.size() == 2);
        CHECK(tensors[0] != nullptr);
        CHECK(tensors[1] != nullptr);
        CHECK(data == std::vector<void *>{rows.in.data(), rows.out.data()});
    }
}

TEST_CASE("a vendor that serves a call may be allowed or denied without a warning") {
    for (const char *setting : {"PLUGIN_ALLOW_VENDORS", "PLUGIN_DENY_VENDORS"}) {
        CAPTURE(setting);
        MadeHost host(RawEnvironment{{"PLUGIN_MODULES", fixture("good")}, {setting, "acme"}, {"PLUGIN_STRICT", "1"}});
        CHECK(host.logged("acme' has plugins") == 0);
        CHECK(host.logged("no plugin is from vendor") == 0);
    }
}

TEST_CASE("a vendor whose implementations are of other kinds is known, and told apart from one that nobody has") {
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    host->set_program_policy(host.policy("deny_vendors", "testvendor"));
    CHECK(host.logged("no plugin is from vendor") == 0);
    host->set_program_policy(host.policy("per_op", "test.add=vendor:testvendor|default"));
    CHECK(host.logged("vendor 'testvendor' has plugins, but none of their implementations is of kind vendor") == 1);
}

TEST_CASE("a description has every variable with its value, its default and whether it is of the policy") {
    MadeHost host(RawEnvironment{{"PLUGIN_LOG_LEVEL", "DEBUG"}});
    const nlohmann::json variables = host->describe()["variables"];
    REQUIRE(variables.size() == core::all_variables.size());
    std::map<std::string, nlohmann::json> by_name;
    for (const nlohmann::json &variable : variables) {
        by_name[variable["name"]] = variable;
    }
    CHECK(by_name["PLUGIN_LOG_LEVEL"]["value"] == "DEBUG");
    CHECK(by_name["PLUGIN_LOG_LEVEL"]["default"] == "INFO");
    CHECK(by_name["PLUGIN_LOG_LEVEL"]["is_policy"] == false);
    CHECK(by_name["PLUGIN_PREFER"]["value"] == nullptr);
    for (const char *of_policy :
         {"PLUGIN_PREFER", "PLUGIN_STRICT", "PLUGIN_DENY_VENDORS", "PLUGIN_PER_OP", "PLUGIN_TRUST"}) {
        CHECK(by_name[of_policy]["is_policy"] == true);
    }
}

TEST_CASE("an op without `...` has one row") {
    MadeHost host;
    auto made = std::make_unique<Made>("default.one", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    int64_t rows = 0, n = 0;
    made->work = [&](const opdock_problem &problem, const opdock_call &) {
        rows = problem.host->dim(&problem, "rows");
        n = problem.host->dim(&problem, "n");
        return OPDOCK_OK;
    };
    host.add(std::move(made));
    float state[] = {1, 2, 3}, in[] = {1, 2, 3}, out[] = {0, 0, 0};
    host.op("test.update")({Tensor(state, f32, {3}), Tensor(in, f32, {3})}, {Tensor(out, f32, {3})});
    CHECK(rows == 1);
    CHECK(n == 3);
}

TEST_CASE("of very many warnings about a plugin 64 are logged, and how many more there are") {
    for (const int count : {64, 65, 70}) {
        CAPTURE(count);
        MadeHost host;
        host.module("wordy", [&](opdock_registry *registry) {
            for (int i = 0; i < count; ++i) { // none of them is standard, and none has a prefix
                declare(registry, ("wordy" + std::to_string(i) + "(x: T[n]) -> (y: T[n])").c_str());
            }
            return OPDOCK_OK;
        });
        const int more = count - 64;
        CHECK(host.logged("Plugin 'wordy': ") == (more == 0 ? 64 : 65));
        CHECK(host.logged("Plugin 'wordy': and " + std::to_string(more) + " more such warnings") ==
              (more == 0 ? 0 : 1));
    }
}

TEST_CASE("a module's id and vendor are names of at most 128 characters") {
    MadeHost host;
    const auto nothing = [](opdock_registry *) -> opdock_status { return OPDOCK_OK; };
    const auto refusal = [&](const std::string &id, const std::string &vendor) {
        return message_of([&] { host.module(id, nothing, vendor); });
    };
    CHECK_NOTHROW(host.module(std::string(128, 'i'), nothing, std::string(128, 'v')));
    CHECK(contains(refusal(std::string(129, 'i'), "v"), "the module's id 'iii"));
    CHECK(contains(refusal("i", std::string(129, 'v')), "the module's vendor 'vvv"));
    CHECK(contains(refusal("a b", "v"), "expected at most 128 printable ASCII characters"));
    CHECK(contains(refusal("i", "a,b"), "the module's vendor 'a,b' is no name"));
}
