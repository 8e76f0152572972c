#include "probe/scan_cache.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include <SQLiteCpp/SQLiteCpp.h>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/database.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::content_of;
using opdock::test::Lines;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

// A folder for the cache, and one for plugins that a test may change.
struct Installed {
    TemporaryDirectory directory;
    std::filesystem::path file = directory.path() / "cache" / "opdock" / "scans.sqlite";

    std::filesystem::path plugin(const std::string &fixture, const std::string &name = "libacme.so") const {
        const std::filesystem::path path = directory.path() / name;
        std::filesystem::remove(path);
        std::filesystem::copy_file(fixtures / fixture, path);
        return path;
    }
    MadeHost host(const std::filesystem::path &module, RawEnvironment environment = {}, bool rescan = false) const {
        environment.emplace("XDG_CACHE_HOME", (directory.path() / "cache").string());
        environment.emplace("PLUGIN_LOG_LEVEL", "DEBUG");
        return MadeHost(environment, "/nonexistent", {module.string()}, {}, {}, rescan);
    }
};

std::string status(MadeHost &host) {
    const nlohmann::json plugin = host->describe()["plugins"][0];
    return plugin["status"].get<std::string>() + " " + plugin["code"].get<std::string>();
}

// Counts the trials of a plugin: the fixture writes one byte each time it is registered.
class Tries {
  public:
    explicit Tries(const std::filesystem::path &file) : file_(file) {
        std::ofstream(file_).flush();
        setenv("OPDOCK_FIXTURE_COUNTER", file_.c_str(), 1);
    }
    ~Tries() { unsetenv("OPDOCK_FIXTURE_COUNTER"); }
    Tries(const Tries &) = delete;
    Tries &operator=(const Tries &) = delete;
    std::uintmax_t count() const { return std::filesystem::file_size(file_); }

  private:
    std::filesystem::path file_;
};

Scan made_scan(int number) {
    Scan scan;
    scan.identity = {1, static_cast<std::uint64_t>(number), 3, 4, 5};
    scan.build_id = "abc";
    scan.rejection = Rejection{RejectCode::probe_died, "", "message " + std::to_string(number)};
    return scan;
}

Log quiet() {
    return Log([](void *, std::int32_t, const char *) {}, nullptr);
}

} // namespace

TEST_CASE("a plugin that was tried is known to the next host without being tried again") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    {
        auto first = place.host(plugin);
        CHECK(tries.count() == 1);
    }
    auto second = place.host(plugin);
    CHECK(tries.count() == 1);
    CHECK(status(second) == "loaded ");
    CHECK(second->find_op("badco.next") != nullptr);
    std::ifstream maps("/proc/self/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), {});
    CHECK_FALSE(contains(text, plugin.string()));
}

TEST_CASE("a plugin that was changed is tried again") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    { auto host = place.host(plugin); }
    place.plugin("libcounts_tries.so"); // the same content in a new file
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
}

TEST_CASE("a plugin that killed its probe is not tried again until it changes or somebody asks") {
    const Installed place;
    const auto plugin = place.plugin("libdies_after_counting.so");
    const Tries tries(place.directory.path() / "tries");
    for (int i = 0; i < 3; ++i) {
        auto host = place.host(plugin);
        CHECK(status(host) == "rejected OPDOCK-E050");
        CHECK(tries.count() == 1);
    }
    {
        auto host = place.host(plugin, {}, true);
        CHECK(tries.count() == 2);
        CHECK(status(host) == "rejected OPDOCK-E050");
    }
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
    place.plugin("libgood.so");
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
}

