// Packages with several backends, and submodules.
#include <filesystem>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "pack_workplace.hpp"

using namespace opdock::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Adds to the framework a submodule that has a submodule itself, and checks both out in the clone.
void add_submodules(const Workplace &work) {
    const auto add = [&](const std::string &to, const std::string &from) {
        work.git({"-c", "protocol.file.allow=always", "-C", work.path_of(to), "submodule", "--quiet", "add",
                  work.path_of(from), "parts/" + from});
        work.commit(to);
    };
    for (const char *name : {"middle", "inner"}) {
        work.git({"init", "--quiet", work.path_of(name)});
        work.write(std::string(name) + "/file", std::string(name) + "\n");
        work.write(std::string(name) + "/gone", "soon\n");
        work.commit(name);
    }
    add("middle", "inner");
    add("framework", "middle");
    fs::remove_all(work.path_of("clone"));
    for (const char *folder : {"framework", "clone"}) {
        if (folder == std::string("clone")) {
            work.git({"clone", "--quiet", work.path_of("framework"), work.path_of("clone")});
        }
        work.git({"-c", "protocol.file.allow=always", "-C", work.path_of(folder), "submodule", "--quiet", "update",
                  "--init", "--recursive"});
    }
}

} // namespace

TEST_CASE("what was changed in submodules, and in theirs, travels with the framework's changes") {
    const Workplace work;
    add_submodules(work);
    const auto original = work.files("clone");
    CHECK(work.patch("none.opdock").code == 0);
    CHECK(work.unpatch("none.opdock").code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    work.write("framework/a.py", "adapted\n");
    work.write("framework/parts/middle/file", "adapted\r\n");
    work.write("framework/parts/middle/parts/inner/new file", "new\n");
    fs::remove(work.path_of("framework/parts/middle/parts/inner/gone"));
    work.commit("framework/parts/middle/parts/inner"); // commits that exist nowhere else
    work.commit("framework/parts/middle");
    work.write("framework/parts/middle/parts/inner/file", "not even committed\n");
    CHECK(work.patch("a.opdock", {"--serial", "2"}).code == 0);
    const Finished unpatched = work.unpatch("a.opdock");
    INFO(unpatched.err);
    CHECK(unpatched.code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    const Finished seen = work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")});
    CHECK(contains(seen.out, "    A  parts/middle/parts/inner/new file\n"));

    std::vector<std::string> in_place = work.unpatching("a.opdock", {"--in-place"});
    in_place.erase(in_place.begin() + 4, in_place.begin() + 6); // --out
    CHECK(work.run(in_place).code == 0);
    CHECK(work.files("clone") == work.files("framework"));
    in_place[0] = "revert";
    in_place.pop_back();
    CHECK(work.run(in_place).code == 0);
    CHECK(work.files("clone") == original);

    // Onto a commit that has another commit of the submodule.
    work.write("clone/parts/middle/elsewhere", "upstream\n");
    work.commit("clone/parts/middle");
    work.commit("clone");
    std::vector<std::string> merging = work.unpatching("a.opdock", {"--3way", "--force"});
    merging.pop_back();
    merging[3] = "fw=" + work.path_of("clone") + "@HEAD";
    const Finished merged = work.run(merging);
    INFO(merged.err);
    CHECK(merged.code == 4); // nobody can tell which commit of the submodule is right
    CHECK(contains(merged.err, "fw/parts/middle"));

    work.git({"clone", "--quiet", work.path_of("framework"), work.path_of("bare")});
    std::vector<std::string> without = work.unpatching("a.opdock");
    without[3] = "fw=" + work.path_of("bare");
    check_error(work.run(without), 1, "the package changes this submodule, but it is not checked out; check out ");
    without[1] = work.path_of("none.opdock");
    without.emplace_back("--allow-older");
    CHECK(work.run(without).code == 0); // the package changes nothing in it
    CHECK(fs::is_empty(work.path_of("out/fw/parts/middle")));
}

TEST_CASE("a submodule that was moved is found where the user has it, and one that upstream removed is no conflict") {
    const Workplace work;
    add_submodules(work);
    work.write("framework/a.py", "adapted\n");
    CHECK(work.patch("plain.opdock").code == 0);
    work.git({"-C", work.path_of("framework"), "mv", "parts/middle", "parts/moved"});
    work.write("framework/parts/moved/edit", "edit\n");
    CHECK(work.patch("moved.opdock", {"--serial", "2"}).code == 0);
    const Finished unpatched = work.unpatch("moved.opdock");
    INFO(unpatched.err);
    CHECK(unpatched.code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    std::vector<std::string> in_place = work.unpatching("moved.opdock", {"--in-place"});
    in_place.erase(in_place.begin() + 4, in_place.begin() + 6); // --out
    check_error(work.run(in_place), 1, "the set of submodules changes");

    work.git({"-C", work.path_of("clone"), "rm", "--quiet", "parts/middle"});
    work.commit("clone");
    std::vector<std::string> merging = work.unpatching("plain.opdock", {"--3way", "--allow-older"});
    merging[3] = "fw=" + work.path_of("clone") + "@HEAD";
    const Finished merged = work.run(merging);
    INFO(merged.err);
    CHECK(merged.code == 0);
    CHECK(work.files("out/fw").at("a.py") == "adapted\n");
    CHECK(!fs::exists(work.path_of("out/fw/parts/middle")));
}

TEST_CASE("a submodule that is a backend itself goes in once, and comes out in both places") {
    const Workplace work;
    add_submodules(work);
    work.write("framework/a.py", "adapted\n");
    work.write("framework/parts/middle/file", "adapted\n");
    work.commit("framework/parts/middle"); // exists nowhere else
    work.write("framework/parts/middle/file", "adapted again\n");
    const Finished patched =
        work.patch("a.opdock", {"--backend", "middle=" + work.path_of("framework/parts/middle") + "@HEAD~1"});
    INFO(patched.err);
    CHECK(patched.code == 0);
    CHECK(contains(patched.out, "fw: 1 change to "));
    CHECK(contains(patched.out, "middle: 1 change to "));
    CHECK(work.unpatch("a.opdock", {"--backend", "middle=" + work.path_of("clone/parts/middle")}).code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    CHECK(work.files("out/middle") == work.files("framework/parts/middle"));
}

namespace {

// Packs two backends into one package.
void pack_two(const Workplace &work) {
    fs::copy(work.path_of("framework"), work.path_of("engine"), fs::copy_options::recursive);
    work.write("engine/a.py", "engine\n");
    const Finished patched =
        work.patch("a.opdock", {"--backend", "engine=" + work.path_of("engine") + "@HEAD", "--task", "inference",
                                "--backend-version", "engine=0.9", "--backend-version", "fw=1.x"});
    INFO(patched.err);
    REQUIRE(patched.code == 0);
}

} // namespace

TEST_CASE("one backend of a package with two is unpacked, changed in place and put back by itself") {
    const Workplace work;
    pack_two(work);
    const Finished one = work.unpatch("a.opdock");
    CHECK(one.code == 0);
    CHECK(contains(one.err, "note: the package adapts engine too; --backend engine=DIR adapts that backend"));
    CHECK(work.files("out/fw") == work.files("framework"));
    CHECK(!fs::exists(work.path_of("out/engine")));
    const std::vector<std::string> engine = {"--backend", "engine=" + work.path_of("clone")};
    CHECK(work.unpatch("a.opdock", engine).code == 0);
    CHECK(work.files("out/engine") == work.files("engine"));
    check_error(work.unpatch("a.opdock"), 1, "out: the folder is replaced as a whole, but it also has engine");
    CHECK(work.files("out/engine") == work.files("engine"));

    const auto original = work.files("clone");
    std::vector<std::string> in_place = {
        "unpatch",   work.path_of("a.opdock"),          "--pub",     work.path_of("acme.pub"),
        "--backend", "engine=" + work.path_of("clone"), "--in-place"};
    CHECK(work.run(in_place).code == 0);
    CHECK(work.files("clone") == work.files("engine"));
    in_place[0] = "revert";
    in_place.pop_back();
    CHECK(work.run(in_place).code == 0);
    CHECK(work.files("clone") == original);
}

TEST_CASE("an installed package is found by one of its backends and by several tasks") {
    const Workplace work;
    pack_two(work);
    const std::string public_key = work.path_of("acme.pub");
    const auto unpatch = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {
            "unpatch", "--device-type", "Acme_A1", "--backend",        "fw=" + work.path_of("clone"),
            "--pub",   public_key,      "--out",   work.path_of("out")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return work.run(arguments);
    };
    CHECK(work.run({"install", work.path_of("a.opdock"), "--pub", public_key}).code == 0);
    CHECK(unpatch({"--task", "train", "--task", "inference"}).code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    check_error(unpatch({"--task", "train", "--task", "post_train"}), 1,
                "no package for Acme_A1, train, post_train and fw");
    // A package for this backend alone takes precedence over one that has others too.
    work.write("framework/a.py", "alone\n");
    fs::remove_all(work.path_of("out"));
    CHECK(work.patch("alone.opdock").code == 0);
    CHECK(work.run({"install", work.path_of("alone.opdock"), "--pub", public_key}).code == 0);
    CHECK(unpatch({"--task", "train"}).code == 0);
    CHECK(work.files("out/fw").at("a.py") == "alone\n");
}

TEST_CASE("each backend has its own version, given or asked for") {
    const Workplace work;
    pack_two(work);
    const auto versions = [&](const std::string &package) {
        std::vector<std::string> texts;
        const Finished seen = work.run({"inspect", work.path_of(package), "--pub", work.path_of("acme.pub"), "--json"});
        const json document = json::parse(seen.out);
        for (const json &backend : document.at("backends")) {
            texts.push_back(backend.at("version"));
        }
        return texts;
    };
    CHECK(versions("a.opdock") == std::vector<std::string>{"0.9", "1.x"});
    CHECK(work.patch("one.opdock", {"--backend-version", "v1=beta"}).code == 2); // for no backend
    CHECK(work.patch("one.opdock", {"--backend-version", "1.x"}).code == 0);
    CHECK(versions("one.opdock") == std::vector<std::string>{"1.x"});
    const std::vector<std::string> engine = {"--backend", "engine=" + work.path_of("engine") + "@HEAD",
                                             "--backend-version"};
    const auto with = [&](const std::string &version) {
        std::vector<std::string> arguments = engine;
        arguments.push_back(version);
        return work.patch("b.opdock", arguments);
    };
    check_error(with("0.9"), 2, "--backend-version 0.9: it does not name its backend; write NAME=VERSION");
    check_error(with("engin=0.9"), 2, "there is no --backend with that name; did you mean 'engine'?");

    const std::vector<std::string> arguments = {"patch",
                                                "--backend",
                                                "fw=" + work.path_of("framework") + "@HEAD",
                                                "--backend",
                                                "engine=" + work.path_of("engine") + "@HEAD",
                                                "--unsigned",
                                                "--out",
                                                work.path_of("asked.opdock"),
                                                "--task",
                                                "train",
                                                "--device-type",
                                                "Acme_A1",
                                                "--message",
                                                "m",
                                                "--model",
                                                "llama",
                                                "--contact",
                                                "a@b.c"};
    const Finished asked = work.run_with_answers(arguments, {"1.x\n", "0.9\n"});
    INFO(asked.out);
    CHECK(asked.code == 0);
    CHECK(contains(asked.out, "Version name for HEAD of engine (--backend-version)"));
    const Finished seen = work.run({"inspect", work.path_of("asked.opdock"), "--allow-unsigned", "--json"});
    CHECK(json::parse(seen.out).at("backends").at(0).at("version") == "0.9");
}

TEST_CASE("a folder that unpatch made in the checkout does not go into the next package") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    CHECK(work.unpatch("a.opdock", {}).code == 0);
    fs::create_directories(work.path_of("framework/build"));
    fs::rename(work.path_of("out"), work.path_of("framework/build/Acme_A1"));
    work.write("framework/build/log", "not made by unpatch\n");
    work.write("framework/.gitignore", "ignored\n");
    fs::create_directories(work.path_of("framework/ignored"));
    fs::copy(work.path_of("framework/build/Acme_A1"), work.path_of("framework/ignored/Acme_A1"),
             fs::copy_options::recursive);
    const Finished again = work.patch("b.opdock", {"--include-ignored"});
    INFO(again.err);
    CHECK(again.code == 0);
    CHECK(contains(again.err, "framework/build/Acme_A1 is left out: unpatch made it"));
    CHECK(contains(again.out, "fw: 4 changes to ")); // two as before, plus the log and .gitignore
}
