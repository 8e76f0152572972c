#include "resolve/admission.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "files/digest.hpp"
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

// A folder of plugins, which are found in the order of their names.
class Plugins {
  public:
    Plugins(std::initializer_list<const char *> fixtures) {
        for (const char *name : fixtures) {
            add(name, std::string("lib") + name + ".so");
        }
    }
    std::string add(const std::string &name, const std::string &as) {
        const auto file = folder_.path() / as;
        std::filesystem::copy_file(fixture(name), file);
        return file.string();
    }
    std::string path() const { return folder_.path().string(); }

  private:
    TemporaryDirectory folder_;
};

// A host with plugins in the folders that PLUGIN_MODULES names, and in opdock's own folder.
struct Machine {
    Machine(const std::string &modules, const std::string &own_folder, RawEnvironment environment = {},
            const std::string &system_policy = "/nonexistent")
        : host((environment.emplace("PLUGIN_MODULES", modules), environment), system_policy, {}, {}, {}, false,
               "/nonexistent", own_folder) {}

    // The amount added to the sum; -1000 if the call fails.
    float added(const char *op = "fixture.add") {
        Rows a, b;
        Op called = host.op(op);
        return called.try_call({a.x, b.x}, {a.y}) == OPDOCK_OK ? a.out[0] - 2 : -1000;
    }
    nlohmann::json plugin(const std::string &id) const {
        const nlohmann::json described = const_cast<MadeHost &>(host)->describe();
        for (const auto &row : described["plugins"]) {
            if (row["id"] == id) {
                return row;
            }
        }
        return {};
    }
    std::string warning(const std::string &id) const {
        const nlohmann::json row = plugin(id);
        return row["status"] == "loaded" && row["warnings"].size() == 1 ? row["warnings"][0].get<std::string>()
                                                                        : row.dump();
    }

    MadeHost host;
};

} // namespace

// --- kinds
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("a vendor's plugin that calls itself a default is left out, and the warning says what to do") {
    const Plugins own{"default_adder"};
    Machine machine(fixture("usurper"), own.path());
    CHECK(machine.added() == 300);
    const std::string warning = machine.warning("aaa-usurper");
    CHECK(contains(warning, "implementation 'default.usurper' for op 'fixture.add' is left out"));
    CHECK(contains(warning, "kind default"));
    CHECK(contains(warning, "OPDOCK_KIND_VENDOR"));
    CHECK(contains(warning, "name plugin 'aaa-usurper' in PLUGIN_DEFAULT_PLUGINS"));
    CHECK(machine.host.logged("'default.usurper' for op 'fixture.add' is left out") == 1);
}

TEST_CASE("a plugin that calls its vendor opdock has no kind of opdock's, not for ops of that name either") {
    const Plugins own{"default_adder"};
    Machine machine(fixture("claims_opdock"), own.path());
    CHECK(
        contains(machine.warning("claims-opdock"), "implementation 'default.claims' for op 'opdock.add' is left out"));
}

TEST_CASE("of two plugins of one id in opdock's own folder the first by name serves") {
    Plugins own{};
    own.add("default_adder", "liba.so");
    own.add("default_adder", "libb.so");
    Machine machine(fixture("usurper"), own.path());
    const nlohmann::json described = machine.host->describe();
    std::vector<std::string> loaded, shadowed;
    for (const auto &row : described["plugins"]) {
        if (row["path"].get<std::string>().starts_with(own.path())) {
            (row["status"] == "loaded" ? loaded : shadowed).push_back(row["path"].get<std::string>());
        }
    }
    CHECK(loaded == std::vector{own.path() + "/liba.so"});
    CHECK(shadowed == std::vector{own.path() + "/libb.so"});
    CHECK(machine.added() == 300);
}

TEST_CASE("a vendor's plugin that calls itself a default for many ops is told so once") {
    core::Signatures signatures;
    core::Registrar registrar({"loud", "loud", "libloud.so", true, {"cpu"}, core::Standing::found}, nullptr,
                              signatures);
    registrar.run([](opdock_registry *registry) {
        for (const char *op : {"many.a", "many.b", "many.c", "many.d", "many.e"}) {
            const std::string signature = std::string(op) + "(x: T[...]) -> (y: T[...])";
            opdock_op_declaration declared = {};
            declared.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
            declared.signature = signature.c_str();
            CHECK(registry->register_op(registry, &declared) == OPDOCK_OK);
            opdock_impl impl = {};
            impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, kernel);
            impl.kind = OPDOCK_KIND_DEFAULT;
            impl.op = op;
            impl.impl_id = "default.loud";
            impl.device = "cpu";
            impl.dtypes = "f32";
            impl.kernel = [](const opdock_problem *, const opdock_call *) -> opdock_status { return OPDOCK_OK; };
            CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
        }
        return OPDOCK_OK;
    });
    REQUIRE(registrar.errors().empty());
    const core::Admission admission =
        core::judge_admission({}, registrar.registration(), registrar.identity(), "PLUGIN_DEFAULT_PLUGINS");
    CHECK(admission.taken.implementations.empty());
    REQUIRE(admission.left_out.size() == 1);
    CHECK(contains(admission.left_out[0],
                   "implementation 'default.loud' for ops 'many.a', 'many.b', 'many.c' and 2 more is left out"));
}

