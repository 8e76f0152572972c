// Output of plugin-ls when nothing is wrong.
#include <algorithm>
#include <initializer_list>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;

TEST_CASE("one screen shows every plugin and the order in which implementations are tried") {
    const PluginLs tool({fixture("good"), fixture("default_adder"), fixture("reference_adder")});
    const Finished finished = tool.run({});
    CHECK(finished.code == 0);
    CHECK(finished.err.empty());
    CHECK(contains(finished.out, "opdock " OPDOCK_VERSION ", ABI "));
    CHECK(contains(finished.out, "acme        1.0.0    acme    loaded  " + fixture("good") + "\n"));
    CHECK(contains(finished.out, "fixture.add  cpu  default.adder > vendor.acme > reference.adder\n"));
}

TEST_CASE("a preference changes the order that is shown") {
    PluginLs tool({fixture("good"), fixture("default_adder"), fixture("reference_adder")});
    tool.with("PLUGIN_PREFER", "vendor");
    CHECK(contains(tool.run({}).out, "fixture.add  cpu  vendor.acme > default.adder > reference.adder\n"));
}

TEST_CASE("the in-tree reference plugin is listed with its ops") {
    const Finished finished = PluginLs({REFERENCE_PLUGIN}).run({});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, " rmsnorm_fwd,"));
    CHECK(contains(finished.out, "reference.cpp"));
    CHECK(std::count(finished.out.begin(), finished.out.end(), '\n') < 40);
}

TEST_CASE("the in-tree CPU plugin goes before the reference, and the policy can turn them round") {
    PluginLs tool({REFERENCE_PLUGIN, CPU_PLUGIN});
    const Finished finished = tool.run({"--op", "rmsnorm_fwd"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "  on cpu  default.cpu > reference.cpp  "));
    tool.with("PLUGIN_PREFER", "reference");
    CHECK(contains(tool.run({"--op", "rmsnorm_fwd"}).out, "  on cpu  reference.cpp > default.cpu  "));
}

TEST_CASE("the screen and its document are narrowed to a plugin, a vendor or a device") {
    const PluginLs tool({fixture("good"), fixture("second_vendor"), fixture("for_cuda"), fixture("other_abi")});
    const std::string globex = tool.run({"--plugin", "globex"}).out;
    CHECK(contains(globex, "globex"));
    CHECK_FALSE(contains(globex, fixture("good")));
    CHECK(contains(tool.run({"--vendor", "acme"}).out, "acme-cuda"));
    CHECK_FALSE(contains(tool.run({"--vendor", "acme"}).out, fixture("second_vendor")));
    CHECK(contains(tool.run({"--device", "cuda"}).out, "acme-cuda"));
    CHECK_FALSE(contains(tool.run({"--device", "cuda"}).out, "vendor.globex"));
    CHECK(nlohmann::json::parse(tool.run({"--plugin", "globex", "--json"}).out)["plugins"].size() == 1);
    const nlohmann::json rejected = nlohmann::json::parse(tool.run({"--rejected", "--json"}).out);
    CHECK(rejected["plugins"].size() == 1);
    CHECK(rejected["ops"].empty());
    CHECK(contains(tool.run({"--plugin", "globexx"}).err,
                   "plugin-ls: no plugin has the id 'globexx'; did you mean 'globex'?\n"));
    CHECK(tool.run({"--paths", "--plugin", "globex"}).code == 2);
    CHECK(contains(tool.run({"--plugin", "globex", "--device", "cuda"}).out,
                   "PLUGINS\n  none matches --plugin, --vendor and --device together; 'plugin-ls' shows all\n"));
}

TEST_CASE("without any plugin the screen says where to look") {
    const Finished finished = PluginLs({}).run({});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "none found; 'plugin-ls --paths' shows the searched places"));
}

TEST_CASE("verbose shows the details of every implementation") {
    const Finished finished = PluginLs({fixture("good")}).run({"-v"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "  fixture.add(a: T[...], b: T[...], *, statuses: string = \"\")\n"
                                 "      -> (output: T[...])\n"));
    CHECK(contains(finished.out, "  implementation  kind         device  plugin  dtypes\n"
                                 "  vendor.acme     vendor:acme  cpu     acme    f32\n"));
}

