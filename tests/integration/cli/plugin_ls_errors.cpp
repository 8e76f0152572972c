// Errors of plugin-ls: printed on stderr after its name, with the matching exit code.
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include "tools.hpp"

using namespace opdock::test;

TEST_CASE("wrong usage exits with 2, says what is wrong on stderr and prints nothing else") {
    const PluginLs tool({fixture("good")});
    const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
        {{"--jsno"}, "unknown option '--jsno'; did you mean '--json'?"},
        {{"--o", "x"}, "unknown option '--o'"},
        {{"stray"}, "unexpected argument"},
        {{"--op"}, "--op"},
        {{"--op", ""}, "--op"},
        {{"--op", "a", "--why", "b"}, "--op and --why are two questions"},
        {{"--dtype", "f32"}, "--dtype belongs to --why"},
        {{"--paths", "--device", "cpu"}, "--device belongs to --why, --op, and the list of plugins and ops"},
        {{"--json", "--exists", "x"}, "--json has no meaning"},
        {{"--modules", ""}, "a path is empty"},
        {{"--prefix", "TE-FL_"}, "--prefix 'TE-FL_': expected letters, digits and '_'"},
    };
    for (const auto &[arguments, message] : mistakes) {
        const Finished finished = tool.run(arguments);
        const std::string &tried = message;
        CAPTURE(tried);
        CHECK(finished.code == 2);
        CHECK(finished.out.empty());
        CHECK(finished.err.rfind("plugin-ls: ", 0) == 0);
        CHECK(contains(finished.err, message));
        CHECK(contains(finished.err, "\nTry 'plugin-ls --help'.\n"));
    }
}

TEST_CASE("an unknown op exits with 1 and suggests the one that was meant") {
    const PluginLs tool({fixture("good")});
    for (const char *option : {"--op", "--why"}) {
        const Finished finished = tool.run({option, "fixture.ad"});
        INFO(option);
        CHECK(finished.code == 1);
        CHECK(finished.out.empty());
        CHECK(finished.err == "plugin-ls: no plugin declares the op 'fixture.ad'; did you mean 'fixture.add'?\n");
    }
}

TEST_CASE("a standard op that nobody brings is no misspelling of one that somebody does") {
    const PluginLs tool({fixture("good")}); // it provides fixture.add
    for (const char *question : {"--op", "--why"}) {
        const Finished finished = tool.run({question, "add"});
        CHECK(finished.code == 1);
        CHECK(finished.err == "plugin-ls: 'add' is a standard op that no loaded plugin implements\n");
    }
}

TEST_CASE("a decision that leaves nobody is shown, and exits with 1") {
    PluginLs tool({fixture("good")});
    tool.with("PLUGIN_DENY_VENDORS", "acme");
    const Finished finished = tool.run({"--why", "fixture.add"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "nothing would serve it"));
    CHECK(contains(finished.out, "denied by PLUGIN_DENY_VENDORS"));
}

TEST_CASE("why refuses dtypes and devices that make no sense") {
    const PluginLs tool({fixture("good")});
    const Finished dtype = tool.run({"--why", "fixture.add", "--dtype", "f31"});
    CHECK(dtype.code == 2);
    CHECK(contains(dtype.err, "plugin-ls: "));
    CHECK(contains(dtype.err, "f31"));
    const Finished tuple = tool.run({"--why", "fixture.add", "--dtype", "f32,f32"});
    CHECK(tuple.code == 2);
    CHECK(contains(tuple.err, "f32,f32"));
    const Finished device = tool.run({"--why", "fixture.add", "--device", "abacus:x"});
    CHECK(device.code == 2);
    CHECK(contains(device.err, "abacus"));
    CHECK(tool.run({"--why", "fixture.add", "--device", "abacus"}).code == 1); // well-formed, but not there
}

TEST_CASE("a rejected plugin is listed with its code and reason, and the rest works") {
    const PluginLs tool({fixture("good"), fixture("other_abi")});
    const Finished all = tool.run({});
    CHECK(all.code == 1); // it was requested
    CHECK(contains(all.out, "rejected"));
    CHECK(contains(all.out, "vendor.acme"));
    const Finished rejected = tool.run({"--rejected"});
    CHECK(rejected.code == 1);
    CHECK(contains(rejected.out, fixture("other_abi")));
    CHECK(contains(rejected.out, "OPDOCK-E012: "));
    CHECK(contains(rejected.out, "ABI 2.0"));
    CHECK_FALSE(contains(rejected.out, fixture("good")));
}