TEST_CASE("a vendor's plugin that calls itself a reference is left out as well") {
    const Plugins own{"reference_adder"};
    Machine machine(fixture("usurper_reference"), own.path(), {{"PLUGIN_PREFER", "reference"}});
    CHECK(machine.added() == 400);
    CHECK(contains(machine.warning("aaa-reference"), "kind reference"));
    Machine alone(fixture("usurper_reference"), "");
    CHECK(alone.added() == -1000);
}

TEST_CASE("kinds default and reference are for opdock's own plugins in opdock's own folder, and for no copy") {
    const Plugins own{"default_adder", "usurper"};
    Machine installed(own.path(), own.path()); // found by another name before
    CHECK(installed.added() == 300);
    CHECK(contains(installed.warning("aaa-usurper"), "left out")); // it is there, but is somebody else's
    Machine copied(fixture("default_adder"), "");
    CHECK(copied.added() == -1000);
    CHECK(contains(copied.warning("adder"), "left out"));
}

TEST_CASE("a plugin that the policy names by id or vendor has the kinds of opdock's own") {
    for (const char *name : {"aaa-usurper", "USURPER", "other, usurper"}) {
        CAPTURE(name);
        const Plugins own{"default_adder"};
        Machine machine(fixture("usurper"), own.path(), {{"PLUGIN_DEFAULT_PLUGINS", name}});
        CHECK(machine.added() == 500);
        CHECK(machine.plugin("aaa-usurper")["warnings"].empty());
    }
}

TEST_CASE("which plugins are defaults is enforced, set and listed as trust is") {
    const TemporaryDirectory folder;
    const std::string enforced = folder.write("enforced.yaml", "enforce: {default_plugins: []}\n").string();
    Machine nobody(fixture("usurper"), "", {{"PLUGIN_DEFAULT_PLUGINS", "usurper"}}, enforced);
    CHECK(nobody.added() == -1000);
    const std::string file = folder.write("policy.yaml", "default_plugins: [usurper]\n").string();
    Machine by_file(fixture("usurper"), "", {}, file);
    CHECK(by_file.added() == 500);
    const nlohmann::json policy = by_file.host->describe()["policy"];
    CHECK(policy["default_plugins"] == nlohmann::json{"usurper"});
    CHECK(policy["sources"]["default_plugins"] == file + ":1:1");
    CHECK(contains(message_of([&] { (void)by_file.host.policy("default_plugins", "usurper"); }),
                   "cannot be set by a program"));
}

TEST_CASE("flagos does not mean a stranger's plugin whose note says vendor cuda") {
    const Plugins own{"default_adder"};
    const TemporaryDirectory folder;
    const std::string enforced = folder.write("policy.yaml", "enforce: {per_op: {fixture.add: flagos}}\n").string();
    const RawEnvironment order = {{"PLUGIN_PER_OP", "fixture.add=flagos"}};
    for (const std::string &policy : {std::string("/nonexistent"), enforced}) {
        for (const char *strict : {"0", "1"}) {
            CAPTURE(policy);
            CAPTURE(strict);
            RawEnvironment environment = order;
            environment["PLUGIN_STRICT"] = strict;
            Machine machine(fixture("called_cuda"), own.path(), environment, policy);
            CHECK(machine.added() == 300);
            const nlohmann::json why = machine.host->explain("fixture.add", "cpu", nullptr, nullptr);
            CHECK(why["chain"] == nlohmann::json{"default.adder"});
            REQUIRE(why["dropped"].size() == 1);
            CHECK(why["dropped"][0]["impl_id"] == "vendor.aaa");
            CHECK(why["dropped"][0]["rule"] == "order");
        }
    }
    Machine alone(fixture("called_cuda"), "", order);
    CHECK(alone.added() == -1000);
}

TEST_CASE("flagos means opdock's plugins for GPUs in opdock's own folder, and those that the policy names") {
    const RawEnvironment order = {{"PLUGIN_PER_OP", "fixture.add=flagos"}};
    const Plugins own{"called_cuda"};
    Machine installed("", own.path(), order);
    CHECK(installed.added() == 650);
    for (const char *name : {"aaa-cuda", "cuda"}) {
        CAPTURE(name);
        RawEnvironment named = order;
        named["PLUGIN_DEFAULT_PLUGINS"] = name;
        Machine machine(fixture("called_cuda"), "", named);
        CHECK(machine.added() == 650);
    }
}

TEST_CASE("a vendor denied by name is not served, whatever kind its plugin registers") {
    for (const char *name : {"usurper", "usurper_reference"}) {
        CAPTURE(name);
        const TemporaryDirectory folder;
        const std::string enforced = folder.write("policy.yaml", "enforce: {deny_vendors: [Usurper]}\n").string();
        const Plugins own{"default_adder"};
        // Refused even if somebody else allows it to use the name.
        Machine machine(fixture(name), own.path(),
                        {{"PLUGIN_DEFAULT_PLUGINS", "usurper"}, {"PLUGIN_PER_OP", "fixture.add=reference|default"}},
                        enforced);
        CHECK(machine.added() == 300);
        const nlohmann::json why = machine.host->explain("fixture.add", "cpu", nullptr, nullptr);
        REQUIRE(why["dropped"].size() == 1);
        CHECK(why["dropped"][0]["rule"] == "deny_vendors");
        CHECK(machine.host.logged("nobody") == 0);
    }
}