TEST_CASE("modules of the command line are searched before those of the environment") {
    const PluginLs tool({fixture("good")});
    const Finished paths = tool.run({"--paths", "--modules", fixture("second_vendor")});
    CHECK(paths.code == 0);
    const size_t first = paths.out.find(fixture("second_vendor"));
    const size_t second = paths.out.find(fixture("good"));
    CHECK(first < second);
    CHECK(second != std::string::npos);
    CHECK(contains(paths.out, "PLUGIN_MODULES\n"));
    CHECK(contains(tool.run({"--modules", fixture("second_vendor")}).out, "vendor.globex > vendor.acme"));
}

TEST_CASE("what does not promise what the policy requires leaves the chain, and says so") {
    PluginLs tool({fixture("good")});
    tool.with("PLUGIN_REQUIRE", "deterministic;fixture.add=batch_invariant");
    const Finished policy = tool.run({"--policy"});
    CHECK(contains(policy.out, "  require              deterministic    from PLUGIN_REQUIRE\n"));
    CHECK(contains(policy.out, "  require.fixture.add  batch_invariant  from PLUGIN_REQUIRE\n"));
    const Finished why = tool.run({"--why", "fixture.add"});
    CHECK(contains(why.out, "contract\n      it does not promise deterministic, which PLUGIN_REQUIRE asks for\n"));
}

TEST_CASE("policy shows each setting and the variable it came from") {
    PluginLs tool({fixture("good")});
    tool.with("PLUGIN_PREFER", "vendor").with("PLUGIN_DENY_VENDORS", "globex");
    tool.with("PLUGIN_PER_OP", "fixture.add=vendor:acme|default");
    const Finished finished = tool.run({"--policy"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "  prefer              vendor                 from PLUGIN_PREFER\n"));
    CHECK(contains(finished.out, "  deny_vendors        globex                 from PLUGIN_DENY_VENDORS\n"));
    CHECK(contains(finished.out, "  per_op.fixture.add  vendor:acme > default  from PLUGIN_PER_OP\n"));
    CHECK(contains(finished.out, "  allow_vendors       everybody "));
}

TEST_CASE("a program's own prefix is read, in policies, lists of modules and bug reports") {
    PluginLs tool({});
    tool.with("TE_FL_STRICT", "1").with("TE_FL_PLUGIN_MODULES", fixture("good")).with("PLUGIN_PREFER", "vendor");
    const std::string policy = tool.run({"--prefix", "TE_FL_", "--policy"}).out;
    CHECK(contains(policy, "from TE_FL_STRICT"));
    CHECK_FALSE(contains(policy, "PLUGIN_PREFER "));
    CHECK(contains(tool.run({"--prefix", "TE_FL_"}).out, "vendor.acme"));
    const std::string report = tool.run({"--prefix", "TE_FL_", "--bug-report"}).out;
    CHECK(contains(report, "TE_FL_STRICT"));
    CHECK(contains(report, fixture("good")));
}

TEST_CASE("every tool that opens a host reads the variables of the program's prefix") {
    const std::vector<std::vector<std::string>> commands{
        {PLUGIN_RUN, "fixture.add", "--in", "a=ones:f32[2]", "--in", "b=ones:f32[2]"},
        {PLUGIN_BENCH, "fixture.add", "--shape", "a=f32[2]", "--shape", "b=f32[2]"},
        {PLUGIN_TUNE, "fixture.add", "--shape", "a=f32[2]", "--shape", "b=f32[2]"},
        {PLUGIN_CHECK, fixture("good")},
    };
    for (const std::vector<std::string> &command : commands) {
        CAPTURE(command.front());
        Tool tool(command.front().c_str(), {fixture("good")});
        tool.with("TE_FL_STRICT", "perhaps");
        std::vector<std::string> arguments(command.begin() + 1, command.end());
        arguments.insert(arguments.end(), {"--prefix", "TE_FL_"});
        const Finished run = tool.run(arguments);
        CHECK(run.code != 0);
        CHECK(contains(run.out + run.err, "TE_FL_STRICT"));
    }
}