TEST_CASE("a plugin whose probe was told to stop, as a job may be, is tried again by the next host, and then no more") {
    const Installed place;
    const auto plugin = place.plugin("libstops_after_counting.so");
    const Tries tries(place.directory.path() / "tries");
    for (const char *expected : {"rejected OPDOCK-E056", "rejected OPDOCK-E050", "rejected OPDOCK-E050"}) {
        auto host = place.host(plugin);
        CHECK(status(host) == expected);
    }
    CHECK(tries.count() == 2);
    auto host = place.host(plugin);
    CHECK(contains(host->describe()["plugins"][0]["reason"].get<std::string>(),
                   "2 times in a row the process that tried 'libacme.so' ended"));
}

TEST_CASE("a rejection that depends on the file alone is remembered, one that depends on the machine is not") {
    const Installed place;
    Scan scan = made_scan(1);
    for (const RejectCode code :
         {RejectCode::not_elf, RejectCode::no_note, RejectCode::abi_mismatch, RejectCode::probe_timed_out}) {
        scan.rejection->code = code;
        CHECK(may_keep(scan));
    }
    for (const RejectCode code :
         {RejectCode::library_missing, RejectCode::version_missing, RejectCode::cpu_feature_missing,
          RejectCode::unreadable, RejectCode::not_found, RejectCode::no_static_tls}) {
        scan.rejection->code = code;
        CHECK_FALSE(may_keep(scan));
    }
}

TEST_CASE("PLUGIN_SCAN_CACHE=off neither reads nor writes it") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    { auto host = place.host(plugin, {{"PLUGIN_SCAN_CACHE", "off"}}); }
    CHECK_FALSE(std::filesystem::exists(place.file));
    { auto host = place.host(plugin); }
    { auto host = place.host(plugin, {{"PLUGIN_SCAN_CACHE", "off"}}); }
    CHECK(tries.count() == 3);
    CHECK_THROWS_WITH_AS(place.host(plugin, {{"PLUGIN_SCAN_CACHE", "maybe"}}), doctest::Contains("PLUGIN_SCAN_CACHE"),
                         opdock::core::Error);
}

TEST_CASE("the cache is its user's alone") {
    const Installed place;
    { auto host = place.host(place.plugin("libgood.so")); }
    struct stat file = {};
    REQUIRE(stat(place.file.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    CHECK(chmod(place.file.c_str(), 0666) == 0);
    auto host = place.host(place.directory.path() / "libacme.so");
    CHECK(host.logged("other users may write to it") == 1);
    CHECK(status(host) == "loaded ");
}

TEST_CASE("a cache in a folder that others may write to is not believed: they could put a journal beside it") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    { auto host = place.host(plugin); }
    const std::string folder = place.file.parent_path().string();
    for (const mode_t mode : {0777, 0720}) {
        REQUIRE(chmod(folder.c_str(), mode) == 0);
        auto host = place.host(plugin);
        CHECK(host.logged("other users may write to the folder '" + folder + "'") == 1);
        CHECK(status(host) == "loaded ");
    }
    CHECK(tries.count() == 3);
    REQUIRE(chmod(folder.c_str(), 0755) == 0);
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 3);
    if (geteuid() == 0) { // only root may give folders away
        REQUIRE(chown(folder.c_str(), 4242, 0) == 0);
        auto host = place.host(plugin);
        CHECK(host.logged("the folder '" + folder + "' belongs to user 4242") == 1);
        CHECK(tries.count() == 4);
    }
}

TEST_CASE("a cache in whose place others could put another folder is not used") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    const std::string shared = (place.directory.path() / "cache").string();
    std::filesystem::create_directory(shared);
    REQUIRE(chmod(shared.c_str(), 0777) == 0);
    {
        auto host = place.host(plugin);
        CHECK(status(host) == "loaded ");
        CHECK(host.logged("another user could replace the folder '" + shared + "/opdock': everybody may write to") ==
              1);
    }
    CHECK_FALSE(std::filesystem::exists(shared + "/opdock"));
    REQUIRE(chmod(shared.c_str(), 01777) == 0); // now nobody may replace other users' files
    { auto host = place.host(plugin); }
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
}

