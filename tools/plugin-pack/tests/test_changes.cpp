#include "changes.hpp"

#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "made_repository.hpp"
#include "rebuilt.hpp"
#include "workshop.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;

namespace {

std::string bytes(size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        text += static_cast<char>(i * 167 + i / 256);
    }
    return text;
}

std::string lines(size_t count, const std::string &end = "\n") {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        text += "line " + std::to_string(i) + end;
    }
    return text;
}

std::vector<std::string> patches_of(const Changes &changes) {
    std::vector<std::string> patches;
    for (const Change &change : changes.list) {
        patches.push_back(change.patch);
    }
    return patches;
}

// Commits files of every kind.
std::string fill(const MadeRepository &made) {
    made.write("plain.py", lines(40));
    made.write("crlf.txt", lines(20, "\r\n"));
    made.write("mixed.txt", "one\r\ntwo\nthree\r\n");
    made.write("latin1.txt", "caf\xe9\n");
    made.write("no newline", "at the end");
    made.write("empty", "");
    made.write("binary.bin", bytes(3000));
    made.write("to/be/renamed.cpp", lines(60));
    made.write("to/be/deleted.cpp", lines(3));
    made.write("name with spaces and \"quotes\" and \t a tab", "odd\n");
    made.write("n\xc3\xa4me.txt", "utf-8\n");
    made.write("n\xe4me.txt", "latin-1\n");
    made.write("-dash", "dash\n");
    made.write(":(top)magic", "magic\n");
    made.write("run.sh", "#!/bin/sh\n");
    made.executable("run.sh");
    made.link("link", "plain.py");
    made.write("becomes a link", "file\n");
    made.link("becomes a file", "plain.py");
    made.write("swap/a", lines(30, " a\n"));
    made.write("swap/b", lines(30, " b\n"));
    return made.commit();
}

void adapt(const MadeRepository &made) {
    made.write("plain.py", lines(20) + "inserted\n" + lines(20));
    made.write("crlf.txt", lines(10, "\r\n") + "inserted\r\n" + lines(10, "\r\n"));
    made.write("mixed.txt", "one\r\ntwo\r\nthree\nfour");
    made.write("latin1.txt", "caf\xe9\nna\xefve\n");
    made.write("no newline", "at the end, still");
    made.write("binary.bin", bytes(3000) + bytes(10));
    made.write("new.bin", std::string("\0\0\n\0", 4));
    made.write("new and empty", "");
    made.remove("empty");
    std::filesystem::create_directories(made / "moved");
    std::filesystem::rename(made / "to/be/renamed.cpp", made / "moved/renamed.cpp");
    made.write("moved/renamed.cpp", lines(60) + "and changed\n");
    made.remove("to");
    made.write("name with spaces and \"quotes\" and \t a tab", "odder\n");
    made.write("n\xc3\xa4me.txt", "utf-8, changed\n");
    made.write("n\xe4me.txt", "latin-1, changed\n");
    made.write("-dash", "--dash\n");
    made.write(":(top)magic", "more magic\n");
    made.write("line\nfeed", "in its name\n");
    made.executable("run.sh", false);
    made.executable("plain.py");
    made.link("link", "run.sh");
    made.link("dangling", "/nowhere/at all");
    made.link("becomes a link", "plain.py");
    made.remove("becomes a file");
    made.write("becomes a file", "now\n");
    std::filesystem::rename(made / "swap/a", made / "swap/c");
    std::filesystem::rename(made / "swap/b", made / "swap/a");
    std::filesystem::rename(made / "swap/c", made / "swap/b");
}

const Change *change_of(const Changes &changes, const std::string &path) {
    const auto found = std::find_if(changes.list.begin(), changes.list.end(),
                                    [&](const Change &change) { return change.path == path; });
    return found == changes.list.end() ? nullptr : &*found;
}

// State that must never change.
std::string state_of(const MadeRepository &made) {
    std::string state = made.run({"rev-parse", "HEAD"}) + made.run({"for-each-ref"}) + made.run({"stash", "list"}) +
                        made.run({"status", "--porcelain=v2", "-z", "--untracked-files=all"}) +
                        made.run({"ls-files", "--stage", "-z"}) + made.run({"count-objects", "-v"});
    for (const auto &[name, content] : files_in(made / ".git")) {
        state += name + content;
    }
    for (const auto &[name, content] : files_in(made.path())) {
        state += name + content;
    }
    return state;
}

} // namespace

