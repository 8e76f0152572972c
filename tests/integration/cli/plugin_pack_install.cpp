// plugin-pack: packages are installed, looked up, and applied in place.
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "access_list.hpp"
#include "pack_workplace.hpp"

using namespace opdock::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char *name = "Acme_A1-train-fw";

// A user with a folder for plugins.
class User : public Workplace {
  public:
    User() { fs::copy_file(fixture("good"), path_of("libacme.so")); }

    std::vector<std::string> with_folder(std::vector<std::string> arguments) const {
        for (const std::string &one : {std::string("--folder"), path_of("plugins")}) {
            arguments.push_back(one);
        }
        return arguments;
    }
    std::vector<std::string> with_trust(std::vector<std::string> arguments) const {
        for (const std::string &one : {std::string("--pub"), path_of("acme.pub")}) {
            arguments.push_back(one);
        }
        return with_folder(arguments);
    }
    std::vector<std::string> installing(const std::string &package, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"install", path_of(package)});
        return with_trust(more);
    }
    Finished install(const std::string &package, const std::vector<std::string> &more = {}) const {
        return run(installing(package, more));
    }
    Finished patch_with_plugin(const std::string &out, const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"--plugin", path_of("libacme.so")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return patch(out, arguments);
    }
    uint64_t installed_serial() const {
        const json document = json::parse(run(with_trust({"list", "--json"})).out);
        REQUIRE(document.at("packages").size() == 1);
        CHECK(document.at("packages").at(0).at("fault").is_null());
        return document.at("packages").at(0).at("serial").get<uint64_t>();
    }
};

} // namespace

TEST_CASE("an installed plugin is one that hosts find, and trust by the vendor's key alone") {
    const User user;
    user.write("acme.tune.yaml", "schema: opdock.tune/1\nops: {}\n");
    user.write("policy.yaml", "prefer: vendor\n");
    CHECK(user.patch_with_plugin("a.opdock", {"--tune", user.path_of("acme.tune.yaml"), "--policy",
                                              user.path_of("policy.yaml"), "--serial", "7"})
              .code == 0);
    const Finished installed = user.install("a.opdock");
    INFO(installed.err);
    CHECK(installed.code == 0);
    CHECK(contains(installed.out, "plugin libacme/libacme.so"));
    CHECK(contains(installed.out, "PLUGIN_CONFIG=" + user.path_of("plugins") + "/" + name + "/policy.yaml"));
    CHECK(user.installed_serial() == 7);
    const fs::path folder = fs::path(user.path_of("plugins")) / name;
    CHECK(Workplace::read(folder / "7.opdock") == Workplace::read(user.path_of("a.opdock")));
    CHECK(Workplace::read(folder / "libacme/libacme.so") == Workplace::read(user.path_of("libacme.so")));

    Tool ls(PLUGIN_LS, {user.path_of("plugins")});
    ls.home().write("opdock/trust.d/acme.pub", Workplace::read(user.path_of("acme.pub")));
    ls.with("PLUGIN_TRUST", "require");
    const json seen = json::parse(ls.run({"--json"}).out);
    REQUIRE(seen.at("plugins").size() == 1);
    CHECK(seen.at("plugins").at(0).at("path") == (folder / "libacme/libacme.so").string());
    CHECK(seen.at("plugins").at(0).at("status") == "loaded");

    CHECK(user.run(user.with_folder({"uninstall", name})).code == 0);
    CHECK(!fs::exists(folder));
    check_error(user.run(user.with_folder({"uninstall", name})), 1, "no package '" + std::string(name));
    CHECK(contains(user.run(user.with_folder({"list"})).out, "no package is installed in "));
}

TEST_CASE("whoever may write in the user's name only may change what is installed") {
    const User user;
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    const mode_t before = umask(0);
    CHECK(user.install("a.opdock").code == 0);
    umask(before);
    for (const auto &entry : fs::recursive_directory_iterator(user.path_of("plugins"))) {
        CAPTURE(entry.path());
        CHECK((entry.status().permissions() & (fs::perms::group_write | fs::perms::others_write)) == fs::perms::none);
    }
}