TEST_CASE("a link of somebody else in place of the cache's folder is not followed, and nothing there is touched") {
    if (geteuid() != 0) {
        return; // only root may give links away
    }
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    const std::filesystem::path shared = place.directory.path() / "cache", mine = place.directory.path() / "mine";
    std::filesystem::create_directory(shared);
    REQUIRE(chmod(shared.c_str(), 01777) == 0);
    const std::filesystem::path note = place.directory.write("mine/journal/1-abcdef.journal", "");
    std::filesystem::permissions(mine, std::filesystem::perms::owner_all);
    std::filesystem::create_directory_symlink(mine, shared / "opdock");
    REQUIRE(lchown((shared / "opdock").c_str(), 4242, 4242) == 0);
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
    CHECK(host.logged("the link '" + (shared / "opdock").string() + "' belongs to user 4242") == 1);
    CHECK(std::filesystem::exists(note));
    CHECK_FALSE(std::filesystem::exists(mine / "scans.sqlite"));
}

TEST_CASE("what lies in the place of the cache's files and is no file is one warning, and nobody waits for it") {
    for (const char *suffix : {"", "-journal", "-wal", "-shm"}) {
        CAPTURE(suffix);
        const Installed place;
        const auto plugin = place.plugin("libgood.so");
        { auto host = place.host(plugin); }
        std::filesystem::remove(place.file.string() + suffix);
        REQUIRE(mkfifo((place.file.string() + suffix).c_str(), 0600) == 0);
        auto host = place.host(plugin);
        CHECK(status(host) == "loaded ");
        CHECK(host.logged("'" + place.file.string() + suffix + "' is not a regular file") == 1);
        CHECK(std::filesystem::is_fifo(place.file.string() + suffix));
    }
}

TEST_CASE("a hard link in the place of what lies beside the cache is not written through, and is one warning") {
    for (const char *suffix : {"-journal", "-wal", "-shm"}) {
        CAPTURE(suffix);
        const Installed place;
        const auto plugin = place.plugin("libgood.so");
        { auto host = place.host(plugin); }
        const std::filesystem::path notes = place.directory.write("notes", "mine");
        REQUIRE(chmod(notes.c_str(), 0600) == 0);
        std::filesystem::remove(place.file.string() + suffix);
        std::filesystem::create_hard_link(notes, place.file.string() + suffix);
        auto host = place.host(plugin, {}, true);
        CHECK(status(host) == "loaded ");
        CHECK(host.logged("'" + place.file.string() + suffix + "' has a second name (a hard link); remove that name") ==
              1);
        CHECK(content_of(notes) == "mine");
    }
}

TEST_CASE("a cache whose folder lies behind a link is used, and set aside when it is damaged") {
    const Installed place;
    const auto plugin = place.plugin("libcounts_tries.so");
    const Tries tries(place.directory.path() / "tries");
    std::filesystem::create_directories(place.directory.path() / "elsewhere");
    std::filesystem::create_directory_symlink("elsewhere", place.directory.path() / "cache");
    { auto host = place.host(plugin); }
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 1);
    std::ofstream(place.file) << std::string(8192, 'x');
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
    CHECK(std::filesystem::exists(place.file.string() + ".damaged"));
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
}

TEST_CASE("what a row says comes back as it was") {
    Scan scan = made_scan(7);
    scan.note = Note{{0, 1}, {0, 1}, "acme", "1.0", "acme", {"cpu", "cuda"}, {"avx2"}};
    scan.weaknesses = {"one", "two"};
    scan.remarks = {"three"};
    scan.libraries = {"libacme.so", {"libm.so.6", "libacme_rt.so"}, std::nullopt, ""};
    const std::optional<Scan> back = decode_scan(encode_scan(scan), "/x/libacme.so");
    REQUIRE(back);
    CHECK(back->identity == scan.identity);
    CHECK(back->build_id == "abc");
    CHECK(back->note->devices == scan.note->devices);
    CHECK(back->note->cpu_features == scan.note->cpu_features);
    CHECK(back->weaknesses == scan.weaknesses);
    CHECK(back->remarks == scan.remarks);
    CHECK(back->libraries == scan.libraries);
    CHECK(back->rejection->message == "message 7");
    CHECK(back->rejection->path == "/x/libacme.so");
}

