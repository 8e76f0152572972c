#include "inspect/search.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::TemporaryDirectory;
using opdock::test::thrown_by;

namespace {

using Names = std::vector<std::string>;

// Directories where plugins can be, all below one root.
class Tree {
  public:
    std::string path(const std::string &name = {}) const { return (root_.path() / name).string(); }
    std::string file(const std::string &name, std::string_view text = "ELF") const {
        return root_.write(name, text).string();
    }
    std::string directory(const std::string &name) const {
        std::filesystem::create_directories(root_.path() / name);
        return path(name);
    }

    SearchResult search(const std::vector<std::string> &modules, RawEnvironment raw = {}, bool secure = false) const {
        raw.emplace("XDG_DATA_HOME", path("user"));
        SearchInput input{modules, {{path("install"), "install"}, {path("local"), "system"}, {path("usr"), "system"}}};
        return search_plugins(input, make_environment("PLUGIN_", raw, secure));
    }

    // Paths of the candidates, relative to the root.
    Names found(const SearchResult &result) const {
        Names names;
        for (const PluginCandidate &candidate : result.candidates) {
            names.push_back(std::filesystem::path(candidate.path).lexically_relative(root_.path()).string());
        }
        return names;
    }

  private:
    TemporaryDirectory root_;
};

Names messages(const SearchResult &result) {
    Names names;
    for (const SearchProblem &problem : result.problems) {
        names.push_back(problem.message);
    }
    return names;
}

} // namespace

TEST_CASE("plugins are found in the order of their places, and inside a place by name") {
    const Tree tree;
    tree.file("usr/liba.so");
    tree.file("local/liba.so");
    tree.file("install/libz.so");
    tree.file("install/liba.so");
    tree.file("install/libM.so");
    tree.file("user/opdock/plugins/libu.so");
    tree.file("env/libe.so");
    tree.file("given/libg.so");
    const SearchResult result = tree.search({tree.path("given")}, {{"PLUGIN_MODULES", tree.path("env")}});
    CHECK(tree.found(result) == Names{"given/libg.so", "env/libe.so", "user/opdock/plugins/libu.so", "install/libM.so",
                                      "install/liba.so", "install/libz.so", "local/liba.so", "usr/liba.so"});
    Names origins;
    for (const PluginCandidate &candidate : result.candidates) {
        origins.push_back(candidate.origin);
    }
    CHECK(origins == Names{"program", "PLUGIN_MODULES", "user", "install", "install", "install", "system", "system"});
    CHECK(result.problems.empty());
}

TEST_CASE("what was asked for by name is marked, what was merely found is not") {
    const Tree tree;
    tree.file("install/liba.so");
    const std::string given = tree.file("given/libg.so");
    const std::string named = tree.file("env/libe.so");
    const SearchResult result = tree.search({given}, {{"PLUGIN_MODULES", named}});
    REQUIRE(result.candidates.size() == 3);
    CHECK(result.candidates[0].requested);
    CHECK(result.candidates[1].requested);
    CHECK_FALSE(result.candidates[2].requested);
}

TEST_CASE("folders behind links are looked into as others are") {
    const Tree tree;
    tree.file("elsewhere/alone/plugin.json", R"({"library": "liba.so"})");
    tree.file("elsewhere/alone/liba.so");
    tree.file("elsewhere/package/inner/plugin.json", R"({"library": "libb.so"})");
    tree.file("elsewhere/package/inner/libb.so");
    tree.directory("install");
    std::filesystem::create_directory_symlink(tree.path("elsewhere/alone"), tree.path("install/alone"));
    std::filesystem::create_directory_symlink(tree.path("elsewhere/package"), tree.path("install/package"));
    CHECK(tree.found(tree.search({})) == Names{"install/alone/liba.so", "install/package/inner/libb.so"});
}

TEST_CASE("every place that was searched is listed, there or not") {
    const Tree tree;
    tree.directory("install");
    const std::string given = tree.file("given/libg.so");
    const SearchResult result = tree.search({given});
    REQUIRE(result.paths.size() == 5);
    CHECK(result.paths[0].path == given);
    CHECK(result.paths[0].origin == "program");
    CHECK(result.paths[0].requested);
    CHECK(result.paths[1].path == tree.path("user/opdock/plugins"));
    CHECK_FALSE(result.paths[1].exists);
    CHECK(result.paths[2].origin == "install");
    CHECK(result.paths[2].exists);
    CHECK(result.paths[4].path == tree.path("usr"));
}