TEST_CASE("what comes of commit and patches is the worktree, byte by byte, whatever is in it") {
    for (const bool is_committed : {false, true}) {
        CAPTURE(is_committed);
        const MadeRepository made;
        const std::string base = fill(made);
        adapt(made);
        if (is_committed) {
            made.commit();
        }
        const Changes changes = find_changes(made.path(), base);
        CHECK(rebuilt(made, changes) == files_in(made.path()));
        CHECK(changes.converted.empty());
        REQUIRE(change_of(changes, "moved/renamed.cpp") != nullptr);
        CHECK(change_of(changes, "moved/renamed.cpp")->status == 'R');
        CHECK(change_of(changes, "moved/renamed.cpp")->old_path == "to/be/renamed.cpp");
        REQUIRE(change_of(changes, "run.sh") != nullptr);
        CHECK(change_of(changes, "run.sh")->mode == 0100644);
        CHECK(change_of(changes, "becomes a link")->status == 'T');
    }
}

TEST_CASE("the repository is as it was: worktree, index, stash, HEAD, refs and objects") {
    const MadeRepository made;
    const std::string base = fill(made);
    made.write("plain.py", "stashed\n");
    made.run({"stash", "push", "--quiet"});
    made.write("staged", "staged\n");
    made.run({"add", "staged"});
    adapt(made);
    const std::string before = state_of(made);
    find_changes(made.path(), base, {true});
    CHECK(state_of(made) == before);
}

TEST_CASE("without edits there are no changes") {
    const MadeRepository made;
    const std::string base = fill(made);
    const Changes changes = find_changes(made.path(), base.substr(0, 12));
    CHECK(changes.commit == base);
    CHECK(changes.list.empty());
    CHECK(rebuilt(made, changes) == files_in(made.path()));
}

TEST_CASE("ignored files count when they are tracked, or asked for") {
    const MadeRepository made;
    made.write(".gitignore", "*.o\n");
    made.write("tracked.o", "1");
    const std::string base = made.commit();
    made.write("tracked.o", "2");
    made.write("built.o", "3");
    const Changes some = find_changes(made.path(), base);
    CHECK(some.list.size() == 1);
    CHECK(change_of(some, "tracked.o") != nullptr);
    const Changes all = find_changes(made.path(), base, {true});
    CHECK(all.list.size() == 2);
    CHECK(rebuilt(made, all) == files_in(made.path()));
}

TEST_CASE("a file that git was told not to look at counts") {
    const MadeRepository made;
    made.write("a", "1\n");
    const std::string base = made.commit();
    made.run({"update-index", "--assume-unchanged", "a"});
    made.write("a", "2\n");
    CHECK(find_changes(made.path(), base).list.size() == 1);
}

TEST_CASE("a file that was changed in the instant in which it was added counts") {
    const MadeRepository made;
    made.run({"config", "core.trustctime", "false"});
    made.write("a", "1\n");
    const std::string base = made.commit();
    const auto instant = std::filesystem::last_write_time(made / "a");
    made.write("a", "2\n");
    std::filesystem::last_write_time(made / "a", instant);
    std::filesystem::last_write_time(made / ".git/index", instant);
    CHECK(find_changes(made.path(), base).list.size() == 1);
}

TEST_CASE("files that are there although they should be skipped count, and those that are not are not deleted") {
    const MadeRepository made;
    made.write("a", "1\n");
    made.write("b", "1\n");
    const std::string base = made.commit();
    made.run({"update-index", "--skip-worktree", "a", "b"});
    made.write("a", "2\n");
    made.remove("b");
    const Changes changes = find_changes(made.path(), base);
    CHECK(changes.list.size() == 1);
    CHECK(change_of(changes, "a") != nullptr);
}

TEST_CASE("modes, links and case count, whatever the configuration says of the file system") {
    const MadeRepository made;
    made.write("a", "1\n");
    made.link("link", "a");
    const std::string base = made.commit();
    for (const char *name : {"core.fileMode", "core.symlinks"}) {
        made.run({"config", name, "false"});
    }
    made.run({"config", "core.ignoreCase", "true"});
    made.executable("a");
    made.write("A", "other\n");
    made.remove("link");
    made.write("link", "no link\n");
    const Changes changes = find_changes(made.path(), base);
    CHECK(changes.list.size() == 3);
    CHECK(rebuilt(made, changes) == files_in(made.path()));
}