TEST_CASE("install says when hosts would not trust the place") {
    const User user;
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    const std::string plugins = user.path_of("plugins"), folder = plugins + "/" + name;
    CHECK(user.install("a.opdock").err.empty());
    Tool ls(PLUGIN_LS, {plugins});
    ls.with("PLUGIN_STRICT", "1");
    const auto is_taken = [&] {
        const Finished listed = ls.run({"--json"}); // no output if strict mode does not open without a named plugin
        return listed.code == 0 && json::parse(listed.out).at("plugins").at(0).at("status") == "loaded";
    };
    CHECK(is_taken());
    REQUIRE(::chmod(plugins.c_str(), 0777) == 0);
    CHECK(!is_taken());
    for (const char *dry_run : {"", "--dry-run"}) {
        const Finished open =
            user.install("a.opdock", *dry_run == 0 ? std::vector<std::string>() : std::vector<std::string>{dry_run});
        INFO(open.err);
        CHECK(open.code == 0);
        CHECK(open.err == "plugin-pack: note: " + folder +
                              ": another user could put code into it: everybody may write to the folder '" + plugins +
                              "' (mode 0777); hosts warn about its plugins, and take none if strict is set or trust is "
                              "required. Run `chmod o-w '" +
                              plugins + "'`, or install the package elsewhere\n");
    }
    REQUIRE(::chmod(plugins.c_str(), 01777) == 0); // where other users cannot replace it
    CHECK(user.install("a.opdock").err.empty());
    CHECK(is_taken());
    if (::geteuid() == 0) {
        REQUIRE(::chmod(plugins.c_str(), 0755) == 0);
        REQUIRE(::chown(plugins.c_str(), 65534, 65534) == 0);
        CHECK(contains(user.install("a.opdock").err, "the folder '" + plugins + "' belongs to user 65534"));
        CHECK(!is_taken());
    }
}

TEST_CASE("what the folder for plugins passes on to others is not passed on to what is installed") {
    const User user;
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    fs::create_directory(user.path_of("plugins"));
    set_access_list(user.path_of("plugins"),
                    {{ACL_USER_OBJ, 7}, {ACL_USER, 7, 65534}, {ACL_GROUP_OBJ, 5}, {ACL_MASK, 7}, {ACL_OTHER, 5}},
                    "system.posix_acl_default");
    REQUIRE(::chmod(user.path_of("plugins").c_str(), 02755) == 0);
    CHECK(user.install("a.opdock").code == 0);
    for (const auto &entry : fs::recursive_directory_iterator(user.path_of("plugins"))) {
        const std::string path = entry.path().string();
        CAPTURE(path);
        CHECK((entry.status().permissions() & (fs::perms::group_write | fs::perms::others_write)) == fs::perms::none);
        if (path.ends_with(".lock")) {
            continue; // nothing of it is read
        }
        for (const char *list : {"system.posix_acl_access", "system.posix_acl_default"}) {
            CHECK(::getxattr(path.c_str(), list, nullptr, 0) < 0);
        }
    }
}

TEST_CASE("an older package, or another one of the same serial, does not come in by mistake") {
    const User user;
    CHECK(user.patch_with_plugin("one.opdock").code == 0);
    CHECK(user.patch_with_plugin("two.opdock", {"--serial", "2"}).code == 0);
    user.write("framework/a.py", "something else\n");
    CHECK(user.patch_with_plugin("other.opdock", {"--serial", "2"}).code == 0);
    CHECK(user.install("one.opdock").code == 0);
    CHECK(user.install("two.opdock").code == 0);
    CHECK(user.install("two.opdock").code == 0); // again
    check_error(user.install("one.opdock"), 5,
                "serial 2 is installed, but the package has the older serial 1; --allow-older");
    check_error(user.install("other.opdock"), 5, "another package of the same serial, 2, is installed");
    CHECK(user.installed_serial() == 2);
    CHECK(user.install("one.opdock", {"--allow-older", "--dry-run"}).code == 0);
    CHECK(user.installed_serial() == 2);
    CHECK(user.install("one.opdock", {"--allow-older"}).code == 0);
    CHECK(user.installed_serial() == 1);
    CHECK(user.files("plugins/" + std::string(name)).count("2.opdock") == 1);
    check_error(user.install("other.opdock"), 5, "another package of the same serial, 2, is installed");
}