TEST_CASE("nothing rejected is said in words") {
    CHECK(PluginLs({fixture("good")}).run({"--rejected"}).out == "no plugin was rejected or skipped\n");
}

TEST_CASE("a module named on the command line that is not taken makes the exit code 1") {
    const Finished finished = PluginLs({fixture("good")}).run({"--modules", fixture("other_abi")});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "OPDOCK-E012"));
}

TEST_CASE("whatever is asked, a module that was asked for and not taken makes the exit code 1") {
    PluginLs tool({fixture("good")});
    const auto broken = tool.home().write("broken/plugin.json", R"({"library": 3})");
    const auto leads_nowhere = tool.home().write("nowhere/plugin.json", R"({"library": "libabsent.so"})");
    std::filesystem::create_directory(tool.home().path() / "empty");
    const std::vector<std::pair<std::string, std::string>> modules = {
        {fixture("other_abi"), "OPDOCK-E012"},
        {fixture("same_id"), "OPDOCK-E015"},
        {broken.string(), "expected the path of a file for 'library'"},
        {(tool.home().path() / "broken").string(), "expected the path of a file for 'library'"},
        {leads_nowhere.string(), "libabsent.so"},
        {(tool.home().path() / "empty").string(), "the directory holds no plugin"},
    };
    const std::vector<std::vector<std::string>> questions = {{},
                                                             {"-v"},
                                                             {"--json"},
                                                             {"--op", "fixture.add"},
                                                             {"--why", "fixture.add"},
                                                             {"--paths"},
                                                             {"--policy"},
                                                             {"--json", "--paths"},
                                                             {"--exists", "vendor.acme"},
                                                             {"--bug-report"},
                                                             {"--rejected"}};
    for (const auto &[module, reason] : modules) {
        for (const auto &question : questions) {
            std::vector<std::string> arguments = {"--modules", fixture("good"), "--modules", module};
            arguments.insert(arguments.end(), question.begin(), question.end());
            const Finished finished = tool.run(arguments);
            const std::string tried = module + " " + (question.empty() ? "" : question[0]);
            CAPTURE(tried);
            CHECK(finished.code == 1);
            // A plugin whose id is already taken is nobody's mistake, and causes no warning.
            if (module != fixture("same_id")) {
                CHECK(contains(finished.out + finished.err, reason));
            }
        }
        CHECK(contains(tool.run({"--rejected", "--modules", fixture("good"), "--modules", module}).out, reason));
    }
    // Plugins requested through the environment count as requested by name.
    tool.with("PLUGIN_MODULES", fixture("good") + "," + broken.string());
    CHECK(tool.run({"--op", "fixture.add"}).code == 1);
}

TEST_CASE("a plugin merely found, and a manifest that says too much, leave the exit code alone") {
    PluginLs tool({});
    tool.with("PLUGIN_MODULES_ONLY", "0");
    std::filesystem::create_directories(tool.home().path() / "opdock/plugins");
    std::filesystem::copy(fixture("other_abi"), tool.home().path() / "opdock/plugins");
    const auto talkative =
        tool.home().write("talkative/plugin.json", R"({"library": ")" + fixture("good") + R"(", "colour": "red"})");
    const Finished finished = tool.run({"--modules", talkative.string()});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "OPDOCK-E012"));
    CHECK(contains(finished.out, "'colour'"));
}

TEST_CASE("what the screen shows is not logged as well") {
    PluginLs tool({fixture("good"), fixture("other_abi")});
    const auto broken = tool.home().write("plugin.json", R"({"library": 3})");
    for (const char *question : {"--rejected", "--bug-report"}) {
        const Finished finished = tool.run({question, "--modules", broken.string()});
        CHECK(contains(finished.out, "OPDOCK-E012"));
        CHECK(contains(finished.out, "for 'library'"));
        CHECK(finished.err.empty());
    }
    CHECK(tool.run({}).err.empty());
    // Other warnings are logged, and all of them if the answer is about something else or the log was requested.
    CHECK(contains(tool.run({"--paths"}).err, "OPDOCK-E012"));
    CHECK(contains(tool.run({"-v"}).err, "OPDOCK-E012"));
    CHECK(contains(tool.with("PLUGIN_LOG_LEVEL", "WARNING").run({}).err, "OPDOCK-E012"));
    PluginLs misspelt({fixture("good"), fixture("other_abi")});
    const Finished warned = misspelt.with("PLUGIN_PREFRE", "vendor").run({});
    CHECK(contains(warned.err, "PLUGIN_PREFRE"));
    CHECK_FALSE(contains(warned.err, "OPDOCK-E012"));
    // If there is no answer, its warnings are printed all the same.
    const Finished strict = misspelt.with("PLUGIN_STRICT", "1").run({});
    CHECK(contains(strict.err, "PLUGIN_PREFRE"));
}