TEST_CASE("a link that makes room for a folder of its name comes back") {
    const MadeRepository made;
    made.write("d/x", "x\n");
    made.link("current", "d");
    const std::string base = made.commit();
    std::filesystem::rename(made / "current", made / "current.old");
    made.write("current/y", "y\n");
    CHECK(rebuilt(made, find_changes(made.path(), base)) == files_in(made.path()));
}

TEST_CASE(
    "a submodule is carried by its commit and what differs in it, whatever is ignored, and nothing of it is run") {
    const MadeRepository inner("inner");
    inner.write("s.txt", "1\n");
    inner.commit();
    const MadeRepository made;
    made.run({"submodule", "--quiet", "add", inner.path(), "sub"});
    made.run({"config", "--file", (made / ".gitmodules").string(), "submodule.sub.ignore", "all"});
    const std::string base = made.commit();
    const std::string harm = (made / "../harm").string();
    const GitPlace sub{(made / "sub").string()};
    git(sub, {"config", "filter.z.clean", "touch " + harm + "; cat"});
    made.write("sub/.gitattributes", "* filter=z\n");
    made.write("sub/s.txt", "2\n");
    const Changes inside = find_changes(made.path(), base);
    CHECK(inside.list.empty());
    REQUIRE(inside.submodules.size() == 1);
    CHECK(inside.submodules[0].path == "sub");
    CHECK(inside.submodules[0].changes.list.size() == 2);
    CHECK(count_of(inside) == 2);
    CHECK(!std::filesystem::exists(harm));
    git({sub.directory,
         {{"GIT_AUTHOR_NAME", "A"},
          {"GIT_AUTHOR_EMAIL", "a@b.c"},
          {"GIT_COMMITTER_NAME", "A"},
          {"GIT_COMMITTER_EMAIL", "a@b.c"}}},
        {"commit", "--quiet", "--allow-empty", "--message=next"});
    std::filesystem::remove(harm); // created by the commit itself
    const Changes changes = find_changes(made.path(), base);
    REQUIRE(changes.list.size() == 1);
    CHECK(changes.list[0].path == "sub");
    REQUIRE(changes.submodules.size() == 1); // relative to the commit that others have too
    CHECK(changes.submodules[0].changes.commit == inside.submodules[0].changes.commit);
    CHECK(changes.submodules[0].changes.list.size() == 2);
    CHECK(!std::filesystem::exists(harm));
    CHECK(rebuilt(made, changes).size() == 1); // only .gitmodules
}

TEST_CASE("a folder that is not there is said, and is not the current one") {
    CHECK_THROWS_WITH_AS(find_changes("/does/not/exist", "HEAD"),
                         doctest::Contains("/does/not/exist: there is no such folder"), cli::Failure);
}

TEST_CASE("files that their attributes would convert come back as they are") {
    const MadeRepository made;
    made.write(".gitattributes", "*.txt text eol=crlf\n*.md text\n*.id ident\n");
    made.write("canonical.txt", "a\r\nb\r\n");
    made.write("other.txt", "a\r\n");
    made.write("notes.md", "a\n");
    const std::string base = made.commit();
    made.write("canonical.txt", "a\r\nb\r\nc\r\n");
    made.write("other.txt", "a\nb\n");    // a checkout would write CRLF
    made.write("notes.md", "a\r\nb\r\n"); // and LF here
    made.write("x.id", "$Id: mine $\n");
    const Changes changes = find_changes(made.path(), base);
    CHECK(rebuilt(made, changes) == files_in(made.path()));
    CHECK(changes.converted.size() == 2);
    CHECK(changes.crlf == std::vector<std::string>{"notes.md"});
}