TEST_CASE("plugins that go with an older package are named") {
    const User user;
    fs::copy_file(fixture("good"), user.path_of("libspare.so"));
    CHECK(user.patch_with_plugin("one.opdock", {"--plugin", user.path_of("libspare.so")}).code == 0);
    CHECK(user.patch_with_plugin("two.opdock", {"--serial", "2"}).code == 0);
    CHECK(!contains(user.install("one.opdock").out, "no longer"));
    const Finished dry = user.install("two.opdock", {"--dry-run", "--json"});
    CHECK(json::parse(dry.out).at("removed_plugins") == json{"libspare/libspare.so"});
    const Finished installed = user.install("two.opdock");
    CHECK(contains(installed.out, "plugin libacme/libacme.so\n  removed: plugin libspare/libspare.so\n"));
    CHECK(!contains(user.install("two.opdock").out, "no longer"));
}

TEST_CASE("a tune file that a package does not take along, or no longer has, is named") {
    const User user;
    const std::string tune = user.path_of("acme.tune.yaml");
    CHECK(user.patch_with_plugin("none.opdock").err.empty());
    user.write("acme.tune.yaml", "schema: opdock.tune/1\nops: {}\n");
    user.write("other.yaml", "schema: opdock.tune/1\nops: {}\n");
    CHECK(user.patch_with_plugin("one.opdock", {"--tune", tune}).err.empty());
    CHECK(user.patch_with_plugin("other.opdock", {"--tune", user.path_of("other.yaml")}).err.empty());
    const Finished patched = user.patch_with_plugin("two.opdock", {"--serial", "2"});
    CHECK(patched.code == 0);
    CHECK(patched.err ==
          "plugin-pack: note: acme.tune.yaml is beside libacme.so and is left out; --tune " + tune + " includes it\n");
    CHECK(!contains(user.install("one.opdock").out, "no longer"));
    CHECK(!contains(user.install("one.opdock").out, "no longer"));
    const Finished dry = user.install("two.opdock", {"--dry-run", "--json"});
    CHECK(json::parse(dry.out).at("removed_tune_files") == json{"libacme/acme.tune.yaml"});
    CHECK(json::parse(dry.out).at("removed_plugins") == json::array());
    CHECK(contains(user.install("two.opdock").out,
                   "plugin libacme/libacme.so\n  removed: tune file libacme/acme.tune.yaml\n"));
}

TEST_CASE("list shows the packages that are kept beside the one in force, and history names what it cannot show") {
    const User user;
    const auto make = [&](const std::string &serial) {
        CHECK(
            user.run({"patch", "--device-type", "Acme_A1", "--task", "train", "--plugin", user.path_of("libacme.so"),
                      "--key", user.path_of("acme.key"), "--serial", serial, "--out", user.path_of(serial + ".opdock")})
                .code == 0);
        CHECK(user.install(serial + ".opdock").code == 0);
    };
    for (const char *serial : {"2", "9", "10"}) {
        make(serial);
    }
    const std::string folder = user.path_of("plugins/Acme_A1-train");
    user.write("plugins/Acme_A1-train/007.opdock", "no serial");
    CHECK(user.run(user.with_trust({"list"})).out == "  package        serial  signed by\n"
                                                     "  Acme_A1-train  10      acme\n"
                                                     "      " +
                                                         folder + "\n      earlier: 9 (" + folder +
                                                         "/9.opdock)\n      earlier: 2 (" + folder + "/2.opdock)\n");
    CHECK(user.run(user.with_trust({"install", folder + "/9.opdock", "--allow-older"})).code == 0);
    CHECK(contains(user.run(user.with_trust({"list"})).out,
                   "      later: 10 (" + folder + "/10.opdock)\n      earlier: 2 (" + folder + "/2.opdock)\n"));
    const json document = json::parse(user.run(user.with_trust({"list", "--json"})).out);
    CHECK(document.at("packages").at(0).at("kept") ==
          json{{{"serial", 10}, {"path", folder + "/10.opdock"}}, {{"serial", 2}, {"path", folder + "/2.opdock"}}});
    fs::remove(folder + "/007.opdock");
    const Finished history = user.run(user.with_trust({"history"}));
    CHECK(history.code == 0);
    CHECK(history.out == "{}\n");
    CHECK(history.err == "plugin-pack: note: Acme_A1-train has no backends, and so no commits to list\n");

    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    CHECK(user.install("a.opdock").code == 0);
    const std::string both = user.run(user.with_trust({"list"})).out;
    CHECK(contains(both, "signed by  backends\n"));
    CHECK(contains(both, "  Acme_A1-train     9       acme       none\n"));
    std::istringstream untrusted(user.run(user.with_folder({"list", "--pub", user.path_of("other.pub")})).out);
    for (std::string line; std::getline(untrusted, line);) {
        CAPTURE(line);
        const bool is_kept = contains(line, "earlier: ") || contains(line, "later: ");
        const bool is_broken = line.size() <= 80 || line.find(' ', 6) == std::string::npos; // except for a long path
        CHECK((is_broken || is_kept));
    }
}