TEST_CASE("a list of allowed vendors keeps out other vendors' plugins of any kind, and none of opdock's own") {
    const Plugins own{"default_adder"};
    const std::string modules = fixture("usurper") + "," + fixture("good");
    Machine machine(modules, own.path(), {{"PLUGIN_DEFAULT_PLUGINS", "usurper"}, {"PLUGIN_ALLOW_VENDORS", "acme"}});
    CHECK(machine.added() == 300);
    const nlohmann::json why = machine.host->explain("fixture.add", "cpu", nullptr, nullptr);
    CHECK(why["chain"] == nlohmann::json{"default.adder", "vendor.acme"});
    CHECK(why["dropped"][0]["rule"] == "allow_vendors");
}

TEST_CASE("opdock's own plugins can be denied by name too") {
    const Plugins own{"default_adder"};
    Machine machine(fixture("good"), own.path(), {{"PLUGIN_DENY_VENDORS", "opdock"}});
    CHECK(machine.added() == 100);
}

TEST_CASE("a vendor's own ops may have its defaults and references, which compare its kernels") {
    Machine machine(fixture("fancy"), "");
    CHECK(machine.added("acme.fancy") == 800);
    CHECK(machine.plugin("fancy")["warnings"].empty());
}

TEST_CASE("the program may register any kind, of any vendor, and lists mean the vendor that it names") {
    MadeHost host(RawEnvironment{{"PLUGIN_DENY_VENDORS", "beta"}});
    host.add("default.acme", OPDOCK_KIND_DEFAULT, "acme", 1);
    host.add("default.beta", OPDOCK_KIND_DEFAULT, "beta", 2);
    host.add("reference.any", OPDOCK_KIND_REFERENCE, {}, 3);
    Rows rows;
    CHECK(rows.added(host.op()) == 1);
    const nlohmann::json why = host->explain("test.add", "cpu", nullptr, nullptr);
    CHECK(why["chain"] == nlohmann::json{"default.acme", "reference.any"});
    CHECK(why["dropped"][0]["rule"] == "deny_vendors");
}

// --- impl_ids
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("the same impl_id from two plugins: the later loses that implementation alone, and both are named") {
    Machine machine(fixture("good") + "," + fixture("same_impl_id"), "");
    const std::string warning = machine.warning("acme-copy");
    CHECK(contains(warning, "'acme-copy': implementation 'vendor.acme' for op 'fixture.add' is left out: plugin 'acme' "
                            "has this impl_id, and was found first"));
    CHECK(machine.plugin("acme")["warnings"].empty());
    CHECK(machine.added() == 100);
}

TEST_CASE("an impl_id of opdock's own plugin is opdock's, though another plugin was found before") {
    const Plugins own{"default_adder"};
    SUBCASE("in another folder") {
        Machine machine(fixture("takes_default_id"), own.path());
        CHECK(machine.added() == 300);
        CHECK(machine.plugin("adder")["warnings"].empty());
        CHECK(contains(machine.warning("aaa-taker"),
                       "plugin 'adder' registers this impl_id as well, and is part of opdock"));
        CHECK(machine.host.logged("'Default.Adder' for op 'fixture.add' is left out") == 1);
    }
    SUBCASE("though it is denied") {
        Machine machine(fixture("takes_default_id"), own.path(), {{"PLUGIN_DENY_VENDORS", "usurper"}});
        CHECK(machine.added() == 300);
    }
    SUBCASE("in opdock's folder") {
        Plugins both{"default_adder"};
        both.add("takes_default_id", "a.so");
        Machine machine(fixture("scaler"), both.path());
        CHECK(machine.added() == 300);
        CHECK(machine.plugin("aaa-taker")["status"] == "loaded");
    }
    SUBCASE("loaded late") {
        Machine machine(fixture("takes_default_id"), own.path(), {{"PLUGIN_MODULES_ONLY", "1"}});
        CHECK(machine.added() == 700);
        machine.host->load(own.path() + "/libdefault_adder.so");
        CHECK(machine.added() == 300);
        CHECK(contains(machine.warning("aaa-taker"), "left out"));
    }
}

TEST_CASE("an impl_id that bears a vendor's name is that vendor's, though another plugin was found before") {
    Machine machine(fixture("takes_vendor_id") + "," + fixture("good"), "",
                    {{"PLUGIN_PER_OP", "fixture.add=impl:vendor.acme"}});
    CHECK(machine.added() == 100);
    CHECK(contains(machine.warning("aaa-posing"), "bears the name of its vendor"));
}