TEST_CASE("a row has first calls of 128 implementations, and one that says that it has more is ignored") {
    Scan scan;
    scan.identity = {1, 2, 3, 4, 5};
    scan.deaths = 1;
    scan.interruptions = 2;
    for (std::uint32_t i = 0; i < most_call_deaths; ++i) {
        scan.call_deaths.push_back({"gelu", "vendor.acme" + std::to_string(i), i + 1});
    }
    const std::optional<Scan> back = decode_scan(encode_scan(scan), "/x/libacme.so");
    REQUIRE(back);
    CHECK(back->deaths == 1);
    CHECK(back->interruptions == 2);
    CHECK_FALSE(back->note.has_value());
    CHECK_FALSE(back->rejection.has_value());
    CHECK(back->transcript == nullptr);
    CHECK_FALSE(was_looked_at(*back));
    REQUIRE(back->call_deaths.size() == 128);
    CHECK(back->call_deaths[127].impl_id == "vendor.acme127");
    CHECK(back->call_deaths[127].op == "gelu");
    CHECK(back->call_deaths[127].count == 128);
    scan.call_deaths.push_back({"gelu", "vendor.other", 1});
    CHECK_FALSE(decode_scan(encode_scan(scan), "/x/libacme.so").has_value());
}

TEST_CASE("search paths of libraries come back as they were, empty ones told from none") {
    for (const std::optional<std::string> &rpath :
         {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("/a")}) {
        for (const std::optional<std::string> &runpath :
             {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("/b")}) {
            Scan scan = made_scan(1);
            scan.libraries = {"", {}, rpath, runpath};
            const std::optional<Scan> back = decode_scan(encode_scan(scan), "/x");
            REQUIRE(back);
            CHECK((back->libraries.rpath == rpath));
            CHECK((back->libraries.runpath == runpath));
        }
    }
}

TEST_CASE("a row that breaks off, or with any byte changed, is read or ignored") {
    Scan scan = made_scan(7);
    scan.note = Note{{0, 1}, {0, 1}, "acme", "1.0", "acme", {"cpu"}, {}};
    const std::vector<std::byte> whole = encode_scan(scan);
    for (size_t size = 0; size < whole.size(); ++size) {
        CHECK_FALSE(decode_scan(std::span(whole).first(size), "/x").has_value());
    }
    const unsigned seed = 20261121;
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 4000; ++i) {
        std::vector<std::byte> changed = whole;
        changed[random() % changed.size()] = static_cast<std::byte>(random() % 256);
        (void)decode_scan(changed, "/x");
    }
}

TEST_CASE("a row that keeps a registration of a plugin without a note is ignored") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    std::optional<Scan> scan = ScanCache(place.file.parent_path(), quiet()).find_any(plugin);
    REQUIRE(scan);
    REQUIRE(scan->transcript != nullptr);
    CHECK(decode_scan(encode_scan(*scan), plugin));
    scan->note.reset();
    CHECK_FALSE(decode_scan(encode_scan(*scan), plugin));
}