TEST_CASE("a folder for plugins that is not there is told, and made by install alone") {
    const User user;
    for (const char *command : {"list", "history"}) {
        check_error(user.run(user.with_folder({command})), 1, "plugins: there is no such folder");
    }
    check_error(user.run(user.with_folder({"unpatch", "--device-type", "Acme_A1", "--task", "train", "--backend",
                                           "fw=" + user.path_of("clone")})),
                1, "plugins: there is no such folder");
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    CHECK(user.install("a.opdock").code == 0);
    CHECK(user.run(user.with_trust({"list"})).code == 0);
}

TEST_CASE("nothing of a package that is not trusted, damaged or for somebody else is installed") {
    const User user;
    CHECK(user.run({"keygen", user.path_of("customer"), "--no-passphrase"}).code == 0);
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    CHECK(user.patch_with_plugin("secret.opdock", {"--recipient", user.path_of("customer.pub")}).code == 0);
    check_error(user.run(user.with_folder({"install", user.path_of("a.opdock"), "--pub", user.path_of("other.pub")})),
                3, "which is not a trusted key");
    std::string text = Workplace::read(user.path_of("a.opdock"));
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    user.write("damaged.opdock", text);
    check_error(user.install("damaged.opdock"), 3, "damaged");
    check_error(user.install("secret.opdock"), 1, "it is encrypted; --decrypt-key");
    CHECK(!fs::exists(user.path_of("plugins")));
    CHECK(user.install("secret.opdock", {"--decrypt-key", user.path_of("customer.key")}).code == 0);
    CHECK(user.installed_serial() == 1);
}

TEST_CASE("a folder of somebody's own is not replaced by a package of its name") {
    const User user;
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    user.write("plugins/" + std::string(name) + "/thesis.tex", "years of work");
    check_error(user.install("a.opdock"), 1, "plugin-pack did not make this folder");
    check_error(user.run(user.with_folder({"uninstall", name})), 1, "no package");
    check_error(user.run(user.with_folder({"uninstall", "../framework"})), 1, "no package");
}

TEST_CASE("files that no host would take do not go into a package") {
    const User user;
    user.write("libtext.so", "not a plugin");
    user.write("text.tune.yaml", "schema: opdock.tune/1\n");
    fs::copy_file(fixture("other_abi"), user.path_of("libother.so"));
    check_error(user.patch("a.opdock", {"--plugin", user.path_of("libtext.so")}), 1,
                "libtext.so: this is not a plugin");
    check_error(user.patch("a.opdock", {"--plugin", user.path_of("libother.so")}), 1, "libother.so");
    check_error(user.patch("a.opdock", {"--tune", user.path_of("text.tune.yaml")}), 1, "cannot determine its plugin");
    check_error(user.patch_with_plugin("a.opdock", {"--plugin", user.path_of("libacme.so")}), 1,
                "two files of the package would be called 'libacme/libacme.so'");
    user.write("bad.yaml", "garbage: [");
    user.write("acme.tune.yaml", "x: 1\n");
    check_error(user.patch_with_plugin("a.opdock", {"--policy", user.path_of("bad.yaml")}), 1, "bad.yaml:1:");
    check_error(user.patch_with_plugin("a.opdock", {"--tune", user.path_of("acme.tune.yaml")}), 1, "acme.tune.yaml:1:");
    CHECK(!fs::exists(user.path_of("a.opdock")));
}

