// plugin-pack on repositories that the test makes.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "pack_workplace.hpp"

using namespace opdock::test;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("what a vendor changed comes out of a package and a clone of the framework") {
    const Workplace work;
    const Finished patched = work.patch("a.opdock");
    INFO(patched.err);
    CHECK(patched.code == 0);
    CHECK(contains(patched.out, "fw: 2 changes to "));
    const Finished unpatched = work.unpatch("a.opdock");
    INFO(unpatched.err);
    CHECK(unpatched.code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
    const json provenance = json::parse(Workplace::read(work.path_of("out/opdock-provenance.json")));
    CHECK(provenance.at("device_type") == "Acme_A1");
    CHECK(provenance.at("backends").at(0).at("changes") == 2);

    CHECK(work.patch("b.opdock").code == 0);
    CHECK(Workplace::read(work.path_of("a.opdock")) == Workplace::read(work.path_of("b.opdock")));
    CHECK(work.unpatch("a.opdock").code == 0); // again, over its own output
    CHECK(work.files("out/fw") == work.files("framework"));
}

TEST_CASE("a locale that is not installed is no obstacle, and a message is one line") {
    Workplace work;
    work.in_locale("xx_XX.UTF-8");
    CHECK(work.patch("a.opdock", {"--message", "fused\n  signed with key 'trusted'"}).code == 0);
    CHECK(work.unpatch("a.opdock").code == 0);
    const Finished seen = work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")});
    CHECK(contains(seen.out, "  message: \"fused\\n  signed with key 'trusted'\"\n"));
}

TEST_CASE("a package says what is in it, and files travel with it") {
    const Workplace work;
    fs::copy_file(fixture("good"), work.path_of("libacme.so"));
    work.write("LICENSE", "ours");
    CHECK(work.patch("a.opdock", {"--plugin", work.path_of("libacme.so"), "--license", work.path_of("LICENSE"),
                                  "--message", "fused attention", "--model", "llama", "--serial", "3"})
              .code == 0);
    const std::vector<std::string> trusted = {"--pub", work.path_of("acme.pub")};
    const Finished text = work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")});
    CHECK(contains(text.out, "  Acme_A1, train, serial 3\n"));
    CHECK(contains(text.out, "    M  a.py\n    A  new dir/c.cu\n"));
    CHECK(contains(text.out, "  plugin libacme/libacme.so, "));
    const json document =
        json::parse(work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub"), "--json"}).out);
    CHECK(document.at("schema") == "opdock.plugin-pack.inspect/1");
    CHECK(document.at("message") == "fused attention");
    CHECK(document.at("files").size() == 4);
    CHECK(document.at("key").at("name") == "acme");
}

TEST_CASE("a secret key that lies in the checkout does not go into a package, and a package not without a word") {
    const Workplace work;
    CHECK(work.patch("framework/earlier.opdock").code == 0);
    CHECK(contains(work.patch("a.opdock").err, "note: the package will contain another package: "));
    fs::copy_file(work.path_of("acme.key"), work.path_of("framework/acme.key"));
    check_error(work.patch("b.opdock"), 1, "framework/acme.key: this is a secret key");
    CHECK(!fs::exists(work.path_of("b.opdock")));
}

TEST_CASE("what the command line does not say is asked for on a terminal") {
    const Workplace work;
    const std::vector<std::string> arguments = {"patch",
                                                "--backend",
                                                "fw=" + work.path_of("framework") + "@HEAD",
                                                "--key",
                                                work.path_of("acme.key"),
                                                "--out",
                                                work.path_of("a.opdock"),
                                                "--task",
                                                "train",
                                                "--device-type",
                                                "Acme_A1",
                                                "--contact",
                                                "ops@acme.example"};
    const Finished patched = work.run_with_answers(arguments, {"fused attention\n", "llama, qwen 3 ,\n", "\n"});
    INFO(patched.out);
    CHECK(patched.code == 0);
    CHECK(!contains(patched.out, "Contact for questions"));
    CHECK(contains(patched.out, "looking for changes in ")); // progress is shown
    const json document =
        json::parse(work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub"), "--json"}).out);
    CHECK(document.at("message") == "fused attention");
    CHECK(document.at("models") == json{"llama", "qwen 3"});
    CHECK(document.at("contact") == "ops@acme.example");
    CHECK(document.at("backends").at(0).at("version") != "");
    std::vector<std::string> again = arguments;
    again.emplace_back("--force");
    const Finished latin = work.run_with_answers(again, {"m\xff\n"});
    CHECK(latin.code == 1);
    CHECK(contains(latin.out, "plugin-pack: the answer is not UTF-8"));
    std::vector<std::string> silent = arguments;
    silent.insert(silent.end(), {"--no-questions", "--force"});
    CHECK(work.run_with_answers(silent, {}).code == 0);
}

TEST_CASE("an encrypted package is unpacked by those whom it is for") {
    const Workplace work;
    CHECK(work.run({"keygen", work.path_of("customer"), "--no-passphrase"}).code == 0);
    const Finished patched = work.patch("a.opdock", {"--recipient", work.path_of("customer.pub")});
    INFO(patched.err);
    CHECK(patched.code == 0);
    const Finished seen = work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")});
    CHECK(contains(
        seen.out,
        "; the encrypted part was not checked: --decrypt-key NAME.key checks it and shows what was changed\n"));
    CHECK(!contains(seen.out, "a.py"));
    check_error(work.unpatch("a.opdock"), 1, "it is encrypted; --decrypt-key NAME.key opens it");
    check_error(work.unpatch("a.opdock", {"--decrypt-key", work.path_of("other.key")}), 1,
                "it is encrypted for other keys");
    CHECK(!fs::exists(work.path_of("out")));
    CHECK(work.unpatch("a.opdock", {"--decrypt-key", work.path_of("customer.key")}).code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
}

TEST_CASE("an encrypted package does not become a readable one by moving it") {
    const Workplace work;
    CHECK(work.patch("a.opdock", {"--recipient", work.path_of("acme.pub")}).code == 0);
    check_error(work.run({"rebase", work.path_of("a.opdock"), "--backend", "fw=" + work.path_of("clone") + "@HEAD",
                          "--pub", work.path_of("acme.pub"), "--decrypt-key", work.path_of("acme.key"), "--key",
                          work.path_of("acme.key"), "--out", work.path_of("b.opdock")}),
                2, "name the recipients of the new one with --recipient");
    CHECK(!fs::exists(work.path_of("b.opdock")));
}

TEST_CASE("without trust nothing is written") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    const std::vector<std::string> stranger = {
        "unpatch", work.path_of("a.opdock"), "--backend", "fw=" + work.path_of("clone"),
        "--out",   work.path_of("out"),      "--pub",     work.path_of("other.pub")};
    check_error(work.run(stranger), 3, "which is not a trusted key");
    check_error(work.run({"verify", work.path_of("a.opdock")}), 3, "which is not a trusted key");
    std::string text = Workplace::read(work.path_of("a.opdock"));
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    work.write("changed.opdock", text);
    check_error(work.unpatch("changed.opdock"), 3, "changed.opdock: ");
    work.write("cut.opdock", text.substr(0, 200));
    check_error(work.unpatch("cut.opdock"), 3, "cut.opdock: ");
    check_error(work.unpatch("absent.opdock"), 1, "absent.opdock: No such file");
    CHECK(!fs::exists(work.path_of("out")));
    CHECK(work.run({"verify", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")}).code == 0);
}

TEST_CASE("an earlier build stays as it was when something is wrong") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    CHECK(work.unpatch("a.opdock").code == 0);
    const auto before = work.files("out");
    work.commit("framework"); // a commit that the clone lacks
    work.write("framework/a.py", "more\n");
    CHECK(work.patch("b.opdock").code == 0);
    check_error(work.unpatch("b.opdock"), 1, "it does not have the commit ");
    check_error(work.unpatch("a.opdock", {"--dry-run", "--backend", "fw=" + work.path_of("clone")}), 2,
                "two backends are called 'fw'");
    CHECK(work.unpatch("a.opdock", {"--dry-run"}).code == 0);
    CHECK(work.files("out") == before);
    for (const auto &entry : fs::directory_iterator(work.path_of("."))) {
        CHECK(!contains(entry.path().filename().string(), ".out.opdock-"));
    }
}

TEST_CASE("a folder that is somebody else's is not replaced") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    work.write("out/thesis.tex", "years of work");
    check_error(work.unpatch("a.opdock"), 1, "plugin-pack did not make this folder");
    CHECK(work.files("out").at("thesis.tex") == "years of work");
    fs::remove_all(work.path_of("out"));
    fs::create_directory(work.path_of("out")); // an empty folder belongs to nobody
    CHECK(work.unpatch("a.opdock").code == 0);
}

TEST_CASE("wherever unpatch is killed, the folder is the old one or the new one") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    work.write("framework/a.py", "the next version\n");
    for (int i = 0; i < 50; ++i) {
        work.write("framework/many/" + std::to_string(i), std::string(1000, 'x'));
    }
    CHECK(work.patch("b.opdock").code == 0);
    CHECK(work.unpatch("a.opdock").code == 0);
    const auto old_files = work.files("out/fw");
    CHECK(work.unpatch("b.opdock").code == 0);
    const auto new_files = work.files("out/fw");
    kill_in_turn(work, {work.unpatching("a.opdock"), work.unpatching("b.opdock")}, [&] {
        const auto found = work.files("out/fw");
        return found == old_files || found == new_files;
    });
    CHECK(work.unpatch("a.opdock").code == 0); // no lock is left behind
    CHECK(work.files("out/fw") == old_files);
}

TEST_CASE("text that is no UTF-8 is refused before anything is done") {
    const Workplace work;
    for (const char *option : {"--message", "--contact", "--model", "--backend-version"}) {
        const Finished patched =
            work.patch("a.opdock", {option, "caf\xe9", "--passphrase-file", work.path_of("absent")});
        check_error(patched, 2, std::string(option) + ": 'caf\\xe9' is not UTF-8");
        CHECK(!fs::exists(work.path_of("a.opdock")));
    }
    work.git({"-C", work.path_of("framework"), "tag", "v\xe9"}); // output of git describe, which nobody is to blame for
    CHECK(work.patch("a.opdock").code == 0);
}

TEST_CASE("a folder where a file is wanted is said, and the other way round") {
    Workplace work;
    fs::create_directory(work.path_of("folder"));
    work.write("file", "text");
    const std::string folder = work.path_of("folder"), file = work.path_of("file");
    const std::string is_folder = "folder: this is a folder; expected a file";
    CHECK(work.patch("a.opdock").code == 0);
    check_error(work.patch("folder"), 1, is_folder + " to write");
    check_error(work.patch("folder", {"--force"}), 1, is_folder + " to write");
    check_error(work.patch("b.opdock", {"--plugin", folder}), 1, is_folder);
    check_error(work.patch("b.opdock", {"--recipient", folder}), 1, "folder: expected a regular file");
    check_error(work.unpatch("folder"), 1, is_folder);
    check_error(work.run({"verify", work.path_of("a.opdock"), "--trusted", file}), 1,
                "file: there is no such folder of keys");
    check_error(work.run({"unpatch", work.path_of("a.opdock"), "--backend", "fw=" + file, "--pub",
                          work.path_of("acme.pub"), "--out", work.path_of("out")}),
                1, "file: there is no such folder");
    check_error(
        work.run({"import-flagscale", file, "--backend", "fw=" + work.path_of("clone"), "--out", folder, "--unsigned"}),
        1, "file: there is no such folder");
    check_error(
        work.run({"import-flagscale", folder, "--backend", "fw=" + work.path_of("clone"), "--out", file, "--unsigned"}),
        1, "file: this is not a folder");
    work.with("TMPDIR", file);
    check_error(work.patch("b.opdock"), 1, "file: there is no such folder for temporary files; set TMPDIR");
}

TEST_CASE("what is no package is refused before more than its first lines are read") {
    const Workplace work;
    const std::string pipe = work.path_of("pipe.opdock"), sparse = work.path_of("sparse.opdock");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    work.write("sparse.opdock", "");
    fs::resize_file(sparse, uint64_t{1} << 40); // more than a package may have, and too much to read
    const Finished silent = work.run({"verify", pipe});
    CHECK(silent.code == 1);
    CHECK(contains(silent.err, pipe + ": no process writes to this pipe"));
    for (const std::string &file : {sparse, std::string("/dev/zero")}) {
        for (const char *verb : {"verify", "inspect"}) {
            const Finished finished = work.run({verb, file, "--allow-unsigned"});
            CHECK(finished.code == 3);
            CHECK(contains(finished.err, file + ": this is not a package of plugin-pack"));
        }
    }
}

TEST_CASE("files that a filter would convert are named, since what they hold is packed") {
    const Workplace work;
    work.write("framework/.gitattributes", "*.py filter=up\n");
    CHECK(!contains(work.patch("a.opdock").err, "filters are not run")); // no such filter is configured
    work.git({"-C", work.path_of("framework"), "config", "filter.up.clean", "tr a-z A-Z"});
    CHECK(contains(work.patch("b.opdock").err,
                   "note: filters are not run; the content in the worktree is packed for a.py of fw\n"));
    CHECK(work.unpatch("b.opdock").code == 0);
    CHECK(work.files("out/fw") == work.files("framework"));
}

TEST_CASE("a file without an end is not taken into a package") {
    const Workplace work;
    for (const char *endless : {"/dev/zero", "/proc/self/pagemap"}) { // the latter is a regular file of size 0
        fs::remove(work.path_of("LICENSE"));
        fs::create_symlink(endless, work.path_of("LICENSE"));
        check_error(work.patch("a.opdock", {"--license", work.path_of("LICENSE")}), 1,
                    "LICENSE: is larger than 16 MiB");
    }
}

TEST_CASE("a device that is full is an error, and stays the device") {
    const Workplace work;
    check_error(work.run({"patch", "--backend", "fw=" + work.path_of("framework") + "@HEAD", "--unsigned", "--out",
                          "/dev/full", "--force", "--task", "train", "--device-type", "Acme_A1"}),
                1, "/dev/full: No space left on device");
    CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("a repository of another user is read when git is told that it is safe") {
    Workplace work;
    work.with_git_that("export GIT_TEST_ASSUME_DIFFERENT_OWNER=1");
    check_error(work.patch("a.opdock"), 1,
                "framework: the repository belongs to another user, so git does not open it; if you trust it, run: git "
                "config --global --add safe.directory /");
    work.with("GIT_CONFIG_PARAMETERS", "'safe.directory=" + work.path_of("framework") + "'"); // as set by git -c
    CHECK(work.patch("a.opdock").code == 0);
    work.with("GIT_CONFIG_PARAMETERS", "");
    work.with("GIT_CONFIG_COUNT", "1");
    work.with("GIT_CONFIG_KEY_0", "safe.directory");
    work.with("GIT_CONFIG_VALUE_0", work.path_of("clone"));
    CHECK(work.unpatch("a.opdock").code == 0);
    work.with("GIT_CONFIG_COUNT", "0");
    check_error(work.unpatch("a.opdock"), 1, "clone: the repository belongs to another user");
    std::ofstream(work.home() + "/.gitconfig") << "[safe]\n\tdirectory = *\n";
    CHECK(work.unpatch("a.opdock").code == 0);
}

TEST_CASE("a partial clone that lacks files is said, and is no conflict") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    work.git({"-C", work.path_of("framework"), "config", "uploadpack.allowFilter", "true"});
    fs::remove_all(work.path_of("clone"));
    for (const auto &[filter, lacks] : {std::pair("blob:none", "lacks 2 files of the commit"),
                                        std::pair("tree:0", "lacks the folders of the commit")}) {
        work.git({"clone", "--quiet", "--no-checkout", std::string("--filter=") + filter,
                  "file://" + work.path_of("framework"), work.path_of("clone")});
        const Finished unpatched = work.unpatch("a.opdock");
        check_error(unpatched, 1, std::string("clone: it is a partial clone that ") + lacks);
        fs::remove_all(work.path_of("clone"));
    }
    // The vendor's partial clone lacks the file that was changed.
    work.git({"clone", "--quiet", "--filter=blob:none", "file://" + work.path_of("framework"), work.path_of("clone")});
    work.write("clone/a.py", "other\n");
    work.commit("clone");
    work.git({"-C", work.path_of("framework"), "checkout", "--quiet", "--", "."});
    work.write("framework/a.py", "newer\n");
    work.commit("framework");
    work.git({"-C", work.path_of("clone"), "fetch", "--quiet"});
    check_error(work.run({"patch", "--backend", "fw=" + work.path_of("clone") + "@origin/HEAD", "--unsigned", "--out",
                          work.path_of("b.opdock"), "--task", "train", "--device-type", "Acme_A1"}),
                1, "clone: it is a partial clone that lacks the file a.py as it was committed");
}

TEST_CASE("folders and refs may have an @") {
    const Workplace work;
    work.git({"-C", work.path_of("framework"), "branch", "user@feature"});
    work.git({"clone", "--quiet", work.path_of("framework"), work.path_of("me@work")});
    const auto patch = [&](const std::string &place) {
        return work.run({"patch", "--backend", "fw=" + work.path_of(place), "--unsigned", "--force", "--out",
                         work.path_of("a.opdock"), "--task", "train", "--device-type", "Acme_A1"});
    };
    for (const char *place : {"framework@user@feature", "framework@HEAD@{0}", "framework@@", "me@work@HEAD",
                              "me@work@@", "me@work@origin/user@feature"}) {
        CAPTURE(place);
        const Finished patched = patch(place);
        INFO(patched.err);
        CHECK(patched.code == 0);
    }
    check_error(patch("framework@nobody@feature"), 1, "framework: there is no commit 'nobody@feature'");
    check_error(patch("nowhere@user@feature"), 1, "nowhere@user: there is no such folder");
    check_error(patch("framework@"), 2, "expected DIR@COMMIT");
}

TEST_CASE("a commit that the checkout does not come after is told") {
    const Workplace work;
    work.git({"-C", work.path_of("framework"), "branch", "before"});
    work.commit("framework");
    const std::string at = "fw=" + work.path_of("framework") + "@";
    const auto patch = [&](const std::string &commit) {
        return work.run({"patch", "--backend", at + commit, "--unsigned", "--force", "--out", work.path_of("a.opdock"),
                         "--task", "train", "--device-type", "Acme_A1"});
    };
    CHECK(patch("before").err.empty());
    work.git({"-C", work.path_of("framework"), "branch", "later"});
    work.git({"-C", work.path_of("framework"), "checkout", "--quiet", "before"});
    CHECK(patch("HEAD").err.empty());
    const Finished patched = patch("later");
    CHECK(patched.code == 0);
    CHECK(contains(patched.err, "note: later is not an ancestor of HEAD in " + work.path_of("framework")));
    // In a shallow clone nobody can tell.
    work.write("framework/.git/shallow", Workplace::read(work.path_of("framework/.git/refs/heads/before")));
    CHECK(patch("later").err.empty());
}

TEST_CASE("nothing grows where patch is killed again and again") {
    Workplace work;
    const std::string temporary = work.path_of("temporary");
    fs::create_directory(temporary);
    work.with("TMPDIR", temporary);
    work.with_git_that("case \" $* \" in *' write-tree '*) kill -KILL $PPID; exit 1;; esac");
    for (int i = 0; i < 3; ++i) {
        CHECK(work.patch("a.opdock").code == 128 + SIGKILL);
        CHECK(std::distance(fs::directory_iterator(temporary), fs::directory_iterator()) <= 2);
    }
    CHECK(!fs::is_empty(temporary));
    work.with_git_that("");
    CHECK(work.patch("a.opdock").code == 0);
    CHECK(fs::is_empty(temporary));
}

TEST_CASE("wrong usage of plugin-pack exits with 2") {
    const Workplace work;
    check_error(work.run({}), 2, "expected a command");
    check_error(work.run({"unpach", "x"}), 2, "unknown command 'unpach'; did you mean 'unpatch'?");
    check_error(work.run({"verify", "x", "--out", "y"}), 2, "--out has no meaning with verify");
    check_error(work.patch("a.opdock", {"--device-type", "acme"}), 2, "device-type");
    check_error(work.patch("a.opdock", {"--task", "training"}), 2, "expected train, inference or post_train");
    check_error(work.patch("a.opdock", {"--unsigned"}), 2, "--key and --unsigned contradict each other");
    check_error(work.run({"patch", "--backend", work.path_of("framework"), "--out", "x"}), 2, "expected DIR@COMMIT");
    check_error(work.run({"unpatch", "x"}), 2, "unpatch expects --backend");
    check_error(work.run({"patch", "--backend", work.path_of("nowhere") + "@HEAD", "--device-type", "Acme_A1", "--task",
                          "train", "--out", work.path_of("n.opdock"), "--unsigned"}),
                1, "nowhere: there is no such folder");
    CHECK(work.patch("a.opdock").code == 0);
    check_error(work.unpatch("a.opdock", {"--backend", "fx=" + work.path_of("clone")}), 1,
                "the package does not adapt 'fx', but fw");
    check_error(work.patch("a.opdock"), 1, "--force overwrites it");
    CHECK(work.patch("a.opdock", {"--force"}).code == 0);
}

TEST_CASE("a package moves to a newer commit when its changes go together with it, and says where not") {
    const Workplace work;
    CHECK(work.patch("a.opdock").code == 0);
    // Meanwhile the framework changed another part of the file, and renamed one.
    work.write("clone/a.py", "zero\none\ntwo\nthree\n");
    fs::rename(work.path_of("clone/b.bin"), work.path_of("clone/renamed.bin"));
    work.commit("clone");
    const std::string place = "fw=" + work.path_of("clone") + "@HEAD";
    const std::vector<std::string> rebase = {"rebase", work.path_of("a.opdock"), "--backend", place,
                                             "--pub",  work.path_of("acme.pub"), "--key",     work.path_of("acme.key"),
                                             "--out",  work.path_of("b.opdock")};
    const Finished rebased = work.run(rebase);
    INFO(rebased.err);
    CHECK(rebased.code == 0);
    CHECK(contains(rebased.out, "b.opdock: serial 2, "));
    CHECK(work.unpatch("b.opdock").code == 0);
    CHECK(work.files("out/fw").at("a.py") == "zero\none\ntwo, adapted\nthree\n");
    CHECK(work.files("out/fw").contains("renamed.bin"));
    const auto by_rebase = work.files("out/fw");
    const std::vector<std::string> merging = {
        "unpatch", work.path_of("a.opdock"), "--3way",       "--backend", place, "--out", work.path_of("out"),
        "--pub",   work.path_of("acme.pub"), "--allow-older"};
    CHECK(work.run(merging).code == 0);
    CHECK(work.files("out/fw") == by_rebase);
    work.git({"clone", "--quiet", "--depth=2", "file://" + work.path_of("clone"), work.path_of("shallow")});
    std::vector<std::string> shallow = merging;
    shallow[4] = "fw=" + work.path_of("shallow") + "@HEAD";
    CHECK(work.run(shallow).code == 0);
    CHECK(work.files("out/fw") == by_rebase);

    work.write("clone/a.py", "zero\none\ntwo, otherwise\nthree\n");
    work.commit("clone");
    std::vector<std::string> again = rebase;
    again.back() = work.path_of("c.opdock");
    check_error(work.run(again), 4, "the changes conflict with the new commit in\n  fw/a.py");
    CHECK(!fs::exists(work.path_of("c.opdock")));
    check_error(work.run(merging), 4, "there are conflicts, with both sides between marks, in\n  fw/a.py");
    CHECK(contains(work.files("out/fw").at("a.py"), "<<<<<<<"));
    CHECK(contains(Workplace::read(work.path_of("out/opdock-provenance.json")), "\"a.py\""));
}