TEST_CASE("a cache that is damaged, or is none, is set aside and made anew") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    for (const std::string &content :
         {std::string("this is no database, and it is longer than a header of one: ") + std::string(200, 'x'),
          std::string("SQLite format 3\0 and then nothing of the kind", 45), std::string()}) {
        CAPTURE(content);
        std::filesystem::remove_all(place.file.parent_path());
        std::filesystem::create_directories(place.file.parent_path());
        std::ofstream(place.file) << content;
        chmod(place.file.c_str(), 0600);
        {
            auto host = place.host(plugin);
            CHECK(status(host) == "loaded ");
            CHECK(host.logged("warning] The cache of scanned plugins '" + place.file.string() + "' was damaged") ==
                  (content.empty() ? 0 : 1));
            CHECK(host.logged("is '" + place.file.string() + ".damaged' now") == (content.empty() ? 0 : 1));
            CHECK(host.logged("is not used") == 0);
        }
        CHECK(std::filesystem::exists(place.file.string() + ".damaged") == !content.empty());
        Log log = quiet();
        CHECK(ScanCache(place.file.parent_path().string(), log).find_any(plugin.string()).has_value());
    }
}

namespace {

// A table with six levels of pages, where every child of a page is the next page: 8 KiB a page, and more rows than
// anybody can count. The format is described at https://sqlite.org/fileformat.html.
std::string endless_pages(std::string file) {
    constexpr std::size_t page_bytes = 4096;
    const auto put = [](std::string &into, std::size_t at, std::uint32_t value, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            into.at(at + i) = static_cast<char>(value >> 8 * (bytes - 1 - i));
        }
    };
    const std::string record("\x05\x0f\x0f\x0c\x08"
                             "ab",
                             7); // path "a", host "b", an empty blob, sum 0
    REQUIRE(file.size() == 2 * page_bytes);
    file.resize(page_bytes); // the first page holds the schema
    constexpr std::uint32_t levels = 6;
    for (std::uint32_t level = 0; level < levels; ++level) {
        const std::uint32_t child = level + 1 < levels ? level + 3 : 0;
        const std::size_t header = child != 0 ? 12 : 8;
        std::string page(page_bytes, '\0');
        std::size_t end = page_bytes;
        std::uint32_t cells = 0;
        const std::size_t cell_bytes = (child != 0 ? 4 : 0) + 1 + record.size();
        while (end - cell_bytes >= header + std::size_t{2} * (cells + 1)) {
            end -= cell_bytes;
            std::string cell(cell_bytes - record.size(), '\0');
            if (child != 0) {
                put(cell, 0, child, 4);
            }
            cell.back() = static_cast<char>(record.size());
            page.replace(end, cell_bytes, cell + record);
            put(page, header + std::size_t{2} * cells, static_cast<std::uint32_t>(end), 2);
            ++cells;
        }
        page[0] = child != 0 ? 2 : 10; // an index page: interior or leaf
        put(page, 3, cells, 2);
        put(page, 5, static_cast<std::uint32_t>(end), 2);
        if (child != 0) {
            put(page, 8, child, 4);
        }
        file += page;
    }
    put(file, 28, levels + 1, 4); // number of pages in the file
    return file;
}

} // namespace

TEST_CASE("a cache whose pages refer to one another over and over is set aside") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    {
        SQLite::Database database(place.file.string(), SQLite::OPEN_READWRITE);
        database.exec("DELETE FROM scans");
        database.exec("PRAGMA journal_mode = DELETE");
        database.exec("VACUUM");
    }
    const std::string sound = content_of(place.file);
    std::ofstream(place.file, std::ios::binary) << endless_pages(sound);
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
    CHECK(host.logged("was damaged or from another version of opdock") == 1);
    CHECK(ScanCache(place.file.parent_path(), quiet()).find_any(plugin).has_value());
}

TEST_CASE("a journal beside the cache that names another file has that file deleted by nobody") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    const std::string precious = (place.file.parent_path() / "precious").string();
    std::ofstream(precious) << "mine";
    const std::string journal = place.file.string() + "-journal";
    const std::string magic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
    std::string bytes = magic;
    bytes.resize(512);
    bytes += std::string(4, '\0') + precious + std::string(3, '\0') + static_cast<char>(precious.size()) +
             std::string(4, '\0') + magic;
    std::ofstream(journal, std::ios::binary) << bytes;
    std::filesystem::permissions(journal, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
    CHECK(host.logged("'" + journal +
                      "' is not a file of opdock, and names a file that SQLite would delete; remove it") == 1);
    CHECK(std::filesystem::exists(precious));
    CHECK(std::filesystem::exists(journal));
}

