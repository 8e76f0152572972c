#include "policy/policy_sources.hpp"

#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "made_host.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::message_of;
using opdock::test::TemporaryDirectory;
using opdock::test::thrown_by;

namespace {

// A machine with a system policy, and a job with an environment.
class Machine {
  public:
    std::string system(std::string_view text) { return directory_.write("etc/policy.yaml", text).string(); }
    std::string config(std::string_view text) { return directory_.write("job/policy.yaml", text).string(); }

    LoadedPolicy load(const RawEnvironment &raw, bool secure = false) const {
        return load_policy(make_environment("PLUGIN_", raw, secure), (directory_.path() / "etc/policy.yaml").string());
    }

  private:
    TemporaryDirectory directory_;
};

} // namespace

TEST_CASE("without files and variables the defaults hold") {
    const LoadedPolicy loaded = Machine().load({});
    CHECK(loaded.warnings.empty());
    CHECK(loaded.stack.effective("gelu", "cpu", 0) == PolicyStack().effective("gelu", "cpu", 0));
}

TEST_CASE("each source decides what the ones above it leave open") {
    Machine machine;
    const std::string system = machine.system("prefer: reference\nstrict: 1\nallow_vendors: [a]\ndeny_vendors: [b]\n"
                                              "per_op: {gelu: default}\nenforce: {deny_vendors: [evil]}\n");
    const std::string config = machine.config("prefer: vendor\nallow_vendors: [c]\n");
    const LoadedPolicy loaded = machine.load({{"PLUGIN_CONFIG", config}, {"PLUGIN_PREFER", "default"}});
    const OpPolicy policy = loaded.stack.effective("silu", "cpu", 0);
    CHECK(policy.order_source == "PLUGIN_PREFER");
    CHECK(policy.source(settings::allow_vendors) == config + ":2:1");
    CHECK(policy.source(settings::strict) == system + ":2:1");
    CHECK(policy.items.deny_vendors->value == Vendors{"evil"});
    CHECK(policy.source(settings::deny_vendors) == system + ":6:11 (enforced)");
    CHECK(loaded.stack.effective("gelu", "cpu", 0).order_source == system + ":5:10");
}

TEST_CASE("a file that others may write to grants no trust, and takes none away") {
    Machine machine;
    const std::string digests = "trusted_sha256: [" + std::string(64, 'a') + "]\n";
    const std::string config = machine.config("prefer: vendor\ntrust: off\n" + digests + "default_plugins: [acme]\n");
    const RawEnvironment environment = {{"PLUGIN_CONFIG", config}};
    REQUIRE(::chmod(machine.system("trust: warn\n").c_str(), 0644) == 0);
    CHECK(machine.load(environment).warnings.empty());
    CHECK(machine.load(environment).stack.trust().mode == Trust::off);
    CHECK(machine.load(environment).stack.default_plugins());

    REQUIRE(::chmod(config.c_str(), 0666) == 0);
    const LoadedPolicy loaded = machine.load(environment);
    CHECK(loaded.stack.trust().mode == Trust::warn);
    CHECK(loaded.stack.trust().digests == nullptr);
    CHECK_FALSE(loaded.stack.default_plugins());
    CHECK(loaded.stack.effective("gelu", "cpu", 0).order_source == config + ":1:1"); // the remaining settings count
    REQUIRE(loaded.warnings.size() == 1);
    CHECK(contains(loaded.warnings[0], "the policy file '" + config + "'"));
    CHECK(contains(loaded.warnings[0], "Ignored: trust (" + config + ":2:1), trusted_sha256 (" + config +
                                           ":3:1), default_plugins (" + config + ":4:1)."));
    CHECK(contains(loaded.warnings[0], "Run `chmod o-w '" + config + "'`"));
    RawEnvironment strict = environment;
    strict["PLUGIN_STRICT"] = "1";
    CHECK(contains(message_of([&] { machine.load(strict); }),
                   "Strict mode does not use the trust settings of such a file."));
}

TEST_CASE("each key that grants trust is ignored alone, too, in a file that others may write to") {
    Machine machine;
    for (const std::string &key : {std::string("trust: off"), "trusted_sha256: [" + std::string(64, 'a') + "]",
                                   std::string("default_plugins: [acme]")}) {
        CAPTURE(key);
        const std::string config = machine.config(key + "\n");
        REQUIRE(::chmod(config.c_str(), 0666) == 0);
        const LoadedPolicy loaded = machine.load({{"PLUGIN_CONFIG", config}});
        REQUIRE(loaded.warnings.size() == 1);
        CHECK(contains(loaded.warnings[0], "Ignored: " + key.substr(0, key.find(':')) + " (" + config + ":1:1)."));
    }
}

