#include "temporary_folder.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;
namespace fs = std::filesystem;

namespace {

// A private folder for temporary files.
class TemporaryPlace {
  public:
    TemporaryPlace() {
        setenv("TMPDIR", path().c_str(), 1);
    } // NOLINT(concurrency-mt-unsafe): the tests have one thread
    ~TemporaryPlace() {
        if (before_.empty()) {
            unsetenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
        } else {
            setenv("TMPDIR", before_.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
        }
    }
    TemporaryPlace(const TemporaryPlace &) = delete;
    TemporaryPlace &operator=(const TemporaryPlace &) = delete;

    std::string path() const { return directory_.path().string(); }
    fs::path operator/(const std::string &name) const { return directory_.path() / name; }
    void write(const std::string &name, const std::string &text) const { directory_.write(name, text); }
    size_t entries() const {
        size_t count = 0;
        for ([[maybe_unused]] const auto &entry : fs::directory_iterator(directory_.path())) {
            ++count;
        }
        return count;
    }

  private:
    std::string before_ =
        std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
    test::TemporaryDirectory directory_;
};

// Makes a folder with a file in it, and is killed.
void leave_one() {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const TemporaryFolder folder;
        fs::create_directory(folder / "half");
        static_cast<void>(raise(SIGKILL));
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
}

} // namespace

TEST_CASE("a temporary folder goes with its object") {
    const TemporaryPlace place;
    {
        const TemporaryFolder folder;
        CHECK(fs::is_empty(folder.path()));
        CHECK(place.entries() == 1);
    }
    CHECK(place.entries() == 0);
}

TEST_CASE("what killed processes left goes with the next folder, and what is in use stays") {
    const TemporaryPlace place;
    leave_one();
    const TemporaryFolder in_use;
    CHECK(place.entries() == 1);
    leave_one();
    fs::create_directory(place / ".opdock-pack-abcdef"); // from a process that was killed early
    CHECK(place.entries() == 3);
    remove_abandoned_folders(place.path());
    CHECK(place.entries() == 1);
    CHECK(fs::exists(in_use.path()));
}

TEST_CASE("what only looks like a temporary folder stays") {
    const TemporaryPlace place;
    place.write(".opdock-pack-backup/precious", "mine"); // it has no lock
    place.write(".opdock-pack-too-long/lock", "");       // the name has another form
    place.write(".opdock-pack-a_file", "mine");          // not a folder
    place.write("elsewhere/lock", "");
    fs::create_directory_symlink(place / "elsewhere", place / ".opdock-pack-a_link");
    fs::create_directory(place / ".opdock-pack-folder");
    fs::create_symlink(place / "elsewhere/lock", place / ".opdock-pack-folder/lock"); // its lock is another folder's
    { const TemporaryFolder folder; }
    CHECK(place.entries() == 6);
    CHECK(fs::exists(place / ".opdock-pack-backup/precious"));
    CHECK(fs::exists(place / "elsewhere/lock"));
}

TEST_CASE("a folder for temporary files that is not there is said") {
    const TemporaryPlace place;
    setenv("TMPDIR", (place / "absent").c_str(), 1); // NOLINT(concurrency-mt-unsafe)
    CHECK_THROWS_WITH_AS(TemporaryFolder(), doctest::Contains("/absent: there is no such folder for temporary files"),
                         cli::Failure);
}
