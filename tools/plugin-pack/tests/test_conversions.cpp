// Files whose bytes differ from those that a checkout writes, though git takes both for the same.
#include <doctest/doctest.h>

#include "adapted.hpp"
#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "in_place.hpp"
#include "made_repository.hpp"
#include "rebuilt.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;

namespace {

std::string utf16(const std::string &text, bool is_big) {
    std::string bytes = is_big ? "\xfe\xff" : "\xff\xfe";
    for (const char c : text) {
        bytes += is_big ? std::string{'\0', c} : std::string{c, '\0'};
    }
    return bytes;
}

// As if written by a checkout: the index has their times.
void take_as_untouched(const MadeRepository &made) {
    run_git({made.path()}, {"update-index", "-q", "--really-refresh"});
}

} // namespace

TEST_CASE("line ends come back although git takes the file for untouched") {
    const MadeRepository made;
    made.write(".gitattributes", "*.auto text=auto\n*.crlf text eol=crlf\n*.lf text eol=lf\n");
    for (const char *name : {"a.auto", "a.crlf", "a.lf", "b.auto", "b.crlf", "b.lf", "c.auto", "c.crlf", "c.lf"}) {
        made.write(name, "one\ntwo\n");
    }
    const std::string base = made.commit();
    for (const char *end : {"auto", "crlf", "lf"}) {
        made.write(std::string("a.") + end, "one\r\ntwo\r\n");
        made.write(std::string("b.") + end, "one\r\ntwo\n");
    }
    take_as_untouched(made);
    const Changes changes = find_changes(made.path(), base);
    CHECK(changes.list.empty());
    CHECK(rebuilt(made, changes) == files_in(made.path()));
}

TEST_CASE("keywords and encodings come back although git takes the file for untouched") {
    const MadeRepository made;
    made.write(".gitattributes", "*.id ident\n*.utf16 text working-tree-encoding=UTF-16\n");
    made.write("a.id", "$Id$\n");
    made.write("b.id", "$Id$\n");
    made.write("a.utf16", utf16("one\ntwo\n", false));
    made.write("b.utf16", utf16("one\ntwo\n", true));
    const std::string base = made.commit();
    made.write("a.id", "$Id: mine $\n");
    take_as_untouched(made);
    const Changes changes = find_changes(made.path(), base);
    CHECK(changes.list.empty());
    CHECK(rebuilt(made, changes) == files_in(made.path()));
}

TEST_CASE("files come back as they are when their attributes are what was changed") {
    const std::string crlf = "one\r\ntwo\r\n", lf = "one\ntwo\n";
    for (const auto &attributes : std::vector<std::pair<std::string, std::string>>{
             {"", "* text eol=crlf\n"},
             {"* text eol=crlf\n", ""},
             {"*.txt text eol=crlf\n", "*.txt -text\n"},
             {"", "* ident\n"},
             {"* ident\n", ""},
             {"", "*.u working-tree-encoding=UTF-16\n"},
             {"", "* working-tree-encoding=UTF-16\n"},
             {"*.u working-tree-encoding=UTF-16\n", ""},
             {"", "* working-tree-encoding=no-such\n"},
             {"", "* filter=none\n"},
         }) {
        const std::string &before = attributes.first, &after = attributes.second;
        CAPTURE(before);
        CAPTURE(after);
        const MadeRepository made;
        made.write(".gitattributes", before);
        made.write("lf.txt", lf);
        made.write("crlf.txt", crlf);
        made.write("mixed.txt", lf + crlf);
        made.write("id.txt", "$Id: mine $\n");
        made.write("text.u", before.empty() ? lf : utf16(lf, true));
        const std::string base = made.commit();
        made.write(".gitattributes", after);
        take_as_untouched(made);
        made.write("new.txt", crlf + lf);
        const Changes changes = find_changes(made.path(), base);
        CHECK(rebuilt(made, changes) == files_in(made.path()));
    }
}

TEST_CASE("attributes that are not of the tree leave every byte as it is") {
    for (const std::string attributes :
         {"* text eol=crlf\n", "* ident\n", "* working-tree-encoding=UTF-16\n", "* text=auto\n"}) {
        for (const bool is_ignored : {false, true}) { // a file in the worktree but not in the tree, or the repository's
            CAPTURE(attributes);
            CAPTURE(is_ignored);
            const MadeRepository made;
            made.write("a.txt", "$Id: mine $\r\n");
            made.write("b.txt", "one\ntwo\n");
            made.write(".gitignore", ".gitattributes\n");
            const std::string base = made.commit();
            made.write(is_ignored ? ".gitattributes" : ".git/info/attributes", attributes);
            made.write("b.txt", "$Id: yours $\r\nthree\n");
            made.write("c.txt", "$Id: yours $\r\nthree\n");
            const Changes changes = find_changes(made.path(), base);
            auto expected = files_in(made.path());
            expected.erase(".gitattributes");
            CHECK(rebuilt(made, changes) == expected);
        }
    }
}

TEST_CASE("a file with a filter is carried as it stands, since filters are not run") {
    const MadeRepository made;
    made.run({"config", "filter.up.clean", "tr A-Z a-z"});
    made.run({"config", "filter.up.smudge", "tr a-z A-Z"});
    made.write(".gitattributes", "*.up filter=up\n");
    made.write("a.up", "TEXT\n");
    const std::string base = made.commit();
    take_as_untouched(made);
    const Changes changes = find_changes(made.path(), base);
    CHECK(rebuilt(made, changes) == files_in(made.path()));
    CHECK(changes.filtered == std::vector<std::string>{"a.up"}); // the vendor is told about it
}