TEST_CASE("a cache whose tables are others than its own is set aside without being read, which might have no end") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    const std::string endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)";
    for (const std::string &change :
         {"ALTER TABLE scans RENAME TO old; CREATE VIEW scans AS " + endless +
              " SELECT old.path, old.host, old.scan, old.check_sum FROM r, old WHERE r.n < 0",
          "CREATE TRIGGER t BEFORE INSERT ON scans BEGIN INSERT INTO scans " + endless +
              " SELECT n, n, n, n FROM r; END",
          std::string("ALTER TABLE scans ADD COLUMN more AS (zeroblob(1000000000))")}) {
        CAPTURE(change);
        {
            SQLite::Database database(place.file.string(), SQLite::OPEN_READWRITE);
            database.exec(change);
        }
        auto host = place.host(plugin);
        CHECK(status(host) == "loaded ");
        CHECK(host.logged("was damaged or from another version of opdock") == 1);
        CHECK(ScanCache(place.file.parent_path(), quiet()).find_any(plugin).has_value());
    }
}

TEST_CASE("a cache that is set aside takes the place of none that was set aside before") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    std::filesystem::create_directories(place.file.parent_path());
    for (int number = 1; number <= 11; ++number) {
        std::ofstream(place.file) << "damaged for the " << number << ". time" << std::string(200, 'x');
        chmod(place.file.c_str(), 0600);
        auto host = place.host(plugin);
    }
    const auto begins = [&](const std::string &suffix, const std::string &text) {
        return content_of(place.file.string() + suffix).starts_with(text);
    };
    CHECK(begins(".damaged", "damaged for the 1. time"));
    CHECK(begins(".damaged-2", "damaged for the 2. time"));
    CHECK(begins(".damaged-8", "damaged for the 8. time"));
    CHECK(begins(".damaged-9", "damaged for the 11. time")); // they do not fill the disk
    CHECK_FALSE(std::filesystem::exists(place.file.string() + ".damaged-10"));
}

TEST_CASE("hosts of two versions that share a cache take nothing away from each other") {
    const Installed place;
    const auto plugin = place.plugin("libdies_after_counting.so");
    const Tries tries(place.directory.path() / "tries");
    { auto host = place.host(plugin); }
    // As if another version had written it: neither version can use the other's rows.
    SQLite::Database(place.file.string(), SQLite::OPEN_READWRITE).exec("UPDATE scans SET host = 'newer'");
    { auto host = place.host(plugin); }
    CHECK(tries.count() == 2);
    const SQLite::Database database(place.file.string(), SQLite::OPEN_READONLY);
    SQLite::Statement rows(database, "SELECT count(*), count(DISTINCT host), min(path), max(path) FROM scans");
    REQUIRE(rows.executeStep());
    CHECK(rows.getColumn(0).getInt() == 2);
    CHECK(rows.getColumn(1).getInt() == 2);
    CHECK(rows.getColumn(2).getString() == plugin.string());
    CHECK(rows.getColumn(3).getString() == plugin.string());
}