TEST_CASE("filters, hooks and external diffs of a repository are not run") {
    const MadeRepository made;
    made.write(".gitattributes", "*.dat filter=harm diff=harm\n*.dot filter=a=b\n");
    made.write("a.dat", "1\n");
    made.write("a.dot", "1\n");
    const std::string base = made.commit();
    const std::string harm = "touch " + (made / "harm").string() + "; cat";
    for (const char *name : {"filter.a=b.clean", "filter.harm.clean", "filter.harm.smudge", "diff.harm.textconv",
                             "diff.harm.command", "core.fsmonitor", "diff.external"}) {
        made.run({"config", name, harm});
    }
    made.run({"config", "filter.harm.required", "true"});
    made.write("a.dat", "2\n");
    made.write("a.dot", "2\n");
    // Nor filters set for a single run, as by git -c.
    const std::string setting = "'filter.harm.clean=" + harm + "' 'filter.harm.process=" + harm + "'";
    setenv("GIT_CONFIG_PARAMETERS", setting.c_str(), 1); // NOLINT(concurrency-mt-unsafe): the tests have one thread
    const Changes changes = find_changes(made.path(), base);
    unsetenv("GIT_CONFIG_PARAMETERS"); // NOLINT(concurrency-mt-unsafe)
    CHECK(changes.list.size() == 2);
    CHECK(!std::filesystem::exists(made / "harm"));
    CHECK(rebuilt(made, changes).at("a.dat") == "file 2\n");
}

TEST_CASE("settings of a user change nothing in the patches") {
    const MadeRepository made;
    const std::string base = fill(made);
    adapt(made);
    const std::vector<std::string> patches = patches_of(find_changes(made.path(), base));
    for (const auto &[name, value] : std::vector<std::pair<std::string, std::string>>{{"diff.noprefix", "true"},
                                                                                      {"diff.mnemonicPrefix", "true"},
                                                                                      {"diff.renames", "false"},
                                                                                      {"diff.context", "9"},
                                                                                      {"diff.algorithm", "patience"},
                                                                                      {"diff.indentHeuristic", "false"},
                                                                                      {"diff.relative", "true"},
                                                                                      {"diff.submodule", "log"},
                                                                                      {"diff.renameLimit", "1"},
                                                                                      {"color.ui", "always"},
                                                                                      {"core.abbrev", "5"},
                                                                                      {"core.quotePath", "false"},
                                                                                      {"core.autocrlf", "input"},
                                                                                      {"apply.whitespace", "fix"}}) {
        made.run({"config", name, value});
    }
    std::filesystem::create_directories(made / ".git/info");
    made.write(".git/info/attributes", "* -diff -text\n");
    CHECK(patches_of(find_changes(made.path(), base)) == patches);
    made.write("../attributes", "* -diff -text\n");
    made.run({"config", "core.attributesFile", (made / "../attributes").string()});
    CHECK(patches_of(find_changes(made.path(), base)) == patches);
}

TEST_CASE("what is too large is named before it is read") {
    const MadeRepository made;
    made.write("kept.bin", bytes(5000));
    made.write("gone.bin", bytes(5000));
    made.write("small.txt", "1\n");
    const std::string base = made.commit();
    const Limits limits{4096, 1 << 20};
    made.write("small.txt", "2\n");
    made.write("kept.bin", bytes(5000)); // touched, but unchanged
    CHECK(find_changes(made.path(), base, {false, {}, limits}).list.size() == 1);
    made.write("new.bin", "");
    std::filesystem::resize_file(made / "new.bin", uintmax_t{1} << 41); // 2 TiB without a block on the disk
    CHECK_THROWS_WITH_AS(find_changes(made.path(), base),
                         doctest::Contains("/new.bin: it has 2.0 TiB, but a package carries files of at most 1.0 GiB"),
                         cli::Failure);
    made.write(".gitignore", "new.bin\n");
    CHECK(find_changes(made.path(), base, {false, {}, limits}).list.size() == 2);
    made.remove("gone.bin"); // its patch would contain all of it
    CHECK_THROWS_WITH_AS(find_changes(made.path(), base, {false, {}, limits}),
                         doctest::Contains("gone.bin: it has 4.9 KiB, but a package carries files of at most 4.0 KiB"),
                         cli::Failure);
}

TEST_CASE("patches that are too large together are an error that names the largest files") {
    const MadeRepository made;
    made.write("a.txt", "1\n");
    const std::string base = made.commit();
    made.write("a.txt", "2\n");
    made.write("b.txt", lines(300));
    made.write("c.txt", lines(200));
    made.write("d.txt", lines(100));
    CHECK_THROWS_WITH_AS(find_changes(made.path(), base, {false, {}, {1 << 20, 2048}}),
                         "the patches have more than 2.0 KiB, the limit of a package; the largest files are "
                         "b.txt (2.5 KiB), c.txt (1.7 KiB), d.txt (790 bytes)",
                         cli::Failure);
}