TEST_CASE("modules are separated by commas or colons") {
    const Tree tree;
    const std::string a = tree.file("a.so"), b = tree.file("b.so"), c = tree.file("c.so");
    CHECK(tree.found(tree.search({}, {{"PLUGIN_MODULES", c + ":" + a + ", " + b}})) == Names{"c.so", "a.so", "b.so"});
}

TEST_CASE("PLUGIN_MODULES_ONLY keeps to what was asked for") {
    const Tree tree;
    tree.file("install/liba.so");
    tree.file("user/opdock/plugins/libu.so");
    const std::string given = tree.file("given/libg.so");
    const std::string named = tree.file("env/libe.so");
    const SearchResult result = tree.search({given}, {{"PLUGIN_MODULES", named}, {"PLUGIN_MODULES_ONLY", "yes"}});
    CHECK(tree.found(result) == Names{"given/libg.so", "env/libe.so"});
    CHECK(result.paths.size() == 2);
    CHECK(tree.search({}, {{"PLUGIN_MODULES", ""}, {"PLUGIN_MODULES_ONLY", "1"}}).candidates.empty());
    CHECK(tree.search({}, {{"PLUGIN_MODULES_ONLY", "off"}}).candidates.size() == 2);
    CHECK_THROWS_AS(tree.search({}, {{"PLUGIN_MODULES_ONLY", "2"}}), Error);
}

