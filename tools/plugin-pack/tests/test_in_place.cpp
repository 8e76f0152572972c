#include "in_place.hpp"

#include <filesystem>

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "made_repository.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;

namespace {

using States = std::map<std::string, std::optional<FileState>>;
using Names = std::vector<std::string>;

std::optional<FileState> file(const std::string &content) {
    return FileState{FileState::Kind::file, content};
}
std::optional<FileState> link_to(const std::string &target) {
    return FileState{FileState::Kind::link, target};
}

void put(const MadeRepository &made, const States &states) {
    for (const auto &[path, state] : states) {
        if (state && state->kind == FileState::Kind::link) {
            std::filesystem::create_symlink(state->content, made / path);
        } else if (state) {
            made.write(path, state->content);
        }
    }
}

// Moves forward twice, and back twice.
void go_through(const States &before, const States &after) {
    const MadeRepository made;
    put(made, before);
    const Move move{made.path(), before, after};
    const auto original = files_in(made.path());
    std::map<std::string, std::string> changed;
    for (int i = 0; i < 2; ++i) {
        CHECK(paths_in_the_way(move) == Names{});
        carry_out(move);
        if (i == 0) {
            changed = files_in(made.path());
            CHECK(changed != original);
        }
    }
    CHECK(files_in(made.path()) == changed);
    for (int i = 0; i < 2; ++i) {
        CHECK(paths_in_the_way(reversed(move)) == Names{});
        carry_out(reversed(move));
    }
    CHECK(files_in(made.path()) == original);
}

} // namespace

TEST_CASE("files, links and folders take each other's places, and go back") {
    go_through({{"d/x", file("1")}, {"d/y", file("2")}, {"d", {}}}, {{"d/x", {}}, {"d/y", {}}, {"d", file("3")}});
    go_through({{"d/x", file("1")}, {"d", {}}}, {{"d/x", {}}, {"d", link_to("e")}});
    go_through({{"d", link_to(".")}, {"d/x", {}}}, {{"d", {}}, {"d/x", file("1")}});
    go_through({{"a", file("1")}, {"b", file("2")}}, {{"a", file("2")}, {"b", file("1")}});
    go_through({{"a", file("1")}, {"A", {}}}, {{"a", {}}, {"A", file("1")}});
    go_through({{"x/y/z", {}}, {"e", file("")}}, {{"x/y/z", file("1")}, {"e", {}}});
}

TEST_CASE("what the user has is in the way, wherever it stands") {
    const auto in_the_way = [](const States &there, const States &before, const States &after) {
        const MadeRepository made;
        put(made, there);
        return paths_in_the_way({made.path(), before, after});
    };
    CHECK(in_the_way({{"b/mine", file("m")}}, {{"b", {}}}, {{"b", file("1")}}) == Names{"b"});
    CHECK(in_the_way({{"n", file("mine")}}, {{"n/b", {}}}, {{"n/b", file("1")}}) == Names{"n/b"});
    CHECK(in_the_way({{"n", link_to("/tmp")}}, {{"n/b", {}}}, {{"n/b", file("1")}}) == Names{"n/b"});
    const States folder = {{"d/x", file("1")}, {"d", {}}}, flat = {{"d/x", {}}, {"d", file("2")}};
    CHECK(in_the_way({{"d/x", file("1")}, {"d/mine", file("m")}}, folder, flat) == Names{"d"});
    CHECK(in_the_way({{"d/x", file("edited")}}, folder, flat) == Names{"d", "d/x"});
    CHECK(in_the_way({}, {{"a", file("1")}}, {{"a", file("2")}}) == Names{"a"}); // removed
    CHECK(in_the_way({}, {{"a", file("1")}}, {{"a", {}}}) == Names{});           // already in the final state
}

TEST_CASE("an edit that comes while files are changed is not lost") {
    const MadeRepository made;
    const States before = {{"a", file("1")}, {"b", file("1")}, {"c", file("1")}};
    put(made, before);
    const Move move{made.path(), before, {{"a", file("2")}, {"b", file("2")}, {"c", {}}}};
    CHECK(paths_in_the_way(move) == Names{});
    made.write("b", "mine");
    CHECK_THROWS_WITH_AS(carry_out(move), doctest::Contains("it was changed in the meantime"), cli::Failure);
    CHECK(files_in(made.path()).at("b") == "file mine");
    made.write("b", "1");
    made.write("c", "mine");
    CHECK_THROWS_WITH_AS(carry_out(move), doctest::Contains("it was changed in the meantime"), cli::Failure);
    CHECK(files_in(made.path()).at("c") == "file mine");
}

TEST_CASE("one that was interrupted goes on, and leaves neither empty folders nor files of its own") {
    const States before = {{"d/x", file("1")}, {"d", {}}, {"n/m/new", {}}};
    const States after = {{"d/x", {}}, {"d", file("2")}, {"n/m/new", file("3")}};
    for (const bool back : {false, true}) {
        const MadeRepository made;
        std::filesystem::create_directories(made / "d"); // emptied, but not removed yet
        std::filesystem::create_directories(made / "n/m");
        made.write(".git/opdock-in-place", "half a fi");
        const Move there{made.path(), before, after}, move = back ? reversed(there) : there;
        CHECK(paths_in_the_way(move) == Names{});
        carry_out(move);
        const auto found = files_in(made.path());
        CHECK(found.size() == (back ? 1 : 2));
        CHECK(std::filesystem::exists(made / "n") != back);
        CHECK(!std::filesystem::exists(made / ".git/opdock-in-place"));
        CHECK(!std::filesystem::exists(made / ".git/opdock-in-place.lock"));
    }
}

TEST_CASE("who may read a file stays as it is") {
    const MadeRepository made;
    put(made, {{"a", file("1")}});
    namespace fs = std::filesystem;
    fs::permissions(made / "a", fs::perms::owner_read | fs::perms::owner_write);
    carry_out({made.path(), {{"a", file("1")}}, {{"a", FileState{FileState::Kind::executable, "2"}}}});
    CHECK((fs::status(made / "a").permissions() & fs::perms::all) == fs::perms::owner_all);
}