TEST_CASE(
    "what is wrong with a plugin that is used stands on the screen, and in the log of answers that do not show it") {
    const PluginLs tool({fixture("changes_everything")});
    const Finished screen = tool.run({});
    CHECK(screen.code == 0);
    CHECK(contains(screen.out, "warning: 'libchanges_everything.so' changes "));
    CHECK_FALSE(contains(screen.err, "changes "));
    CHECK(contains(tool.run({"--rejected"}).err, "changes "));
    CHECK(contains(tool.run({"--paths"}).err, "changes "));
}

TEST_CASE("check tells that a file was changed since a host scanned it") {
    const PluginLs tool({});
    const std::string file = (tool.home().path() / "libacme.so").string();
    std::filesystem::copy_file(fixture("good"), file);
    CHECK(tool.run({"--modules", file}).code == 0);
    CHECK_FALSE(contains(tool.run({"--check", file}).out, "was changed"));
    std::filesystem::copy_file(fixture("second_vendor"), file + ".new");
    std::filesystem::rename(file + ".new", file);
    const Finished changed = tool.run({"--check", file});
    CHECK(changed.code == 0);
    CHECK(contains(changed.out, "'libacme.so' was changed since a host scanned it."));
}

TEST_CASE("a module of the command line that is not there is an error") {
    const Finished finished = PluginLs({fixture("good")}).run({"--modules", "/nonexistent/libacme.so"});
    CHECK(finished.code == 1);
    CHECK(finished.out.empty());
    CHECK(finished.err == "plugin-ls: --modules /nonexistent/libacme.so: there is no such file or directory; correct "
                          "the path, or build what it names\n");
}

TEST_CASE("a module of the command line that cannot be looked at is told in words, with a code") {
    const PluginLs tool({});
    const std::string loop = (tool.home().path() / "loop.so").string();
    std::filesystem::create_symlink("loop.so", loop);
    for (const Finished &finished : {tool.run({"--modules", loop}),
                                     PluginRun({}).run({"gelu", "--modules", loop, "--in", "input=random:f32[4]"})}) {
        CHECK(finished.code == 1);
        CHECK(contains(finished.err, "--modules " + loop + ": OPDOCK-E002: it cannot be accessed: Too many levels"));
        CHECK_FALSE(contains(finished.err, "filesystem error"));
    }
}

TEST_CASE("a link that leads nowhere and a manifest without its library have a code") {
    PluginLs tool({});
    std::filesystem::create_directory(tool.home().path() / "folder");
    std::filesystem::create_symlink("/nonexistent/libacme.so", tool.home().path() / "folder/libacme.so");
    const auto manifest = tool.home().write("manifest/plugin.json", R"({"library": "libabsent.so"})");
    const Finished finished =
        tool.with("PLUGIN_MODULES", (tool.home().path() / "folder").string() + ":" + manifest.string())
            .run({"--rejected"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "folder/libacme.so': No such file or directory (OPDOCK-E001)"));
    CHECK(contains(finished.out, "manifest/libabsent.so': No such file or directory (OPDOCK-E001)"));
}

TEST_CASE("a message of several lines has the beginning of the log on each") {
    PluginLs tool({fixture("other_abi")});
    const Finished finished = tool.run({"--paths"});
    CHECK(contains(finished.err, "OPDOCK-E012"));
    std::istringstream lines(finished.err);
    for (std::string line; std::getline(lines, line);) {
        CHECK(line.starts_with("[opdock] ["));
    }
}

TEST_CASE("a text that is named as a module is no plugin, and nobody asks for its signature") {
    PluginLs tool({});
    const auto text = tool.home().write("notes.so", "this is no library");
    const Finished finished = tool.with("PLUGIN_TRUST", "warn").run({"--modules", text.string(), "--rejected"});
    CHECK(contains(finished.out + finished.err, "OPDOCK-E005"));
    CHECK_FALSE(contains(finished.out + finished.err, "not signed"));
}