TEST_CASE("an impl_id bears a vendor's name as a whole word after 'vendor.', in whatever case") {
    const auto registered = [](const char *plugin, const char *vendor, const char *impl_id, auto &&take) {
        core::Signatures signatures;
        core::Registrar registrar({plugin, vendor, "libacme.so", true, {"cpu"}, core::Standing::found}, nullptr,
                                  signatures);
        registrar.run([&](opdock_registry *registry) {
            opdock_op_declaration declared = {};
            declared.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
            declared.signature = "other.add(x: T[...]) -> (y: T[...])";
            CHECK(registry->register_op(registry, &declared) == OPDOCK_OK);
            opdock_impl impl = {};
            impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, kernel);
            impl.kind = OPDOCK_KIND_VENDOR;
            impl.op = "other.add";
            impl.impl_id = impl_id;
            impl.device = "cpu";
            impl.dtypes = "f32";
            impl.kernel = [](const opdock_problem *, const opdock_call *) -> opdock_status { return OPDOCK_OK; };
            CHECK(registry->register_impl(registry, &impl) == OPDOCK_OK);
            return OPDOCK_OK;
        });
        REQUIRE(registrar.errors().empty());
        take(registrar);
    };
    // True if a plugin of this vendor takes over the impl_id from another vendor's plugin that was found before it.
    const auto takes = [&](const char *vendor, const char *impl_id) {
        bool taken = false;
        core::Catalog catalog;
        registered("first", "first", impl_id, [&](core::Registrar &first) {
            core::admit(catalog, core::judge_admission(catalog, first.registration(), first.identity(), ""),
                        core::Standing::found);
            registered("second", vendor, impl_id, [&](core::Registrar &second) {
                const auto admission = core::judge_admission(catalog, second.registration(), second.identity(), "");
                taken = admission.losses.size() == 1;
                CHECK(admission.taken.implementations.size() == (taken ? 1 : 0));
                CHECK(admission.left_out.size() == (taken ? 0 : 1));
            });
        });
        return taken;
    };
    for (const char *owned : {"vendor.acme", "vendor.ACME", "vendor.acme-fast", "vendor.acme.fast", "vendor.acme_2"}) {
        CAPTURE(owned);
        CHECK(takes("acme", owned));
        CHECK(takes("Acme", owned));
    }
    for (const char *others : {"vendor.acmes", "vendor.acmeA", "vendor.acmez", "vendor.acme0", "vendor.acme9",
                               "vendor.acm", "vendor.first", "acme.vendor"}) {
        CAPTURE(others);
        CHECK_FALSE(takes("acme", others));
    }
}

TEST_CASE("why one plugin has an impl_id and not another is told by what decided") {
    using core::Standing;
    struct Claimant {
        const char *vendor;
        Standing standing;
    };
    // The host's message if both register `impl_id` and the first one was found before the second.
    const auto said = [](const Claimant &first, const Claimant &second, const std::string &impl_id) {
        core::Signatures signatures;
        core::Catalog catalog;
        core::Admission admission;
        Made made(impl_id, OPDOCK_KIND_VENDOR);
        made.op = "other.add";
        for (const auto &[id, claimant] : {std::pair("first", first), std::pair("second", second)}) {
            const bool is_program = claimant.standing == Standing::program;
            core::Registrar registrar({id, claimant.vendor, "libacme.so", !is_program, {"cpu"}, claimant.standing},
                                      nullptr, signatures);
            made.vendor = is_program ? claimant.vendor : "";
            registrar.run([&](opdock_registry *registry) {
                declare(registry, "other.add(x: T[...]) -> (y: T[...])");
                register_made(registry, made);
                return OPDOCK_OK;
            });
            REQUIRE(registrar.errors().empty());
            admission = core::judge_admission(catalog, registrar.registration(), registrar.identity(), "");
            if (!admission.errors.empty()) {
                return "an error: " + admission.errors[0].message;
            }
            core::admit(catalog, admission, claimant.standing);
            core::PluginRecord record;
            record.id = id;
            record.vendor = claimant.vendor;
            record.standing = claimant.standing;
            catalog.add(std::move(record));
        }
        REQUIRE(admission.losses.size() + admission.left_out.size() == 1);
        return admission.losses.empty() ? admission.left_out[0] : admission.losses[0].sentence;
    };
    const Claimant found{"beta", Standing::found}, found_acme{"acme", Standing::found};
    const auto second_wins = [](const std::string &why) {
        return "plugin 'second' registers this impl_id as well, and " + why + ". Give one of them another impl_id.";
    };
    const auto first_wins = [](const std::string &why) {
        return "plugin 'first' has this impl_id, and " + why + ". Give one of them another impl_id.";
    };
    const std::string by_name = "bears the name of its vendor";
    const std::string programs = "is the program's own";
    CHECK(contains(said(found, found_acme, "vendor.acme"), second_wins(by_name)));
    CHECK(contains(said(found_acme, found, "vendor.acme"), first_wins(by_name)));
    CHECK(contains(said(found, {"gamma", Standing::own}, "vendor.acme"), second_wins("is part of opdock itself")));
    CHECK(contains(said(found_acme, {"gamma", Standing::own}, "vendor.acme"), first_wins(by_name)));
    CHECK(contains(said({"acme", Standing::own}, found, "vendor.acme"), first_wins(by_name)));
    CHECK(contains(said({"gamma", Standing::own}, found, "vendor.acme"), first_wins("is part of opdock itself")));
    CHECK(contains(said(found, {"gamma", Standing::beside}, "vendor.acme"),
                   second_wins("is in opdock's own folder of plugins")));
    CHECK(contains(said(found, {"gamma", Standing::trusted}, "vendor.acme"),
                   second_wins("is signed with a trusted key or listed by its digest")));
    CHECK(contains(said({"acme", Standing::trusted}, found_acme, "vendor.acme"),
                   first_wins("is signed with a trusted key or listed by its digest")));
    CHECK(contains(said(found, found, "vendor.acme"), first_wins("was found first")));
    // The program's own modules take precedence, whoever else has the name.
    CHECK(contains(said(found, {"acme", Standing::program}, "vendor.acme"), second_wins(programs)));
    CHECK(contains(said(found_acme, {"acme", Standing::program}, "vendor.acme"), second_wins(programs)));
    CHECK(contains(said(found_acme, {"gamma", Standing::program}, "vendor.acme"), second_wins(programs)));
    CHECK(contains(said({"gamma", Standing::program}, found_acme, "vendor.acme"), first_wins(programs)));
    CHECK(contains(said({"acme", Standing::program}, found, "vendor.acme"), first_wins(programs)));
    CHECK(said({"gamma", Standing::program}, {"acme", Standing::program}, "vendor.other")
              .starts_with("an error: op 'other.add': plugin 'second' registers impl_id 'vendor.other'"));
}

