#include "target.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using opdock::plugin_pack::Target;
namespace fs = std::filesystem;

namespace {

struct Place {
    test::TemporaryDirectory folder;
    std::string target = (folder.path() / "out").string();

    void replace(const std::string &content) const {
        Target one(target, "mark");
        std::ofstream(one.staging() + "/mark") << content;
        one.replace();
    }
    std::string content() const {
        std::ifstream stream(target + "/mark");
        std::string text;
        stream >> text;
        return text;
    }
    size_t entries() const {
        size_t count = 0;
        for ([[maybe_unused]] const auto &entry : fs::directory_iterator(folder.path())) {
            ++count;
        }
        return count;
    }
};

} // namespace

TEST_CASE("a folder is replaced as a whole, and nothing is left beside it") {
    const Place place;
    place.replace("1");
    place.replace("2");
    CHECK(place.content() == "2");
    CHECK(place.entries() == 1);
}

TEST_CASE("a folder of somebody else is not replaced, also when it comes meanwhile") {
    const Place place;
    place.folder.write("out/precious", "years of work");
    CHECK_THROWS_WITH_AS(place.replace("1"), doctest::Contains("plugin-pack did not make"), cli::Failure);
    fs::remove_all(place.target);
    {
        Target one(place.target, "mark");
        std::ofstream(one.staging() + "/mark") << "1";
        place.folder.write("out/precious", "years of work");
        CHECK_THROWS_WITH_AS(one.replace(), doctest::Contains("plugin-pack did not make"), cli::Failure);
    }
    CHECK(fs::exists(place.target + "/precious"));
    CHECK(place.entries() == 1);
}

TEST_CASE("what one that was killed left is removed, and nothing that only has such a name") {
    const Place place;
    place.folder.write(".out.opdock-abcdef/new/x", "half");
    place.folder.write(".out.opdock-abcdef/work/y", "half");
    place.folder.write(".out.opdock-backup/precious", "mine");
    place.folder.write(".out.opdock-a-file", "mine");
    place.replace("1");
    CHECK(!fs::exists(place.folder.path() / ".out.opdock-abcdef"));
    CHECK(fs::exists(place.folder.path() / ".out.opdock-backup/precious"));
    CHECK(fs::exists(place.folder.path() / ".out.opdock-a-file"));
}

TEST_CASE("two at once: the second is told") {
    const Place place;
    const Target one(place.target, "mark");
    CHECK_THROWS_WITH_AS(place.replace("2"), doctest::Contains("another plugin-pack is working on it"), cli::Failure);
}