TEST_CASE("what nobody set is built-in, in each answer") {
    const PluginLs tool({fixture("good"), fixture("default_adder")});
    CHECK(contains(tool.run({"--policy"}).out, "  prefer           default    built-in\n"));
    const Finished why = tool.run({"--why", "fixture.add"});
    CHECK(contains(why.out, "  order   default|vendor|reference, built-in\n"));
    CHECK(contains(why.out, "  1  default.adder  'default' in the built-in order\n"));
}

TEST_CASE("why names the rule for every implementation") {
    PluginLs tool({fixture("good"), fixture("second_vendor"), fixture("default_adder"), fixture("for_cuda")});
    tool.with("PLUGIN_DENY_VENDORS", "globex");
    const Finished finished = tool.run({"--why", "fixture.add", "--dtype", "f32"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "fixture.add on cpu:0, dtypes f32\n"));
    CHECK(contains(finished.out, "  1  default.adder  "));
    CHECK(contains(finished.out, "  2  vendor.acme    "));
    CHECK(contains(finished.out,
                   "  vendor.globex     deny_vendors\n      vendor 'globex' is denied by PLUGIN_DENY_VENDORS\n"));
    CHECK(contains(finished.out, "  vendor.acme-cuda  device\n"));
}

TEST_CASE("why of a call without tensors is asked for the device that was named") {
    const PluginLs tool({fixture("registers_everything"), fixture("without_tensors")});
    const Finished finished = tool.run({"--why", "acme.wait", "--device", "npu:1", "--attr", "n=3"});
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "acme.wait on npu:1"));
    CHECK(contains(finished.out, "  1  vendor.without-tensors  "));
    const Finished on_cpu = tool.run({"--why", "acme.wait", "--attr", "n=3"});
    CHECK(on_cpu.code == 1);
    CHECK(contains(on_cpu.out, "it runs on npu, not on cpu"));
}

TEST_CASE("why is answered for a type of device that only a plugin names and nobody provides") {
    const PluginLs tool({fixture("undeclared_device"), fixture("good")});
    const Finished finished = tool.run({"--why", "fixture.add", "--device", "npu"});
    INFO(finished.err);
    CHECK(finished.code == 1);
    const std::string missing = "there is no device npu:0: no plugin provides devices of this type";
    CHECK(contains(finished.out, "fixture.add on npu:0, any dtypes\n"));
    CHECK(contains(finished.out, "DEVICE npu:0 can run no implementation\n  " + missing + "\n"));
    CHECK(contains(finished.out, "  vendor.acme-npu  availability\n      " + missing + "\n"));
    CHECK(contains(finished.out, "it runs on cpu, not on npu"));
    CHECK(contains(tool.run({"--why", "fixture.add", "--device", "npux"}).err, "'npux' is not a device"));
    CHECK(contains(
        tool.run({"--why", "fixture.add", "--device", "npu", "--shape", "a=f32[4]", "--shape", "b=f32[4]"}).err,
        missing));
}

TEST_CASE("one dtype stands for all variables of the signature") {
    const PluginLs tool({REFERENCE_PLUGIN});
    CHECK(contains(tool.run({"--why", "rmsnorm_fwd", "--dtype", "f32"}).out, "rmsnorm_fwd on cpu:0, dtypes f32,f32\n"));
    CHECK(contains(tool.run({"--why", "rmsnorm_fwd", "--dtype", "bf16,f32"}).out,
                   "rmsnorm_fwd on cpu:0, dtypes bf16,f32\n"));
}

TEST_CASE("exists answers with its exit code alone") {
    const PluginLs tool({fixture("good")});
    const Finished there = tool.run({"--exists", "vendor.acme"});
    CHECK(there.code == 0);
    CHECK(there.out.empty());
    CHECK(there.err.empty());
    CHECK(tool.run({"--exists", "Vendor.ACME"}).code == 0); // compared as in policies
    const Finished absent = tool.run({"--exists", "vendor.acmee"});
    CHECK(absent.code == 1);
    CHECK(absent.out.empty());
    CHECK(absent.err == "plugin-ls: no plugin brings an implementation 'vendor.acmee'; did you mean 'vendor.acme'?\n");
}