TEST_CASE("where trust is asked for, an impl_id goes to the plugin that is trusted") {
    const TemporaryDirectory folder;
    const std::string digest = core::hex(core::sha256_of(core::PluginFile(fixture("same_impl_id"))));
    const std::string policy = folder.write("policy.yaml", "trust: warn\ntrusted_sha256: [" + digest + "]\n").string();
    std::filesystem::permissions(policy, std::filesystem::perms(0644));
    Machine machine(fixture("good") + "," + fixture("same_impl_id"), "", {}, policy);
    const nlohmann::json row = machine.plugin("acme");
    CHECK(row["status"] == "loaded");
    CHECK(contains(row["warnings"].dump(),
                   "is left out: plugin 'acme-copy' registers this impl_id as well, and is signed "
                   "with a trusted key or listed by its digest"));
    CHECK(machine.plugin("acme-copy")["warnings"].empty());
}

TEST_CASE("the id of opdock's own plugin is not taken by one found before, unless the policy names that") {
    const Plugins own{"default_adder"};
    const auto status = [](Machine &machine) {
        const nlohmann::json described = machine.host->describe();
        for (const auto &row : described["plugins"]) {
            if (contains(row["path"], "takes_plugin_id")) {
                return row["status"].get<std::string>() + " " + row["code"].get<std::string>();
            }
        }
        return std::string();
    };
    Machine machine(fixture("takes_plugin_id"), own.path());
    CHECK(machine.added() == 300);
    CHECK(status(machine) == "skipped OPDOCK-E015");
    const nlohmann::json explained = machine.host->explain("fixture.add", "cpu", nullptr, nullptr);
    CHECK(explained["chain"].size() == 1);
    CHECK(explained["dropped"].empty());
    CHECK(machine.host.logged("plugin id 'adder' is the id of opdock's own") == 1);
    CHECK(machine.plugin("adder")["status"] == "skipped"); // listed first, in the order of the search

    Machine named(fixture("takes_plugin_id"), own.path(), {{"PLUGIN_DEFAULT_PLUGINS", "usurper"}});
    CHECK(named.added() == 770);
    CHECK(status(named) == "loaded ");
}

TEST_CASE("of a plugin whose id opdock's own takes back nothing is told but that") {
    const Plugins own{"default_adder"};
    const Machine machine(fixture("takes_plugin_id_and_kind"), own.path());
    CHECK(machine.host.logged("changes the umask") == 1);
    CHECK(machine.host.logged("implementation 'default.usurper' for op 'fixture.add' is left out") == 1);
    const nlohmann::json skipped = machine.plugin("adder");
    CHECK(skipped["status"] == "skipped");
    CHECK(skipped["left_out"].empty());
    CHECK(skipped["warnings"].empty());
}

// --- ops
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("an op that bears a vendor's name is the vendor's, though another plugin declared it before") {
    for (const bool owner_first : {false, true}) {
        CAPTURE(owner_first);
        Machine machine(owner_first ? fixture("fancy") + "," + fixture("takes_fancy")
                                    : fixture("takes_fancy") + "," + fixture("fancy"),
                        "");
        CHECK(machine.added("acme.fancy") == 800);
        CHECK(machine.plugin("fancy")["warnings"].empty());
        const std::string warning = machine.warning("aaa-fancy");
        CHECK(contains(warning, "op 'acme.fancy': the signature of plugin"));
        CHECK(contains(warning, "The op and its implementations are left out"));
        CHECK(contains(warning, "name of"));
    }
}

TEST_CASE("a contradicting signature is rejected where the op is nobody's, and opdock's own stands") {
    Machine nobody(fixture("good") + "," + fixture("other_signature"), "");
    CHECK(nobody.plugin("acme-other")["code"] == "OPDOCK-E037");
    const Plugins own{"default_adder"};
    Machine machine(fixture("other_signature") + "," + fixture("scaler"), own.path());
    CHECK(machine.added() == 300);
    CHECK(contains(machine.warning("acme-other"), "because plugin 'adder' is part of opdock itself"));
}