TEST_CASE("what a file that others may write to requires stays required") {
    Machine machine;
    const std::string file = machine.system("enforce: {trust: require}\n");
    REQUIRE(::chmod(file.c_str(), 0666) == 0);
    const LoadedPolicy loaded = machine.load({});
    CHECK(loaded.stack.trust().mode == Trust::require);
    REQUIRE(loaded.warnings.size() == 1);
    CHECK(contains(loaded.warnings[0], "Ignored: nothing, because the file only requires trust."));
}

TEST_CASE("a file that others may write to and that says nothing of trust is taken without a word") {
    Machine machine;
    const std::string config = machine.config("prefer: vendor\n");
    REQUIRE(::chmod(config.c_str(), 0666) == 0);
    CHECK(machine.load({{"PLUGIN_CONFIG", config}, {"PLUGIN_STRICT", "1"}}).warnings.empty());
}

TEST_CASE("a policy of the system that is a link to nowhere is not passed over: it may enforce something") {
    Machine machine;
    const std::filesystem::path file = machine.system("");
    std::filesystem::remove(file);
    std::filesystem::create_symlink("/nonexistent/policy.yaml", file);
    CHECK(message_of([&] { machine.load({}); }).starts_with(file.string() + ": cannot open: "));
}

TEST_CASE("a policy of the system in a folder that is a link to nowhere is not passed over either") {
    const TemporaryDirectory directory;
    const std::filesystem::path folder = directory.path() / "opdock";
    std::filesystem::create_symlink("/nonexistent/opdock", folder);
    for (const char *name : {"policy.yaml", "deeper/policy.yaml"}) {
        const std::string file = (folder / name).string();
        CHECK(message_of([&] {
                  load_policy(make_environment("PLUGIN_", {}, false), file);
              }).starts_with(file + ": cannot open: "));
    }
}

TEST_CASE("a section for a device is reached through the files") {
    Machine machine;
    const std::string config = machine.config("devices: {cuda:1: {strict: 1}}\n");
    const LoadedPolicy loaded = machine.load({{"PLUGIN_CONFIG", config}});
    CHECK(loaded.stack.effective("gelu", "cuda", 1).value(settings::strict));
    CHECK_FALSE(loaded.stack.effective("gelu", "cuda", 0).value(settings::strict));
}

TEST_CASE("an unknown key is a warning, and an error when the result is strict") {
    Machine machine;
    const std::string config = machine.config("prefre: vendor\nenforce: {}\n");
    const LoadedPolicy loaded = machine.load({{"PLUGIN_CONFIG", config}});
    REQUIRE(loaded.warnings.size() == 2);
    CHECK(loaded.warnings[0] == config + ":1:1: unknown key 'prefre'; did you mean 'prefer'?");
    const Error error = thrown_by([&] { machine.load({{"PLUGIN_CONFIG", config}, {"PLUGIN_STRICT", "1"}}); });
    CHECK(error.status() == OPDOCK_INVALID_POLICY);
    CHECK(std::string(error.what())
              .starts_with("strict mode does not allow unknown keys:\n  " + config + ":1:1: unknown key"));
}