TEST_CASE("a package may carry plugins and no changes") {
    const User user;
    CHECK(user.run({"patch", "--device-type", "Acme_A1", "--task", "inference", "--task", "train", "--plugin",
                    user.path_of("libacme.so"), "--key", user.path_of("acme.key"), "--out", user.path_of("p.opdock")})
              .code == 0);
    CHECK(user.install("p.opdock").code == 0);
    CHECK(fs::exists(user.path_of("plugins/Acme_A1-inference+train/libacme/plugin.json")));
    check_error(user.unpatch("p.opdock"), 1, "the package only has files and changes nothing");
    check_error(user.run({"patch", "--device-type", "Acme_A1", "--task", "train", "--out", "x", "--unsigned"}), 2,
                "patch expects --backend");
}

TEST_CASE("wherever install is killed, the old package is installed or the new one") {
    const User user;
    user.write("LICENSE", std::string(100'000, 'x'));
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    CHECK(user.patch_with_plugin("b.opdock", {"--license", user.path_of("LICENSE")}).code == 0);
    const std::string folder = "plugins/" + std::string(name);
    CHECK(user.install("a.opdock").code == 0);
    const auto old_files = user.files(folder);
    CHECK(user.install("b.opdock", {"--allow-older"}).code == 0);
    const auto new_files = user.files(folder);
    REQUIRE(old_files != new_files);
    kill_in_turn(user, {user.installing("a.opdock", {"--allow-older"}), user.installing("b.opdock", {"--allow-older"})},
                 [&] {
                     const auto found = user.files(folder);
                     return found == old_files || found == new_files;
                 });
    CHECK(user.install("a.opdock", {"--allow-older"}).code == 0); // no lock is left behind
    CHECK(user.files(folder) == old_files);
    CHECK(user.files("plugins").size() == old_files.size()); // and nothing else
}

TEST_CASE("unpatch takes the newest package that is installed and fits, and an older one by its commit") {
    const User user;
    CHECK(user.patch("one.opdock").code == 0);
    const auto first = user.files("framework");
    user.commit("framework");
    user.write("framework/a.py", "later\n");
    CHECK(user.patch("two.opdock", {"--serial", "2"}).code == 0);
    const auto second = user.files("framework");
    const json about =
        json::parse(user.run({"inspect", user.path_of("one.opdock"), "--pub", user.path_of("acme.pub"), "--json"}).out);
    const auto commit = about.at("backends").at(0).at("commit").get<std::string>();
    CHECK(user.install("one.opdock").code == 0);
    CHECK(user.install("two.opdock").code == 0);
    const auto unpatch = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {
            "unpatch", "--device-type",    "Acme_A1", "--task", "train", "--backend", "fw=" + user.path_of("clone"),
            "--out",   user.path_of("out")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return user.run(user.with_trust(arguments));
    };
    CHECK(unpatch({}).code == 0); // the clone lacks the newest package's commit
    CHECK(user.files("out/fw") == first);
    user.git({"-C", user.path_of("clone"), "fetch", "--quiet"});
    CHECK(unpatch({}).code == 0);
    CHECK(user.files("out/fw") == second);
    CHECK(unpatch({"--commit", commit.substr(0, 10)}).code == 0);
    CHECK(user.files("out/fw") == first);
    check_error(unpatch({"--commit", "ffff"}), 1, "no package for Acme_A1, train and fw at ffff in ");
    check_error(user.run(user.with_trust({"unpatch", "--device-type", "Acme_B1", "--task", "train", "--backend",
                                          "fw=" + user.path_of("clone")})),
                1, "no package for Acme_B1, train and fw in ");
    check_error(user.run({"unpatch", "--device-type", "Acme_A1", "--backend", "fw=x"}), 2,
                "unpatch expects the PACKAGE, or --device-type TYPE and --task TASK");

    CHECK(user.install("one.opdock", {"--allow-older"}).code == 0); // a return to the older one
    CHECK(unpatch({"--allow-older"}).code == 0);
    CHECK(user.files("out/fw") == first);
    const Finished history = user.run(user.with_trust({"history"}));
    CHECK(history.code == 0);
    CHECK(history.out.starts_with("Acme_A1:\n  train:\n    'fw':\n      - '" + commit + "'\n      - '"));
    CHECK(user.run(user.with_trust({"history", "--out", user.path_of("patch_history.yaml")})).code == 0);
    CHECK(Workplace::read(user.path_of("patch_history.yaml")) == history.out);
    check_error(user.run(user.with_trust({"history", "--out", user.path_of("patch_history.yaml")})), 1,
                "patch_history.yaml");
    const json document = json::parse(user.run(user.with_trust({"history", "--json"})).out);
    CHECK(document.at("history").at("Acme_A1").at("train").at("fw").size() == 2);
}

TEST_CASE("what was made of another package, or of a newer one, is not replaced") {
    const User user;
    CHECK(user.patch("one.opdock").code == 0);
    CHECK(user.patch("two.opdock", {"--serial", "2"}).code == 0);
    CHECK(user.patch("both.opdock", {"--task", "inference"}).code == 0);
    CHECK(user.unpatch("two.opdock").code == 0);
    check_error(user.unpatch("one.opdock"), 5, "this folder was made from serial 2");
    check_error(user.unpatch("both.opdock"), 1,
                "this folder was made from Acme_A1-train-fw, but this package is Acme_A1-inference+train-fw; --out " +
                    user.path_of("Acme_A1-inference+train") + " keeps both; or remove the folder");
    CHECK(user.run({"patch", "--backend", "vllm=" + user.path_of("framework") + "@HEAD", "--unsigned", "--task",
                    "train", "--device-type", "Acme_A1", "--out", user.path_of("vllm.opdock")})
              .code == 0);
    check_error(user.run({"unpatch", user.path_of("vllm.opdock"), "--backend", "vllm=" + user.path_of("clone"), "--out",
                          user.path_of("out"), "--allow-unsigned"}),
                1, "; --out " + user.path_of("Acme_A1-train-vllm") + " keeps both");
    CHECK(user.unpatch("one.opdock", {"--allow-older"}).code == 0);
}

TEST_CASE("a checkout is adapted in place and put back, and nothing is lost on the way") {
    const User user;
    user.write("framework/run.sh", "#!/bin/sh\n");
    fs::permissions(user.path_of("framework/run.sh"), fs::perms::owner_exec, fs::perm_options::add);
    fs::create_symlink("a.py", user.path_of("framework/link"));
    user.git({"-C", user.path_of("framework"), "rm", "--quiet", "b.bin"});
    CHECK(user.patch("a.opdock").code == 0);
    const auto original = user.files("clone"), adapted = user.files("framework");
    const std::vector<std::string> in_place = {
        "unpatch", user.path_of("a.opdock"), "--in-place", "--backend", "fw=" + user.path_of("clone"),
        "--pub",   user.path_of("acme.pub")};
    std::vector<std::string> back = in_place;
    back[0] = "revert";
    back.erase(back.begin() + 2);
    const auto index = Workplace::read(user.path_of("clone/.git/index"));
    CHECK(user.run(in_place).code == 0);
    CHECK(user.files("clone") == adapted);
    CHECK(fs::read_symlink(user.path_of("clone/link")) == "a.py");
    CHECK((fs::status(user.path_of("clone/run.sh")).permissions() & fs::perms::owner_exec) != fs::perms::none);
    CHECK(Workplace::read(user.path_of("clone/.git/index")) == index);
    CHECK(user.run(in_place).code == 0);                    // again
    user.write("clone/a.py", "one\ntwo, adapted\nthree\n"); // the original content: an interrupted run is resumed
    fs::remove(user.path_of("clone/run.sh"));
    CHECK(user.run(in_place).code == 0);
    CHECK(user.files("clone") == adapted);

    user.write("clone/a.py", "edited since\n");
    check_error(user.run(back), 4, "nothing was changed");
    check_error(user.run(in_place), 4, "\n  " + user.path_of("clone/a.py"));
    CHECK(Workplace::read(user.path_of("clone/a.py")) == "edited since\n");
    CHECK(fs::exists(user.path_of("clone/run.sh")));
    user.write("clone/a.py", "one\ntwo, adapted\nthree\n");
    CHECK(user.run(back).code == 0);
    CHECK(user.files("clone") == original);
    CHECK(!fs::exists(fs::symlink_status(user.path_of("clone/link"))));
    CHECK(!fs::exists(user.path_of("clone/new dir")));
    check_error(user.run({"unpatch", "x", "--in-place", "--out", "y", "--backend", "fw=z"}), 2,
                "--in-place and --out contradict each other");
}

TEST_CASE("who may read a file stays as it is when it is adapted in place: owner, mode, access list and attributes") {
    const User user;
    CHECK(user.patch("a.opdock").code == 0);
    const std::string file = user.path_of("clone/a.py");
    const std::vector<AccessEntry> entries = {
        {ACL_USER_OBJ, 6}, {ACL_USER, 4, 65534}, {ACL_GROUP_OBJ, 0}, {ACL_MASK, 4}, {ACL_OTHER, 0}};
    set_access_list(file, entries);
    const bool has_attributes = ::setxattr(file.c_str(), "user.opdock", "mine", 4, 0) == 0;
    if (::geteuid() == 0) {
        REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
    }
    const auto rights = [&] {
        struct stat status = {};
        REQUIRE(::stat(file.c_str(), &status) == 0);
        std::string text = std::to_string(status.st_uid) + " " + std::to_string(status.st_gid) + " " +
                           std::to_string(status.st_mode & 07777);
        for (const char *attribute : {"system.posix_acl_access", "user.opdock"}) {
            std::string value(4096, '\0');
            const ssize_t size = ::getxattr(file.c_str(), attribute, value.data(), value.size());
            text += " " + value.substr(0, size > 0 ? static_cast<size_t>(size) : 0);
        }
        return text;
    };
    const std::string before = rights();
    CHECK(before.ends_with("mine") == has_attributes);
    const std::string old = Workplace::read(file);
    const std::vector<std::string> where = {"--backend", "fw=" + user.path_of("clone"), "--pub",
                                            user.path_of("acme.pub")};
    std::vector<std::string> there = {"unpatch", user.path_of("a.opdock"), "--in-place"}, back = {"revert", there[1]};
    there.insert(there.end(), where.begin(), where.end());
    back.insert(back.end(), where.begin(), where.end());
    CHECK(user.run(there).code == 0);
    CHECK(Workplace::read(file) != old);
    CHECK(rights() == before);
    CHECK(user.run(back).code == 0);
    CHECK(Workplace::read(file) == old);
    CHECK(rights() == before);
}

TEST_CASE("conflicts of a merge in place are named") {
    const User user;
    CHECK(user.patch("a.opdock").code == 0);
    user.write("clone/a.py", "one\ntwo, otherwise\nthree\n");
    user.commit("clone");
    const Finished merged =
        user.run({"unpatch", user.path_of("a.opdock"), "--in-place", "--3way", "--json", "--backend",
                  "fw=" + user.path_of("clone") + "@HEAD", "--pub", user.path_of("acme.pub")});
    check_error(merged, 4, "there are conflicts, with both sides between marks, in\n  fw/a.py");
    CHECK(json::parse(merged.out).at("backends").at(0).at("conflicts") == json{"a.py"});
    CHECK(contains(Workplace::read(user.path_of("clone/a.py")), "<<<<<<<"));
}

TEST_CASE("what is adapted in place stays in the checkout") {
    const User user;
    CHECK(user.patch("a.opdock").code == 0); // adds "new dir/c.cu"
    fs::create_directory(user.path_of("elsewhere"));
    fs::create_symlink(user.path_of("elsewhere"), user.path_of("clone/new dir"));
    check_error(user.run({"unpatch", user.path_of("a.opdock"), "--in-place", "--backend", "fw=" + user.path_of("clone"),
                          "--pub", user.path_of("acme.pub")}),
                4, "\n  " + user.path_of("clone/new dir/c.cu"));
    CHECK(fs::is_empty(user.path_of("elsewhere")));
}

TEST_CASE("rubbish among installed packages is passed by") {
    const User user;
    CHECK(user.patch_with_plugin("a.opdock").code == 0);
    CHECK(user.install("a.opdock").code == 0);
    const std::string folder = user.path_of("plugins");
    fs::create_symlink("loop", folder + "/loop");
    fs::create_directory(folder + "/folder.opdock");
    fs::create_directory(folder + "/" + name + "/2.opdock");
    REQUIRE(mkfifo((folder + "/pipe.opdock").c_str(), 0600) == 0);
    REQUIRE(mkfifo((folder + "/" + name + "/pipe.opdock").c_str(), 0600) == 0);
    user.write("plugins/broken.opdock", "opdock.package/1\nkey -\n");
    const Finished history = user.run(user.with_trust({"history"}));
    check_error(history, 1, "left out: " + folder + "/broken.opdock: this is not a package");
    CHECK(contains(history.out, "    'fw':\n"));
    CHECK(user.installed_serial() == 1);
    CHECK(user.install("a.opdock").code == 0);
    user.write("plugins/" + std::string(name) + "/opdock-installed.json", "{\"serial\": -1}");
    CHECK(contains(user.run(user.with_trust({"list", "--json"})).out, "plugin-pack did not write this"));
    check_error(user.install("a.opdock"), 5, "cannot determine which package is installed");
    CHECK(user.install("a.opdock", {"--allow-older"}).code == 0);
    fs::remove(folder + "/" + name + "/1.opdock");
    REQUIRE(mkfifo((folder + "/" + name + "/1.opdock").c_str(), 0600) == 0);
    CHECK(contains(user.run(user.with_trust({"list", "--json"})).out, "it cannot be read"));
    check_error(user.install("a.opdock"), 5, "another package of the same serial");
}

TEST_CASE("unpatch passes by a newer package that is for others, and knows commits by their names") {
    const User user;
    CHECK(user.run({"keygen", user.path_of("customer"), "--no-passphrase"}).code == 0);
    CHECK(user.patch("one.opdock").code == 0);
    CHECK(user.patch("two.opdock", {"--serial", "2", "--recipient", user.path_of("customer.pub")}).code == 0);
    user.git({"-C", user.path_of("clone"), "tag", "v1"});
    const auto unpatch = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {"unpatch",
                                              "--device-type",
                                              "Acme_A1",
                                              "--task",
                                              "train",
                                              "--backend",
                                              "fw=" + user.path_of("clone"),
                                              "--out",
                                              user.path_of("out"),
                                              "--folder",
                                              user.path_of("."),
                                              "--pub",
                                              user.path_of("acme.pub")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return user.run(arguments);
    };
    CHECK(unpatch({}).code == 0);
    CHECK(contains(Workplace::read(user.path_of("out/opdock-provenance.json")), "\"serial\": 1,"));
    CHECK(unpatch({"--decrypt-key", user.path_of("customer.key")}).code == 0);
    CHECK(contains(Workplace::read(user.path_of("out/opdock-provenance.json")), "\"serial\": 2,"));
    CHECK(unpatch({"--commit", "v1", "--allow-older"}).code == 0);
    check_error(unpatch({"--commit", "v2"}), 1, "no package for Acme_A1, train and fw at v2 in ");
}

TEST_CASE("names that an installed package has itself are not for files of a package") {
    const User user;
    const auto refused = [&](const std::string &file, const std::string &message) {
        CAPTURE(file);
        user.write(file, R"({"library": "/tmp/evil.so"})");
        check_error(user.patch_with_plugin("a.opdock", {"--license", user.path_of(file)}), 1, message);
    };
    refused("opdock-installed.json", "cannot be called 'opdock-installed.json'");
    refused("plugin.json", "cannot be called 'plugin.json'");
    refused("3.opdock", "cannot be called '3.opdock'");
    refused("libacme", "both a file and a folder called 'libacme'");
    CHECK(!fs::exists(user.path_of("a.opdock")));
}