namespace {

constexpr const char *every_dtype = "f64|f32|f16|bf16|e4m3|e5m2|e8m0|i64|i32|i16|i8|u64|u32|u16|u8|bool"; // 16

// Plugins that all declare one op, each with several implementations of it.
struct Crowd {
    // Adds a plugin. Returns the reason why it is refused; empty if it is admitted.
    // `plain`: number of additional implementations that list no dtypes.
    std::string add(const std::string &id, const std::string &signature, int count, const std::string &dtypes,
                    core::Standing standing = core::Standing::found, int plain = 0) {
        core::Registrar registrar({id, id, id, true, {"cpu"}, standing}, nullptr, known);
        registrar.run([&](opdock_registry *registry) {
            declare(registry, signature.c_str());
            for (int i = 0; i < count + plain; ++i) {
                Made made("vendor." + id + std::to_string(i), OPDOCK_KIND_VENDOR);
                made.op = "other.op";
                made.dtypes = i < count ? dtypes : "";
                register_made(registry, made);
            }
            return OPDOCK_OK;
        });
        REQUIRE(registrar.errors().empty());
        const core::Admission admission =
            core::judge_admission(catalog, registrar.registration(), registrar.identity(), "");
        if (!admission.errors.empty()) {
            CHECK(admission.errors[0].code == core::RejectCode::too_many_registrations);
            return admission.errors[0].message;
        }
        core::admit(catalog, admission, standing);
        return "";
    }

    core::Signatures known;
    core::Catalog catalog;
};

std::string of_three(const std::string &dtypes) {
    return "other.op(x: T[a], y: U[a]?, z: V[a]?) -> (o: T[a]) where T in " + dtypes + ", U in " + dtypes + ", V in " +
           dtypes;
}

} // namespace

TEST_CASE("a plugin with more implementations, times combinations of dtypes, than hosts look at is rejected") {
    const std::string wide = of_three(every_dtype); // 4,096 combinations
    const std::string narrow = "other.op(x: T[a]) -> (o: T[a]) where T in f32";
    SUBCASE("by the number of implementations") {
        CHECK(Crowd().add("a", wide, 64, "f32,f32,f32").empty());
        CHECK(contains(Crowd().add("a", wide, 65, "f32,f32,f32"),
                       "op 'other.op', which has 4096 combinations of dtypes here, it adds 266240 implementations "
                       "times combinations"));
        CHECK(Crowd().add("a", narrow, 5000, "f32").empty());
        CHECK(Crowd().add("a", wide, 65, "f32,f32,f32", core::Standing::own).empty());
        CHECK(Crowd().add("a", wide, 65, "f32,f32,f32", core::Standing::program).empty());
    }
    SUBCASE("by the number of combinations that they list") {
        std::vector<std::string> dtypes;
        std::istringstream names(every_dtype);
        for (std::string name; std::getline(names, name, '|');) {
            dtypes.push_back(name);
        }
        std::string listed; // 256
        for (const std::string &x : dtypes) {
            for (const std::string &y : dtypes) {
                listed += (listed.empty() ? "" : "|") + x + "," + y + ",i8";
            }
        }
        CHECK(Crowd().add("a", wide, 64, listed).empty());
        CHECK(contains(Crowd().add("a", wide, 64, listed + "|f32,f32,f32"),
                       "and 67371008 combinations that implementations list times those of the op"));
        CHECK(Crowd().add("a", wide, 15, "").empty()); // they take up all the room
        // One that lists none counts like one that lists a single combination: 60 * 273 + 4 equals 64 * 256.
        const auto first_of = [&](int count) {
            std::string text;
            for (int i = 0; i < count; ++i) {
                text += (i == 0 ? "" : "|") + dtypes.at(static_cast<size_t>(i) / 16 % 16) + "," +
                        dtypes.at(static_cast<size_t>(i) % 16) + "," + dtypes.at(static_cast<size_t>(i) / 256);
            }
            return text;
        };
        CHECK(Crowd().add("a", wide, 60, first_of(273), core::Standing::found, 4).empty());
        CHECK_FALSE(Crowd().add("a", wide, 60, first_of(274), core::Standing::found, 4).empty());
    }
    SUBCASE("also where another plugin brings the implementations, or the dtypes") {
        Crowd crowd;
        REQUIRE(crowd.add("a", narrow, 500, "f32").empty());
        CHECK(!crowd.add("b", wide, 1, "f32,f32,f32").empty());
        CHECK(crowd.add("c", of_three("f32|f16"), 1, "f32,f32,f32").empty());
        CHECK(crowd.add("d", narrow, 500, "f32").empty());
        CHECK(crowd.add("e", wide, 1, "f32,f32,f32", core::Standing::own).empty());
        CHECK(!crowd.add("f", narrow, 500, "f32").empty());
        CHECK(crowd.add("g", narrow, 64, "f32").empty());
    }
}