TEST_CASE("a cache of another version, or with pages damaged, costs no plugin") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    SUBCASE("another version") {
        SQLite::Database(place.file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
    }
    SUBCASE("damaged pages") {
        SQLite::Database(place.file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA wal_checkpoint(TRUNCATE)");
        std::fstream file(place.file, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096);
        for (int i = 0; i < 4096; ++i) {
            file.put('\xff');
        }
    }
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
    { auto again = place.host(plugin); }
    Log log = quiet();
    CHECK(ScanCache(place.file.parent_path().string(), log).find_any(plugin.string()).has_value());
}

TEST_CASE("a cache of another version that cannot be set aside is one warning, and not tried for ever") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    { auto host = place.host(plugin); }
    SQLite::Database(place.file.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
    for (int number = 1; number <= 9; ++number) {
        const std::string suffix = number == 1 ? "" : "-" + std::to_string(number);
        std::filesystem::create_directories(place.file.string() + ".damaged" + suffix + "/folder");
    }
    auto host = place.host(plugin);
    CHECK(status(host) == "loaded ");
    CHECK(host.logged("The cache of scanned plugins is not used") == 1);
    CHECK(host.logged("cannot be read, or is damaged and cannot be set aside") == 1);
    CHECK(host.logged("was damaged or from another version") == 0);
}

TEST_CASE("a cache that cannot be written is one warning, and calls are served") {
    const Installed place;
    const auto plugin = place.plugin("libgood.so");
    SUBCASE("its folder is a file") {
        place.directory.write("cache", "");
    }
    SUBCASE("its folder is a link to itself") {
        std::filesystem::create_symlink("cache", place.directory.path() / "cache");
    }
#if !defined(__SANITIZE_THREAD__) // its run-time library writes a file in the probe
    SUBCASE("no file may grow") {
        std::filesystem::create_directories(place.file.parent_path());
    }
#endif
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    std::error_code unreachable;
    if (std::filesystem::is_directory(place.file.parent_path(), unreachable)) {
        const rlimit none = {0, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &none);
    }
    {
        auto host = place.host(plugin);
        setrlimit(RLIMIT_FSIZE, &before);
        signal(SIGXFSZ, handler);
        CHECK(host.logged("The cache of scanned plugins is not used") == 1);
        CHECK(status(host) == "loaded ");
        float in[] = {1, 2};
        float out[] = {0, 0};
        const opdock::Tensor a(in, opdock::f32, {2});
        const opdock::Tensor b(out, opdock::f32, {2});
        CHECK(host.op("fixture.add").try_call({a, a}, {b}) == OPDOCK_OK);
    }
}

TEST_CASE("a cache without a folder keeps nothing, and neither does one that is told nothing worth keeping") {
    const Installed place;
    const std::string plugin = place.plugin("libgood.so").string();
    { auto host = place.host(plugin); }
    const Log log = quiet();
    const std::optional<Scan> scan = ScanCache(place.file.parent_path().string(), log).find_any(plugin);
    REQUIRE(scan.has_value());
    ScanCache without("", log);
    without.keep(plugin, *scan);
    CHECK_FALSE(without.find_any(plugin).has_value());
    without.save();
    ScanCache with((place.directory.path() / "other").string(), log);
    with.keep(plugin, *scan);
    CHECK(with.find_any(plugin).has_value());
    Scan other = *scan;
    other.identity.size += 1;
    CHECK(with.find(plugin, scan->identity).has_value());
    CHECK_FALSE(with.find(plugin, other.identity).has_value());
}

TEST_CASE("two processes that write at once lose nothing of each other") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    constexpr int writes = 60;
    pid_t children[2];
    for (int who = 0; who < 2; ++who) {
        children[who] = fork();
        if (children[who] == 0) {
            Log log = quiet();
            for (int i = 0; i < writes; ++i) {
                ScanCache cache(folder, log);
                cache.keep("/" + std::to_string(who) + "/" + std::to_string(i), made_scan(i));
                cache.save();
            }
            _exit(0);
        }
    }
    for (const pid_t child : children) {
        int ended = -1;
        REQUIRE(waitpid(child, &ended, 0) == child);
        CHECK(ended == 0);
    }
    Log log = quiet();
    const ScanCache cache(folder, log);
    for (int who = 0; who < 2; ++who) {
        for (int i = 0; i < writes; ++i) {
            CHECK(cache.find("/" + std::to_string(who) + "/" + std::to_string(i), made_scan(i).identity).has_value());
        }
    }
}

