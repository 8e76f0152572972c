#include "trust/trusted_keys.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "signer.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::Signer;
using opdock::test::TemporaryDirectory;

namespace {

TrustedKeys read(const std::vector<std::string> &folders) {
    PathRules rules;
    return read_trusted_keys(folders, rules);
}

} // namespace

TEST_CASE("keys are read from the system's folder, then from the user's") {
    CHECK(trust_folders(make_environment("PLUGIN_", {{"XDG_CONFIG_HOME", "/home/ann/conf"}}, false)) ==
          std::vector<std::string>{"/etc/opdock/trust.d", "/home/ann/conf/opdock/trust.d"});
    CHECK(trust_folders(make_environment("PLUGIN_", {{"HOME", "/home/ann"}}, false), "/sys") ==
          std::vector<std::string>{"/sys", "/home/ann/.config/opdock/trust.d"});
    CHECK(trust_folders(make_environment("PLUGIN_", {}, false), "/sys") == std::vector<std::string>{"/sys"});
}

TEST_CASE("a process with raised privileges trusts no key of the user") {
    const RawEnvironment raw = {{"HOME", "/home/ann"}, {"XDG_CONFIG_HOME", "/home/ann/conf"}};
    CHECK(trust_folders(make_environment("PLUGIN_", raw, true), "/sys") == std::vector<std::string>{"/sys"});
}

TEST_CASE("only *.pub files count, by name; a folder need not exist") {
    const TemporaryDirectory directory;
    directory.write("b.pub", print(Signer("b").key()));
    directory.write("a.pub", print(Signer("a").key()));
    directory.write(".hidden.pub", print(Signer("hidden").key()));
    directory.write("c.key", "secret");
    const TrustedKeys keys = read({"/nonexistent", directory.path().string()});
    REQUIRE(keys.keys.size() == 2);
    CHECK(keys.keys[0].key.name == "a");
    CHECK(keys.keys[1].path == (directory.path() / "b.pub").string());
    CHECK(keys.warnings.empty());
}

TEST_CASE("a key whose name ends a line is not used, and the warning is one line") {
    const TemporaryDirectory directory;
    directory.write("a\nb.pub", print(Signer("a").key()));
    const TrustedKeys keys = read({directory.path().string()});
    CHECK(keys.keys.empty());
    REQUIRE(keys.warnings.size() == 1);
    CHECK(keys.warnings[0] ==
          "The key 'a\\x0ab.pub' in '" + directory.path().string() + "' is not used: its name contains a line break");
}

TEST_CASE("a folder that cannot be read is a warning; one that is a file is as good as none") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "").string();
    CHECK(read({file}).warnings.empty());
    const std::string name(300, 'x'); // longer than a folder's name may be
    const TrustedKeys keys = read({directory.path().string() + "/" + name});
    REQUIRE(keys.warnings.size() == 1);
    CHECK(keys.warnings[0] == "The folder of trusted keys '" + directory.path().string() + "/" + name +
                                  "' is not used: File name too long");
}

TEST_CASE("a key that others may write to is not trusted, and neither is one in a folder of theirs") {
    const TemporaryDirectory directory;
    const std::string key = directory.write("keys/acme.pub", print(Signer("acme").key())).string();
    const std::string folder = (directory.path() / "keys").string();
    ::chmod(key.c_str(), 0666);
    const TrustedKeys by_file = read({folder});
    CHECK(by_file.keys.empty());
    REQUIRE(by_file.warnings.size() == 1);
    CHECK(by_file.warnings[0].starts_with("The key '" + key + "' is not used: everybody may write to the file '" + key +
                                          "' (mode 0666).\nRun `chmod o-w "));
    ::chmod(key.c_str(), 0644);
    ::chmod(folder.c_str(), 0777);
    CHECK(read({folder}).keys.empty());
    ::chmod(folder.c_str(), 0755);
    CHECK(read({folder}).keys.size() == 1);
}

TEST_CASE("a file that holds no key is a warning and costs no other key") {
    const TemporaryDirectory directory;
    directory.write("a.pub", "-----BEGIN PUBLIC KEY-----\n");
    directory.write("b.pub", print(Signer("b").key()));
    directory.write("c.pub", std::string(5000, '\n'));
    std::filesystem::create_directory(directory.path() / "d.pub");
    const TrustedKeys keys = read({directory.path().string()});
    CHECK(keys.keys.size() == 1);
    REQUIRE(keys.warnings.size() == 3);
    CHECK(keys.warnings[0].find("a.pub:1: expected 'opdock.public-key/1', found") != std::string::npos);
    CHECK(keys.warnings[1].find("the file is longer than 4096 bytes") != std::string::npos);
    CHECK(keys.warnings[2].find("expected a regular file") != std::string::npos);
}

TEST_CASE("of a folder a thousand keys are used, and those behind them are told") {
    const TemporaryDirectory directory;
    const std::string folder = directory.path().string();
    for (int i = 1000; i < 2000; ++i) {
        directory.write(std::to_string(i) + ".pub", ""); // contains no key
    }
    CHECK(read({folder}).warnings.size() == 1000);
    directory.write("2000.pub", "");
    const TrustedKeys keys = read({folder});
    REQUIRE(keys.warnings.size() == 1001);
    CHECK(keys.warnings.front() == "'" + folder + "' holds 1001 keys; those after the first 1000 are not used");
    CHECK(keys.warnings.back().find("1999.pub") != std::string::npos);
}