TEST_CASE("a bug report has everything, and no value of a variable that is not opdock's") {
    PluginLs tool({fixture("good"), fixture("other_abi")});
    tool.with("PLUGIN_PASSWORD", "hunter2").with("PLUGIN_PREFER", "vendor");
    const Finished finished = tool.run({"--bug-report"});
    CHECK(finished.code == 1); // one requested plugin was not accepted
    for (const char *part : {"plugin-ls (opdock) " OPDOCK_VERSION, "libopdock.so", "Linux", "PLUGIN_PREFER",
                             "PLUGIN_PASSWORD", "SEARCH PATHS", "POLICY", "PLUGINS", "vendor.acme", "OPDOCK-E012"}) {
        INFO(part);
        CHECK(contains(finished.out, part));
    }
    CHECK_FALSE(contains(finished.out, "hunter2"));
}

TEST_CASE("version and help go to stdout") {
    const PluginLs tool({});
    CHECK(tool.run({"--version"}).out.rfind("plugin-ls (opdock) " OPDOCK_VERSION ", ABI ", 0) == 0);
    const Finished help = tool.run({"--help"});
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK(contains(help.out, "Examples:"));
}

TEST_CASE("colour is for terminals whose user does not mind") {
    PluginLs tool({fixture("good")});
    tool.with("TERM", "xterm");
    CHECK_FALSE(contains(tool.run({}).out, "\x1b["));
    const Finished coloured = tool.run_on_terminal({});
    CHECK(coloured.code == 0);
    CHECK(contains(coloured.out, "\x1b[32mloaded\x1b[0m"));
    tool.with("NO_COLOR", "1");
    const Finished plain = tool.run_on_terminal({});
    CHECK(contains(plain.out, "loaded"));
    CHECK_FALSE(contains(plain.out, "\x1b["));
}

TEST_CASE("details of the in-tree plugins' ops fit 80 columns, or the terminal") {
    PluginLs tool({REFERENCE_PLUGIN, CPU_PLUGIN});
    tool.with("NO_COLOR", "1");
    const auto widest = [](const std::string &text) {
        size_t width = 0;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            line.erase(line.find_last_not_of('\r') + 1);
            width = std::max(width, line.size());
        }
        return width;
    };
    for (const char *op : {"rmsnorm_fwd", "fused_rope_fwd", "cross_entropy_fwd", "linear_fwd", "gelu"}) {
        INFO(op);
        CHECK(widest(tool.run({"--op", op}).out) <= 80);
    }
    CHECK(widest(tool.run_on_terminal({"--op", "rmsnorm_fwd"}, 60).out) <= 60);
    CHECK(widest(tool.run_on_terminal({"--op", "rmsnorm_fwd"}, 120).out) > 80);
    // Paths and values of variables are wrapped too; in a file each is on one line.
    const std::string modules = REFERENCE_PLUGIN "," CPU_PLUGIN;
    for (const unsigned short columns : std::initializer_list<unsigned short>{60, 80, 100}) {
        CHECK(widest(tool.run_on_terminal({}, columns).out) <= columns);
        CHECK(widest(tool.run_on_terminal({"--policy"}, columns).out) <= columns);
    }
    CHECK(contains(tool.run({}).out, REFERENCE_PLUGIN "\n"));
    CHECK(contains(tool.run({"--policy"}).out, modules + "\n"));
}

TEST_CASE("every answer is the same twice") {
    const PluginLs tool({fixture("good"), fixture("default_adder"), fixture("other_abi"), REFERENCE_PLUGIN});
    const std::vector<std::vector<std::string>> questions = {
        {},          {"-v"},       {"--json"},     {"--op", "fixture.add"},      {"--why", "fixture.add"},
        {"--paths"}, {"--policy"}, {"--rejected"}, {"--check", fixture("good")}, {"--bug-report"}};
    for (const auto &question : questions) {
        const Finished first = tool.run(question);
        const Finished second = tool.run(question);
        INFO((question.empty() ? "" : question[0]));
        CHECK_FALSE(first.out.empty());
        CHECK(first.code == second.code);
        CHECK(first.out == second.out);
        CHECK(first.err == second.err);
    }
}