TEST_CASE("kill -9 while the cache is written loses nothing that was written before, and tears nothing") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    const unsigned seed = 20261121;
    CAPTURE(seed);
    std::mt19937 random(seed);
    int next = 0;
    for (int round = 0; round < 40; ++round) {
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            Log log = quiet();
            for (int i = next;; ++i) {
                ScanCache cache(folder, log);
                cache.keep("/" + std::to_string(i), made_scan(i));
                cache.save();
                const char done = 1;
                if (write(ends[1], &done, 1) != 1) {
                    _exit(1);
                }
            }
        }
        close(ends[1]);
        // Some writes are seen to complete; the next one is interrupted somewhere.
        const unsigned wanted = 1 + random() % 4;
        char done[8];
        unsigned written = 0;
        while (written < wanted) {
            const ssize_t got = read(ends[0], done, 1);
            REQUIRE(got == 1);
            ++written;
        }
        const auto spins = random() % 200'000;
        for (std::uint64_t i = 0; i < spins; ++i) {
            asm volatile(""); // busy for a while
        }
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        while (read(ends[0], done, 1) == 1) {
            ++written;
        }
        close(ends[0]);
        next += static_cast<int>(written);
        Log log = quiet();
        const ScanCache cache(folder, log);
        for (int i = 0; i < next; ++i) {
            const auto scan = cache.find_any("/" + std::to_string(i));
            REQUIRE(scan.has_value());
            CHECK(scan->rejection->message == "message " + std::to_string(i));
        }
    }
}

TEST_CASE("PLUGIN_SCAN_CACHE=off is no reason for a warning, also when all is tried again") {
    const Installed place;
    auto host = place.host(place.plugin("libcounts_tries.so"), {{"PLUGIN_SCAN_CACHE", "off"}}, true);
    CHECK(status(host) == "loaded ");
    CHECK(host.logged("WARNING") == 0);
}

TEST_CASE("a plugin that is known is tried again when a library that it uses is gone, or was changed") {
    const Installed installed;
    const std::filesystem::path plugin = installed.plugin("libneeds_library_beside.so");
    const auto install_library = [&](const char *name) {
        std::filesystem::copy_file(fixtures / "libraries" / name, installed.directory.path() / name,
                                   std::filesystem::copy_options::overwrite_existing);
    };
    install_library("libneeds_another.so");
    install_library("libdependency.so");
    const auto open = [&] {
        MadeHost host = installed.host(plugin);
        return status(host) + (host.logged("' is tried again: the library '") != 0 ? ", tried again" : "");
    };
    CHECK(open() == "loaded ");
    CHECK(open() == "loaded ");
    std::filesystem::remove(installed.directory.path() / "libdependency.so"); // which the plugin needs through another
    CHECK(open() == "rejected OPDOCK-E020, tried again");
    CHECK(open() == "rejected OPDOCK-E020, tried again");
    install_library("libdependency.so");
    CHECK(open() == "loaded , tried again");
    CHECK(open() == "loaded ");
    std::filesystem::last_write_time(installed.directory.path() / "libneeds_another.so",
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    CHECK(open() == "loaded , tried again");
    CHECK(open() == "loaded ");
}

TEST_CASE("libraries are looked at anew for each plugin that the program loads late") {
    const Installed installed;
    const std::filesystem::path first = installed.plugin("libneeds_library_beside.so");
    const std::filesystem::path late = installed.plugin("libneeds_library_after_colon.so", "liblate.so");
    for (const char *name : {"libneeds_another.so", "libdependency.so"}) {
        std::filesystem::copy_file(fixtures / "libraries" / name, installed.directory.path() / name);
    }
    {
        MadeHost host = installed.host(first);
        host->load(late.string());
    }
    MadeHost host = installed.host(first);
    std::filesystem::last_write_time(installed.directory.path() / "libdependency.so",
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    CHECK(host.logged("' is tried again: the library '") == 0);
    host->load(late.string());
    CHECK(host.logged("' is tried again: the library '") == 1);
}