TEST_CASE("what the signatures of all plugins have together is limited, and what others declare too counts once") {
    Crowd crowd;
    const std::string one = "other.op(x: T[a]) -> (o: T[a]) where T in f32";
    REQUIRE(crowd.add("a", one, 1, "f32").empty());
    CHECK(crowd.catalog.signature_bytes == one.size());
    CHECK(crowd.add("b", one, 1, "f32").empty());
    CHECK(crowd.catalog.signature_bytes == one.size());
    const std::string other = "other.op(x: T[a]) -> (o: T[a]) where T in f32|f16";
    crowd.catalog.signature_bytes = core::max_declared_bytes_of_all - other.size() + 1;
    CHECK(contains(crowd.add("c", other, 1, "f16"),
                   "its signatures have 49 bytes in addition to the 16777168 already loaded; at most 16777216"));
    CHECK(crowd.add("d", one, 1, "f32").empty());
    CHECK(crowd.add("e", other, 1, "f16", core::Standing::own).empty());
    crowd.catalog.remove("other.op", "e");
    --crowd.catalog.signature_bytes;
    CHECK(crowd.add("c", other, 1, "f16").empty());
    CHECK(crowd.catalog.signature_bytes == core::max_declared_bytes_of_all);
    for (const char *plugin : {"a", "b", "d"}) {
        crowd.catalog.remove("other.op", plugin);
    }
    CHECK(crowd.catalog.signature_bytes == core::max_declared_bytes_of_all - one.size());
}

// A catalog after plugins a, b, c, ... declared one op with these signatures, each with an implementation of it.
// Refused plugins are left out.
struct Declared {
    Declared(std::initializer_list<std::string> signatures) {
        for (const std::string &signature : signatures) {
            add(signature);
        }
    }
    void add(const std::string &signature) {
        const std::string id(1, static_cast<char>('a' + count++));
        core::Registrar registrar({id, id, id, true, {"cpu"}, core::Standing::found}, nullptr, known);
        Made made("vendor." + id, OPDOCK_KIND_VENDOR);
        made.op = "other.op";
        registrar.run([&](opdock_registry *registry) {
            declare(registry, signature.c_str());
            register_made(registry, made);
            return OPDOCK_OK;
        });
        REQUIRE(registrar.errors().empty());
        const core::Admission admission =
            core::judge_admission(catalog, registrar.registration(), registrar.identity(), "");
        if (admission.errors.empty()) {
            core::admit(catalog, admission, core::Standing::found);
        } else {
            refused += id;
        }
    }
    const core::CatalogOp &op() const { return *catalog.find("other.op"); }

    core::Signatures known;
    core::Catalog catalog;
    std::string refused;
    int count = 0;
};

TEST_CASE("an op has the longest form that plugins declare, with all dtypes that any of them allows") {
    const std::string usual = "other.op(x: T[n]) -> (y: T[n])";
    const std::string wide = usual + " where T in f32|f16|bf16|e4m3";
    const std::string longer = "other.op(x: T[n], *, eps: float = 1.0) -> (y: T[n])";
    const std::string longer_wide = longer + " where T in f32|f16|bf16|e4m3";
    const auto check = [](const Declared &declared, const std::string &signature, const char *plugin) {
        CHECK(declared.refused.empty());
        CHECK(*declared.op().signature == core::parse_signature(signature));
        CHECK(declared.op().plugin == plugin);
    };
    check({usual, wide}, wide, "b");
    check({wide, usual}, wide, "a");
    check({longer, wide}, longer_wide, "a"); // no plugin declares this form itself
    check({wide, longer}, longer_wide, "b");
    check({wide, longer, longer_wide}, longer_wide, "c");
    check({usual, longer + " where T in f32"}, longer, "b");
    const std::string two = "other.op(x: T[n], w: U[n]) -> (y: T[n])";
    check({two + " where T in f32", two + " where U in f32"}, two, "a");
    check({two + " where T in f32|e5m2, U in f32", two + " where T in f32, U in f32|i64"},
          two + " where T in f32|e5m2, U in f32|i64", "a");
}

TEST_CASE("what the form of an op is made of stays as it is until a plugin changes it") {
    const std::string usual = "other.op(x: T[n]) -> (y: T[n])";
    Declared declared{usual + " where T in f32|f16|bf16|e4m3", "other.op(x: T[n], *, eps: float = 1.0) -> (y: T[n])"};
    const core::Signature *const made = declared.op().signature.get();
    declared.add(usual);
    CHECK(declared.op().signature.get() == made);
    declared.catalog.remove("other.op", "a"); // the form that allows more
    CHECK(declared.op().signature->text == "other.op(x: T[n], *, eps: float = 1.0) -> (y: T[n])");
    declared.catalog.remove("other.op", "b");
    CHECK(declared.op().signature->text == usual);
    REQUIRE(declared.op().implementations.size() == 1);
    CHECK(declared.op().implementations[0]->impl_id == "vendor.c");
}

TEST_CASE("what one plugin has of an op goes without what others have of it") {
    const std::string usual = "other.op(x: T[n]) -> (y: T[n])";
    Declared declared{usual, usual, usual};
    const auto implementations = declared.op().implementations; // of a, b and c
    REQUIRE(implementations.size() == 3);
    declared.catalog.remove("other.op", "b");
    REQUIRE(declared.op().implementations.size() == 2);
    CHECK(declared.catalog.implementer(*implementations[1]) == nullptr);
    for (const auto &stays : {implementations[0], implementations[2]}) {
        CAPTURE(stays->plugin);
        REQUIRE(declared.catalog.implementer(*stays) != nullptr);
        CHECK(*declared.catalog.implementer(*stays) == stays->plugin);
    }
    declared.catalog.remove("other.op", "a");
    declared.catalog.remove("other.op", "c");
    CHECK(declared.catalog.find("other.op") == nullptr);
    CHECK(declared.catalog.implementers.empty());
    CHECK(core::number_of_tuples(std::vector<core::OpForm>()) == 0);
}