TEST_CASE("relative and empty modules are errors, and the working directory is never searched") {
    const Tree tree;
    const std::string a = tree.file("a.so");
    const struct {
        std::string value;
        std::size_t column;
    } cases[] = {
        {"libacme.so", 1},
        {"./libacme.so", 1},
        {"../x", 1},
        {".", 1},
        {"~/plugins", 1},
        {",", 1},
        {a + ":", a.size() + 2},
        {a + ",,", a.size() + 2},
        {a + "::" + a, a.size() + 2},
        {":" + a, 1},
        {a + ":lib.so", a.size() + 2},
        {a + ", ," + a, a.size() + 2},
        {a + ":/b\n.so", a.size() + 2},
    };
    for (const auto &[value, column] : cases) {
        const auto &tried = value;
        CAPTURE(tried);
        const Error error = thrown_by([&, text = value] { tree.search({}, {{"PLUGIN_MODULES", text}}); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(std::string(error.what())
                  .starts_with("PLUGIN_MODULES, column " + std::to_string(column) +
                               ": expected absolute paths separated by commas or colons, found '"));
    }
    for (const char *path : {"", "libacme.so", "./libacme.so"}) {
        CAPTURE(path);
        const Error error = thrown_by([&] { tree.search({path}); });
        CHECK(error.status() == OPDOCK_INVALID_ARGUMENT);
        CHECK(std::string(error.what()) ==
              "expected the absolute path of a plugin or directory, found '" + std::string(path) +
                  "'; plugins are never searched for in the working directory, write the absolute path");
    }
}

TEST_CASE("a separator too many is told as such") {
    const Tree tree;
    const std::string plugin = tree.file("liba.so");
    CHECK_THROWS_WITH_AS(tree.search({}, {{"PLUGIN_MODULES", plugin + ":"}}),
                         doctest::Contains("found ''; remove the extra separator"), Error);
}

TEST_CASE("a module that is not there is a problem of what was asked for") {
    const Tree tree;
    const SearchResult result = tree.search({tree.path("none.so")}, {{"PLUGIN_MODULES", tree.path("nowhere")}});
    CHECK(result.candidates.empty());
    REQUIRE(result.problems.size() == 2);
    CHECK(result.problems[0].message ==
          "program: '" + tree.path("none.so") +
              "': No such file or directory (OPDOCK-E001); correct the path, or build what it names");
    CHECK(result.problems[0].requested);
    CHECK(result.problems[1].message ==
          "PLUGIN_MODULES: '" + tree.path("nowhere") +
              "': No such file or directory (OPDOCK-E001); correct the path, or build what it names");
    CHECK(result.problems[1].requested);
    CHECK_FALSE(result.paths[0].exists);
}

TEST_CASE("a directory that was asked for and holds no plugin is a problem, an empty install directory is none") {
    const Tree tree;
    tree.directory("install");
    tree.file("given/readme.txt");
    const SearchResult result = tree.search({tree.path("given")});
    REQUIRE(result.problems.size() == 1);
    CHECK(result.problems[0].requested);
    CHECK(result.problems[0].message ==
          "program: '" + tree.path("given") +
              "': the directory holds no plugin (*.so, plugin.json, */plugin.json or */*/plugin.json)");
}

TEST_CASE("in a directory, only *.so and manifests count, and hidden files do not") {
    const Tree tree;
    tree.file("install/libacme.so");
    tree.file("install/libacme.so.1");
    tree.file("install/libacme.a");
    tree.file("install/.libacme.so.swp.so");
    tree.file("install/policy.json", "{}");
    tree.file("install/sub/libdeep.so");
    CHECK(tree.found(tree.search({})) == Names{"install/libacme.so"});
}

TEST_CASE("a file that was asked for need not end in .so") {
    const Tree tree;
    CHECK(tree.found(tree.search({tree.file("libacme.so.1.2")})) == Names{"libacme.so.1.2"});
}

TEST_CASE("whatever is called *.so is left to the next stage to judge, and not opened") {
    const Tree tree;
    tree.directory("install/folder.so");
    REQUIRE(mkfifo(tree.path("install/pipe.so").c_str(), 0600) == 0);
    tree.file("install/unreadable.so");
    std::filesystem::permissions(tree.path("install/unreadable.so"), std::filesystem::perms::none);
    CHECK(tree.found(tree.search({})) == Names{"install/folder.so", "install/pipe.so", "install/unreadable.so"});
}

TEST_CASE("the same file found twice is a candidate once, at the first place") {
    const Tree tree;
    const std::string library = tree.file("install/libacme.so");
    tree.directory("usr");
    std::filesystem::create_symlink(library, tree.path("usr/libother.so"));
    std::filesystem::create_hard_link(library, tree.path("usr/libthird.so"));
    std::filesystem::create_directory_symlink(tree.path("install"), tree.path("local"));
    const SearchResult result = tree.search({tree.path("usr/libother.so")}, {{"PLUGIN_MODULES", library}});
    CHECK(tree.found(result) == Names{"usr/libother.so"});
    CHECK(result.candidates[0].requested);
    CHECK(result.problems.empty());
}

TEST_CASE("a file that another manifest names elsewhere is a candidate again, and marked") {
    const Tree tree;
    const std::string library = tree.file("install/libacme.so");
    const std::string text = R"({"library": ")" + library + R"("})";
    const std::string one = tree.file("one/plugin.json", text), two = tree.file("two/plugin.json", text);
    const SearchResult result = tree.search({one, one, two, library, library}, {});
    REQUIRE(result.candidates.size() >= 3);
    CHECK(result.candidates[0].manifest == one);
    CHECK_FALSE(result.candidates[0].again);
    CHECK(result.candidates[1].manifest == two);
    CHECK(result.candidates[1].again);
    CHECK(result.candidates[2].manifest.empty());
    CHECK(result.candidates[2].again);
    CHECK(result.candidates.size() == 3);
}

TEST_CASE("a candidate has what the search saw of its file, and nothing of a link that may lead elsewhere later") {
    const Tree tree;
    const std::string library = tree.file("install/libacme.so");
    std::filesystem::create_symlink(tree.file("elsewhere.so"), tree.path("install/libbeta.so"));
    const SearchResult result = tree.search({});
    REQUIRE(tree.found(result) == Names{"install/libacme.so", "install/libbeta.so"});
    struct stat status = {};
    REQUIRE(stat(library.c_str(), &status) == 0);
    REQUIRE(result.candidates[0].status.has_value());
    CHECK(result.candidates[0].status->st_ino == status.st_ino);
    CHECK_FALSE(result.candidates[1].status.has_value());
}

TEST_CASE("a dangling link is a problem, of what was asked for only where it was") {
    const Tree tree;
    tree.directory("install");
    std::filesystem::create_symlink("/none", tree.path("install/libgone.so"));
    const SearchResult found = tree.search({});
    CHECK(messages(found) ==
          Names{"install: '" + tree.path("install/libgone.so") +
                "': No such file or directory (OPDOCK-E001); correct the path, or build what it names"});
    CHECK(found.problems[0].code == "OPDOCK-E001");
    CHECK_FALSE(found.problems[0].requested);
    CHECK(tree.search({tree.path("install")}).problems[0].requested);
}

TEST_CASE("a manifest points to library, tune file and signature") {
    const Tree tree;
    tree.file("acme/lib/libacme.so");
    const std::string manifest = tree.file("acme/plugin.json", R"({"library": "lib/libacme.so", "tune": "t.yaml",
                                                                   "signature": "lib/libacme.so.sig"})");
    for (const std::string &module : {manifest, tree.path("acme")}) {
        CAPTURE(module);
        const SearchResult result = tree.search({module});
        REQUIRE(result.candidates.size() == 1);
        CHECK(result.candidates[0].path == tree.path("acme/lib/libacme.so"));
        CHECK(result.candidates[0].manifest == manifest);
        CHECK(result.candidates[0].tune == tree.path("acme/t.yaml"));
        CHECK(result.candidates[0].signature == tree.path("acme/lib/libacme.so.sig"));
        CHECK(result.candidates[0].requested);
    }
}

TEST_CASE("a library beside its manifest is taken once, with what the manifest says") {
    const Tree tree;
    tree.file("install/libacme.so");
    tree.file("install/libzeta.so");
    tree.file("install/plugin.json", R"({"library": "libzeta.so", "tune": "zeta.tune.yaml"})");
    const SearchResult result = tree.search({});
    CHECK(tree.found(result) == Names{"install/libacme.so", "install/libzeta.so"});
    CHECK(result.candidates[1].tune == tree.path("install/zeta.tune.yaml"));
    CHECK(result.candidates[0].tune.empty());
}

TEST_CASE("several manifests live side by side in folders of their own") {
    const Tree tree;
    for (const char *name : {"zeta", "acme"}) {
        tree.file(std::string("install/") + name + "/lib" + name + ".so");
        tree.file(std::string("install/") + name + "/plugin.json",
                  R"({"library": "lib)" + std::string(name) + R"(.so"})");
    }
    tree.file("install/libm.so");
    CHECK(tree.found(tree.search({})) ==
          Names{"install/acme/libacme.so", "install/libm.so", "install/zeta/libzeta.so"});
}

TEST_CASE("a folder without a manifest may hold several folders of plugins, and no more levels") {
    const Tree tree;
    for (const char *folder : {"install/pack/a", "install/pack/b", "install/pack/.c", "install/deep/er/d"}) {
        tree.file(std::string(folder) + "/plugin.json", R"({"library": "lib.so"})");
        tree.file(std::string(folder) + "/lib.so");
    }
    tree.file("install/own/plugin.json", R"({"library": "lib.so"})");
    tree.file("install/own/lib.so");
    tree.file("install/own/inner/plugin.json", R"({"library": "../lib2.so"})");
    tree.file("install/own/lib2.so");
    tree.file("install/pack/loose.so");
    const SearchResult result = tree.search({});
    CHECK(tree.found(result) == Names{"install/own/lib.so", "install/pack/a/lib.so", "install/pack/b/lib.so"});
    CHECK(messages(result).empty());
}

TEST_CASE("a wrong manifest is a problem and hides no other plugin") {
    const Tree tree;
    tree.file("install/libgood.so");
    tree.file("install/bad/plugin.json", "{\"library\": 3}");
    tree.file("install/gone/plugin.json", "{\"library\": \"libgone.so\"}");
    const SearchResult result = tree.search({});
    CHECK(tree.found(result) == Names{"install/libgood.so"});
    Names problems = messages(result);
    std::sort(problems.begin(), problems.end());
    REQUIRE(problems.size() == 2);
    CHECK(problems[0] == tree.path("install/bad/plugin.json") +
                             ":1:14: expected the path of a file for 'library', found a number (install)");
    CHECK(problems[1] == tree.path("install/gone/plugin.json") + ": '" + tree.path("install/gone/libgone.so") +
                             "': No such file or directory (OPDOCK-E001); correct the path, or build what it names");
    CHECK_FALSE(result.problems[0].requested);
    CHECK(tree.search({tree.path("install/bad/plugin.json")}).problems[0].requested);
}

TEST_CASE("an unknown field of a manifest is a problem, and the plugin is still found") {
    const Tree tree;
    tree.file("install/libacme.so");
    tree.file("install/plugin.json", R"({"library": "libacme.so", "tunes": "x"})");
    const SearchResult result = tree.search({});
    CHECK(tree.found(result) == Names{"install/libacme.so"});
    CHECK(messages(result) ==
          Names{tree.path("install/plugin.json") + ":1:33: unknown field 'tunes'; did you mean 'tune'?"});
}

TEST_CASE("problems come in the same order whatever the file system does") {
    const Tree tree;
    for (const char *name : {"c", "a", "d", "b"}) {
        tree.file(std::string("install/") + name + "/plugin.json", "{}");
    }
    const Names problems = messages(tree.search({}));
    REQUIRE(problems.size() == 4);
    CHECK(std::is_sorted(problems.begin(), problems.end()));
}

TEST_CASE("with raised privileges neither PLUGIN_MODULES nor the user's directory is searched") {
    const Tree tree;
    tree.file("user/opdock/plugins/libu.so");
    tree.file("install/liba.so");
    const std::string evil = tree.file("evil/libe.so");
    const SearchResult result = tree.search({}, {{"PLUGIN_MODULES", evil}, {"PLUGIN_MODULES_ONLY", "1"}}, true);
    CHECK(tree.found(result) == Names{"install/liba.so"});
    CHECK(result.paths.size() == 3);
}

TEST_CASE("a standard directory that cannot be looked at is a problem, one that is not there is none") {
    const Tree tree;
    const std::string file = tree.file("install");
    const std::string long_name = tree.path(std::string(300, 'x'));
    const SearchInput input{{}, {{file, "install"}, {long_name, "system"}, {file + "/below", "system"}}};
    const SearchResult result = search_plugins(input, make_environment("PLUGIN_", {}, false));
    REQUIRE(messages(result).size() == 2);
    CHECK(messages(result)[0] == "install: '" + file + "': Not a directory");
    CHECK(messages(result)[1].starts_with("system: '" + tree.path("xxx")));
    CHECK(messages(result)[1].ends_with("': File name too long"));
}

TEST_CASE("a directory may be asked for with a slash at its end") {
    const Tree tree;
    tree.file("acme/liba.so");
    CHECK(tree.found(tree.search({tree.path("acme") + "/"})) == Names{"acme/liba.so"});
}

TEST_CASE("the standard directories are the one beside the library, then the system's, each once") {
    const auto paths = [](const std::string &install_dir) {
        Names names;
        for (const SearchDirectory &directory : standard_directories(install_dir)) {
            names.push_back(directory.origin + " " + directory.path);
        }
        return names;
    };
    CHECK(paths("/opt/lib/opdock/plugins") == Names{"install /opt/lib/opdock/plugins",
                                                    "system /usr/local/lib/opdock/plugins",
                                                    "system /usr/lib/opdock/plugins"});
    CHECK(paths("/usr/lib/opdock/plugins") ==
          Names{"install /usr/lib/opdock/plugins", "system /usr/local/lib/opdock/plugins"});
    CHECK(paths("").size() == 2);
}

TEST_CASE("a file whose name ends a line is passed over, so that nobody writes lines of the log") {
    const Tree tree;
    tree.file("install/a.so");
    tree.file("install/b\n[opdock] [info] all is well.so");
    tree.file("install/c\n/plugin.json", R"({"library": "d.so"})");
    const SearchResult result = tree.search({});
    CHECK(tree.found(result) == Names{"install/a.so"});
    REQUIRE(result.problems.size() == 2);
    for (const SearchProblem &problem : result.problems) {
        CHECK(problem.code == "OPDOCK-E035");
        CHECK(problem.message.find('\n') == std::string::npos);
        CHECK(problem.message.find("its name contains a line break") != std::string::npos);
    }
}

TEST_CASE("a search leaves no descriptor open") {
    const Tree tree;
    tree.file("install/liba.so");
    tree.file("install/acme/plugin.json", R"({"library": "libb.so"})");
    tree.file("install/acme/libb.so");
    tree.directory("install/empty");
    const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    CHECK(tree.search({}).candidates.size() == 2);
    const auto before = open_files();
    CHECK(tree.search({tree.path("install")}).candidates.size() == 2);
    CHECK(open_files() == before);
}