TEST_CASE("of git's words the reason comes first, on a line of its own") {
    const MadeRepository made;
    made.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n");
    made.write("a.u", "one\n");
    // git prints a hint of several lines before it.
    CHECK_THROWS_WITH_AS(
        made.run({"hash-object", "-w", "a.u"}),
        ("git hash-object in " + made.path() + " failed: BOM is required in 'a.u' if encoded as UTF-16").c_str(),
        cli::Failure);
    CHECK_THROWS_WITH_AS(made.run({"rev-parse", "--verify", "absent"}),
                         ("git rev-parse in " + made.path() + " failed: Needed a single revision").c_str(),
                         cli::Failure);
}

TEST_CASE("with core.autocrlf files that were not touched are no changes, and come back as they are") {
    for (const std::string setting : {"true", "input"}) {
        for (const bool is_read_again : {false, true}) {
            CAPTURE(setting);
            CAPTURE(is_read_again);
            const MadeRepository made;
            made.write("lf.txt", "one\ntwo\n");
            made.write("crlf.txt", "one\r\ntwo\r\n");
            made.write("crlf.bin", std::string("\0\r\n", 3));
            made.write("edited.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
            const std::string base = made.commit();
            made.run({"config", "core.autocrlf", setting});
            made.write("lf.txt", "one\r\ntwo\r\n");
            if (is_read_again) {
                made.write("crlf.bin", std::string("\0\r\n", 3));
            }
            Changes changes = find_changes(made.path(), base);
            CHECK(changes.list.empty());
            CHECK(rebuilt(made, changes) == files_in(made.path()));

            made.write("edited.txt", "one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix\r\nseven\r\neight\r\nnine\r\n");
            changes = find_changes(made.path(), base);
            REQUIRE(changes.list.size() == 1); // a change of one line, not of all
            CHECK(changes.list[0].patch.find("\n-") == changes.list[0].patch.find("\n---"));
            CHECK(rebuilt(made, changes) == files_in(made.path()));
            made.run({"config", "core.autocrlf", "true"}); // a user's settings change nothing
            CHECK(rebuilt(made, changes) == files_in(made.path()));
            made.run({"config", "core.eol", "crlf"});
            CHECK(rebuilt(made, changes) == files_in(made.path()));
        }
    }
}

TEST_CASE("files that a merge changes keep the line ends that they had in the worktree") {
    const std::string lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    const MadeRepository made;
    for (const char *name : {"auto.txt", "moved.txt", "mixed.txt", "left.txt"}) {
        made.write(name, lines);
    }
    made.write("lf.bat", lines);
    made.write(".gitattributes", "*.bat text eol=crlf\n* text=auto\n");
    const std::string base = made.commit();
    made.write("auto.txt", "1\r\n2, adapted\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n");
    made.write("moved.txt", "1\r\n2, adapted\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n");
    made.write("mixed.txt", "1\r\n2, adapted\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n");
    made.write("left.txt", "1\r\n2, adapted\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n");
    made.write("lf.bat", "1\n2, adapted\n3\n4\n5\n6\n7\n8\n9\n");
    Backend backend{"fw", "", "sha1", find_changes(made.path(), base)};
    made.run({"checkout", "--quiet", "--force", base});
    for (const char *name : {"auto.txt", "moved.txt", "mixed.txt", "lf.bat"}) {
        made.write(name, lines + "10\n");
    }
    std::filesystem::rename(made / "moved.txt", made / "new.txt");
    made.commit();
    const Adapted adapted = adapt(backend, {"fw", made.path(), "HEAD"});
    CHECK(adapted.conflicts.empty());
    const auto files = rebuilt(made, adapted.backend.changes);
    const std::string crlf = "1\r\n2, adapted\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n10\r\n";
    CHECK(files.at("auto.txt") == "file " + crlf);
    CHECK(files.at("new.txt") == "file " + crlf);
    CHECK(files.at("mixed.txt") == "file " + crlf); // the most frequent line ends of the old file
    CHECK(files.at("left.txt") == "file 1\r\n2, adapted\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n");
    CHECK(files.at("lf.bat") == "file 1\n2, adapted\n3\n4\n5\n6\n7\n8\n9\n10\n");
}

TEST_CASE("content that git would not convert to what the tree has is refused, in a checkout too") {
    const MadeRepository made;
    made.write("a.txt", "one\ntwo\n");
    made.write("b.bin", std::string("\0\n", 2));
    made.link("link", "a.txt");
    const std::string base = made.commit();
    const Changes changes = find_changes(made.path(), base);
    const auto message_of = [](const auto &body) {
        try {
            body();
        } catch (const cli::Failure &failure) {
            CHECK(failure.code == exit_not_trusted);
            return std::string(failure.what());
        }
        return std::string();
    };
    const auto refused = [&](const Changes &bad) {
        std::string message = message_of([&] { rebuilt(made, bad); });
        CHECK(message_of([&] {
                  move_to_adapted(adapt({"framework", "", "sha1", bad}, {"framework", made.path(), ""}), made.path());
              }) == message);
        return message;
    };
    Changes bad = changes;
    bad.converted = {{"a.txt", "one\r\ntwo\n"}};
    CHECK(refused(bad) == "");
    bad.converted = {{"a.txt", "one\r\nthree\n"}};
    CHECK(refused(bad).find("\"a.txt\": its content in the package differs") != std::string::npos);
    bad.converted = {{"link", "one\n"}};
    CHECK(refused(bad).find("\"link\" is not a file of the tree") != std::string::npos);
    bad.converted.clear();
    bad.crlf = {"b.bin"};
    CHECK(refused(bad).find("\"b.bin\": its content in the package") != std::string::npos);
    bad.crlf = {"absent"};
    CHECK(refused(bad).find("\"absent\" is not a file of the tree") != std::string::npos);
}