TEST_CASE("a plugin that is forgotten leaves the others to be found by their ids, before and behind it") {
    core::Catalog catalog;
    for (const char *id : {"a", "b", "c", "d"}) {
        core::PluginRecord record;
        record.id = id;
        record.standing = *id == 'a' ? core::Standing::own : core::Standing::found;
        catalog.add(std::move(record));
    }
    core::PluginRecord rejected;
    rejected.id = "e";
    rejected.status = core::PluginRecord::Status::rejected;
    catalog.add(std::move(rejected));
    CHECK(catalog.find_plugin("e") == nullptr);
    catalog.forget_plugin("b");
    CHECK(catalog.plugins.size() == 4);
    CHECK(catalog.find_plugin("b") == nullptr);
    for (const std::string id : {"a", "c", "d"}) {
        CAPTURE(id);
        REQUIRE(catalog.find_plugin(id) != nullptr);
        CHECK(catalog.find_plugin(id)->id == id);
    }
    CHECK(catalog.standing("a") == core::Standing::own);
    CHECK(catalog.standing("b") == core::Standing::found);
    CHECK(catalog.standing("") == core::Standing::program);
    catalog.remove_plugin("c"); // its record stays
    CHECK(catalog.plugins.size() == 4);
    CHECK(catalog.find_plugin("c") == nullptr);
    catalog.forget_plugin("d");
    catalog.forget_plugin("a");
    CHECK(catalog.loaded.empty());
}

TEST_CASE("each two declarations of an op have to go together, in whatever order the plugins come") {
    const std::string usual = "other.op(x: T[n]) -> (y: T[n])";
    const std::string of_f32 = usual + " where T in f32", of_f16 = usual + " where T in f16";
    CHECK(Declared{of_f32, of_f16}.refused == "b");
    CHECK(Declared{of_f32, usual, of_f16}.refused == "c");
    CHECK(Declared{usual, of_f32, of_f16}.refused == "c");
    CHECK(Declared{of_f32, of_f16, usual}.refused == "b");
    CHECK(Declared{of_f32, usual, of_f32}.refused.empty());
    const std::string input = "other.op(x: T[n], w: T[n]?) -> (y: T[n])";
    const std::string attribute = "other.op(x: T[n], *, eps: float = 1.0) -> (y: T[n])";
    const std::string both = "other.op(x: T[n], w: T[n]?, *, eps: float = 1.0) -> (y: T[n])";
    CHECK(Declared{both, input, attribute}.refused == "c");
    CHECK(Declared{input, attribute, both}.refused == "b");
}

// --- devices
// --------------------------------------------------------------------------------------------------------------

TEST_CASE("a provider that contradicts an earlier plugin's is left out, and the rest of the plugin stays") {
    Machine machine(fixture("registers_everything") + "," + fixture("takes_npu"), "");
    CHECK(machine.plugin("everything")["warnings"].empty());
    const std::string warning = machine.warning("aaa-npu");
    CHECK(contains(warning, "'npu' of plugin 'aaa-npu'"));
    CHECK(contains(warning, "contradicts 'npu' of plugin 'everything'"));
    CHECK(machine.host->describe()["ops"][0]["implementations"].size() == 1);
}

TEST_CASE("opdock's own folder provides a device type before plugins that were found earlier") {
    Plugins own{};
    own.add("registers_everything", "libown_npu.so"); // a name that no other test uses in this process
    Machine machine(fixture("takes_npu"), own.path());
    CHECK(machine.plugin("everything")["warnings"].empty());
    CHECK(contains(machine.warning("aaa-npu"), "because plugin 'everything' is in opdock's own folder of plugins"));
    const nlohmann::json op = machine.host->describe()["ops"][0];
    REQUIRE(op["implementations"].size() == 1);
    CHECK(op["implementations"][0]["plugin"] == "everything");
}

TEST_CASE("of two providers that agree the one in opdock's own folder serves") {
    const auto model = [](Machine &machine) {
        for (const auto &device : machine.host->describe_devices()) {
            if (device["device"] == "npu:0") {
                return device["name"].get<std::string>();
            }
        }
        return std::string();
    };
    Plugins own{};
    own.add("registers_everything", "libown_npu.so"); // a name that no other test uses in this process
    Machine machine(fixture("offers_npu"), own.path());
    CHECK(model(machine) == "first npu");
    CHECK(machine.plugin("aaa-offers-npu")["warnings"].empty());
    Machine equals(fixture("offers_npu") + "," + own.path() + "/libown_npu.so", "");
    CHECK(model(equals) == "first usurper's npu");
}

TEST_CASE("a provider that may be in use stays when a better one is loaded") {
    Plugins own{};
    own.add("registers_everything", "libown_npu.so"); // a name that no other test uses in this process
    Machine machine(fixture("takes_npu"), own.path(), {{"PLUGIN_MODULES_ONLY", "1"}});
    machine.host->load(own.path() + "/libown_npu.so");
    CHECK(machine.plugin("aaa-npu")["warnings"].empty());
    CHECK(contains(machine.warning("everything"), "The type and its implementations are left out"));
}