TEST_CASE("an unknown key of the machine's file is an error where it may be meant to enforce something") {
    Machine machine;
    for (const char *text : {"Enforce: {trust: require}\n", "enforce: {Trust: require}\n", "enforced: {}\n",
                             "enforce: {devices: {cuda: {deny_vendor: [acme]}}}\n"}) {
        CAPTURE(text);
        const std::string system = machine.system(text);
        const Error error = thrown_by([&] { machine.load({}); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(contains(error.what(), system + ":1:"));
        CHECK(contains(error.what(), "would not be enforced"));
    }
    machine.system("Enforce: {trust: require}\n");
    CHECK(contains(message_of([&] { machine.load({}); }), "unknown key 'Enforce'; did you mean 'enforce'?"));
    // Below 'devices', an unknown setting never enforces anything.
    machine.system("devices: {cuda: {deny_vendor: [acme]}}\nenforce: {trust: require}\n");
    CHECK(machine.load({}).warnings.size() == 1);
    // A job's file enforces nothing.
    machine.system("");
    const std::string config = machine.config("Enforce: {trust: require}\n");
    CHECK(machine.load({{"PLUGIN_CONFIG", config}}).warnings.size() == 1);
}

TEST_CASE("PLUGIN_CONFIG is an absolute path of a file that can be read") {
    Machine machine;
    CHECK(message_of([&] {
              machine.load({{"PLUGIN_CONFIG", "policy.yaml"}});
          }) == "PLUGIN_CONFIG, column 1: expected the absolute path of a policy file, found 'policy.yaml'");
    CHECK(message_of([&] {
              machine.load({{"PLUGIN_CONFIG", ""}});
          }) == "PLUGIN_CONFIG, column 1: expected the absolute path of a policy file, found ''");
    CHECK(message_of([&] {
              machine.load({{"PLUGIN_CONFIG", "/a\nb"}});
          }) == "PLUGIN_CONFIG, column 1: expected the absolute path of a policy file, found '/a\\x0ab'");
    CHECK(message_of([&] {
              machine.load({{"PLUGIN_CONFIG", "/none/p.yaml"}});
          }) == "PLUGIN_CONFIG: /none/p.yaml: cannot open: No such file or directory");
}

TEST_CASE("a system policy that is there but cannot be read stops the host: it may enforce something") {
    const TemporaryDirectory directory;
    CHECK(message_of([&] { load_policy(make_environment("PLUGIN_", {}, false), directory.path().string()); }) ==
          directory.path().string() + ": expected a regular file");
    const std::string loop = (directory.path() / "loop").string();
    std::filesystem::create_symlink(loop, loop);
    CHECK(message_of([&] { load_policy(make_environment("PLUGIN_", {}, false), loop); }) ==
          loop + ": cannot open: Too many levels of symbolic links");
}

TEST_CASE("a system policy whose folder is a file, or a link to one, stops the host") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.write("file", "enforce: {trust: require}\n");
    const std::filesystem::path link = directory.path() / "link";
    std::filesystem::create_symlink(file, link);
    for (const std::filesystem::path &folder : {file, link, file / "deeper"}) {
        const std::string path = (folder / "policy.yaml").string();
        CAPTURE(path);
        CHECK(message_of([&] { load_policy(make_environment("PLUGIN_", {}, false), path); }) ==
              path + ": cannot open: Not a directory");
    }
}

TEST_CASE("a system policy in a folder that cannot be searched stops the host") {
    if (::geteuid() == 0) {
        return; // root may search every folder
    }
    Machine machine;
    const std::filesystem::path folder = std::filesystem::path(machine.system("")).parent_path();
    REQUIRE(::chmod(folder.c_str(), 0) == 0);
    const std::string message = message_of([&] { machine.load({}); });
    REQUIRE(::chmod(folder.c_str(), 0755) == 0);
    CHECK(message == (folder / "policy.yaml").string() + ": cannot open: Permission denied");
}

TEST_CASE("a system policy that is certainly not there is passed over") {
    const TemporaryDirectory directory;
    for (const std::string path : {directory.path() / "none", directory.path() / "none/policy.yaml"}) {
        CAPTURE(path);
        CHECK(load_policy(make_environment("PLUGIN_", {}, false), path).stack.system == nullptr);
    }
}

TEST_CASE("with raised privileges only the system's policy counts") {
    Machine machine;
    const std::string system = machine.system("prefer: vendor\n");
    const std::string config = machine.config("strict: 1\n");
    const LoadedPolicy loaded =
        machine.load({{"PLUGIN_CONFIG", config}, {"PLUGIN_PREFER", "reference"}, {"PLUGIN_STRICT", "nonsense"}}, true);
    const OpPolicy policy = loaded.stack.effective("gelu", "cpu", 0);
    CHECK(policy.order_source == system + ":1:1");
    CHECK_FALSE(policy.value(settings::strict));
}

TEST_CASE("a wrong policy at reload throws before anything is changed, and reads well once it is mended") {
    Machine machine;
    machine.system("prefer: vendor\n");
    PolicyStack in_force = machine.load({}).stack;
    const OpPolicy before = in_force.effective("gelu", "cpu", 0);
    for (const char *wrong : {"prefer: [", "prefer: nobody\n", "prefer: vendor\nprefer: vendor\n"}) {
        CAPTURE(wrong);
        machine.system(wrong);
        CHECK_THROWS_AS(in_force = machine.load({}).stack, Error);
        CHECK(in_force.effective("gelu", "cpu", 0) == before);
    }
    machine.system("prefer: reference\n");
    in_force = machine.load({}).stack;
    CHECK(in_force.effective("gelu", "cpu", 0).order.front() == Token::of_kind(Kind::reference));
}

TEST_CASE("what is wrong with a file that PLUGIN_CONFIG names is told with the variable") {
    Machine machine;
    const std::string wrong = machine.config("prefer: [");
    CHECK_THROWS_WITH_AS(machine.load({{"PLUGIN_CONFIG", wrong}}),
                         doctest::Contains(("PLUGIN_CONFIG: " + wrong + ":1:").c_str()), Error);
}