TEST_CASE("check applies the settings that hosts have, and exits with 1 for what they do not take") {
    PluginLs tool({});
    const std::string file = (tool.home().path() / "plugins/libacme.so").string();
    std::filesystem::create_directory(tool.home().path() / "plugins");
    std::filesystem::copy_file(fixture("aborts_in_entry"), file);
    CHECK(tool.run({"--check", file}).code == 0);
    PluginLs requiring({});
    const Finished unsigned_ = requiring.with("PLUGIN_TRUST", "require").run({"--check", file});
    CHECK(unsigned_.code == 1);
    CHECK(contains(unsigned_.out, "OPDOCK-E061"));
    CHECK(tool.run({"--modules", file}).code == 1);
    const Finished known = tool.run({"--check", file});
    CHECK(known.code == 1);
    CHECK(contains(known.out, " quarantined\n"));
    CHECK(contains(known.out, "OPDOCK-E050"));
    const Finished again = tool.run({"--modules", file, "--rescan"});
    CHECK_FALSE(contains(again.out + again.err, "not tried again"));
    std::filesystem::permissions(tool.home().path() / "plugins", std::filesystem::perms::all);
    const Finished strict = tool.with("PLUGIN_STRICT", "1").run({"--check", file});
    CHECK(strict.code == 1);
    CHECK(contains(strict.out, "OPDOCK-E060"));
}

TEST_CASE("the policy lists every variable with its value and where it came from") {
    PluginLs tool({fixture("good")});
    const Finished finished = tool.with("PLUGIN_TUNE", "off").run({"--policy"});
    CHECK(contains(finished.out, "\nVARIABLES\n"));
    CHECK(contains(finished.out, "  PLUGIN_TUNE             environment  off\n"));
    CHECK(contains(finished.out, "  PLUGIN_SCAN_CACHE       built-in     on\n"));
    CHECK(contains(finished.out, "  PLUGIN_ALLOW_VENDORS    not set\n"));
}

TEST_CASE("in strict mode a module that was asked for and does not load is an error") {
    PluginLs tool({fixture("good"), fixture("other_abi")});
    tool.with("PLUGIN_STRICT", "1");
    const Finished finished = tool.run({});
    CHECK(finished.code == 1);
    CHECK(finished.out.empty());
    CHECK(contains(finished.err, "plugin-ls: "));
    CHECK(contains(finished.err, "libother_abi.so"));
}

TEST_CASE("a wrong setting is an error that names its variable") {
    PluginLs tool({fixture("good")});
    tool.with("PLUGIN_PREFER", "fastest");
    const Finished finished = tool.run({"--policy"});
    CHECK(finished.code == 1);
    CHECK(finished.out.empty());
    CHECK(contains(finished.err, "plugin-ls: "));
    CHECK(contains(finished.err, "PLUGIN_PREFER"));
    CHECK(contains(finished.err, "fastest"));
}

TEST_CASE("a bug report is written even when the host does not open") {
    PluginLs tool({fixture("good")});
    tool.with("PLUGIN_STRICT", "perhaps");
    const Finished finished = tool.run({"--bug-report"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "THE HOST DID NOT OPEN"));
    CHECK(contains(finished.out, "PLUGIN_STRICT"));
}

TEST_CASE("check judges one file without registering it") {
    const PluginLs tool({});
    const Finished good = tool.run({"--check", fixture("good")});
    CHECK(good.code == 0);
    CHECK(contains(good.out, "status             ok\n"));
    CHECK(contains(good.out, "note.id            acme\n"));
    CHECK(contains(good.out, "registration       not checked: that would run the plugin's code\n"));

    const Finished other = tool.run({"--check", fixture("other_abi")});
    CHECK(other.code == 1);
    CHECK(contains(other.out, "OPDOCK-E012"));
    CHECK(contains(other.out, "built for ABI 2.0"));

    const Finished no_entry = tool.run({"--check", fixture("no_entry")});
    CHECK(no_entry.code == 1);
    CHECK(contains(no_entry.out, "OPDOCK-E025"));

    const auto text = tool.home().write("notes.so", "this is no library");
    const Finished no_library = tool.run({"--check", text.string()});
    CHECK(no_library.code == 1);
    CHECK(contains(no_library.out, "note      none that this host can read\n"));

    const Finished absent = tool.run({"--check", "/nonexistent/libacme.so"});
    CHECK(absent.code == 1);
    CHECK(contains(absent.out, "OPDOCK-E001"));
}

TEST_CASE("check takes a registration that fails, since it runs none") {
    CHECK(PluginLs({}).run({"--check", fixture("returns_error")}).code == 0);
    CHECK(PluginLs({}).run({"--modules", fixture("returns_error")}).code == 1);
}