TEST_CASE("a patch that does not fit is named with its file and line") {
    const MadeRepository made;
    const std::string base = fill(made);
    adapt(made);
    Changes changes = find_changes(made.path(), base);
    for (Change &change : changes.list) {
        if (const size_t at = change.patch.find("\n line 18\n"); change.path == "plain.py") {
            change.patch.replace(at, 10, "\n line xx\n");
        }
    }
    const Workshop workshop(objects_of(made.path()));
    CHECK_THROWS_WITH_AS(workshop.apply(base, changes.list), doctest::Contains("patch failed: plain.py:18"),
                         cli::Failure);
    CHECK(!workshop.has_commit(std::string(40, 'a')));
}

TEST_CASE("what is no top folder, no commit, or not finished is said") {
    const MadeRepository made;
    const std::string base = fill(made);
    CHECK_THROWS_WITH_AS(find_changes((made / "swap").string(), base),
                         doctest::Contains("is not the top folder of a repository's worktree, which is "),
                         cli::Failure);
    CHECK_THROWS_WITH_AS(find_changes(made.path(), "nothing"), doctest::Contains("no commit 'nothing'"), cli::Failure);
    CHECK_THROWS_WITH_AS(find_changes(made.path(), "--all"), doctest::Contains("no commit '--all'"), cli::Failure);
    made.run({"checkout", "--quiet", "-b", "other"});
    made.write("plain.py", "theirs\n");
    made.commit();
    made.run({"checkout", "--quiet", "-b", "ours", base});
    made.write("plain.py", "ours\n");
    made.commit();
    CHECK_THROWS(made.run({"merge", "--quiet", "other"}));
    CHECK_THROWS_WITH_AS(find_changes(made.path(), base), doctest::Contains("plain.py has conflicts"), cli::Failure);
}

TEST_CASE("repositories whose ids are of SHA-256, and folders with odd names") {
    const test::TemporaryDirectory directory;
    const std::string path = (directory.path() / "a:b \"c\"").string();
    std::filesystem::create_directory(path);
    git({path}, {"init", "--quiet", "--template=", "--object-format=sha256"});
    std::ofstream(path + "/a") << "1\n";
    const std::map<std::string, std::string> who = {{"GIT_AUTHOR_NAME", "A"},
                                                    {"GIT_AUTHOR_EMAIL", "a@example.com"},
                                                    {"GIT_COMMITTER_NAME", "A"},
                                                    {"GIT_COMMITTER_EMAIL", "a@example.com"}};
    git({path, who}, {"add", "a"});
    git({path, who}, {"commit", "--quiet", "--message=a"});
    std::ofstream(path + "/a") << "2\n";
    const Changes changes = find_changes(path, "HEAD");
    CHECK(changes.commit.size() == 64);
    const Workshop workshop(objects_of(path));
    CHECK(workshop.apply(changes.commit, {changes.list.at(0)}) == changes.tree);
}

TEST_CASE("a list of changes that says other than the patches make is refused") {
    const MadeRepository made;
    made.write("a.txt", "one\n");
    made.write("b.txt", "1\n2\n3\n4\n");
    const std::string base = made.commit();
    made.write("a.txt", "two\n");
    std::filesystem::rename(made / "b.txt", made / "c.txt");
    const Changes changes = find_changes(made.path(), base);
    const auto refused = [&](const Changes &listed) {
        try {
            adapt({"framework", "", "sha1", listed}, {"framework", made.path(), ""});
        } catch (const cli::Failure &failure) {
            CHECK(failure.code == exit_not_trusted);
            return std::string(failure.what());
        }
        return std::string();
    };
    const std::string message = "framework: the package's list of changes differs from its patches";
    CHECK(refused(changes) == "");
    REQUIRE(changes.list.size() == 2);
    Changes added = changes; // although the file existed
    added.list[0].status = 'A';
    added.list[0].old_mode = 0;
    added.list[0].old_blob = std::string(40, '0');
    CHECK(refused(added) == message);
    Changes other = changes; // with another blob than the file had
    other.list[0].old_blob = other.list[0].blob;
    CHECK(refused(other) == message);
    Changes fewer = changes;
    fewer.list[0].patch += fewer.list[1].patch;
    fewer.list.pop_back();
    CHECK(refused(fewer) == message);
    Changes elsewhere = changes;
    elsewhere.list[1].old_path = "a.txt";
    CHECK(refused(elsewhere) == message);
}
