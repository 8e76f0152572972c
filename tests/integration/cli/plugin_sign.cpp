// plugin-sign as vendors and operators use it.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

std::string content(const fs::path &file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

mode_t mode_of(const fs::path &file) {
    struct stat status = {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    return status.st_mode & 07777u;
}

// A folder with a library, and the tool.
struct Vendor {
    TemporaryDirectory directory;
    Tool tool{PLUGIN_SIGN, {}};
    std::string library = path("libacme.so");

    Vendor() { fs::copy_file(fixture("good"), library); }

    std::string path(const std::string &name) const { return (directory.path() / name).string(); }
    std::string make_key(const std::string &name) const {
        REQUIRE(tool.run({"keygen", path(name), "--no-passphrase"}).code == 0);
        return path(name);
    }
    Finished sign(const std::string &key, const std::string &what) const {
        return tool.run({"sign", what, "--key", key + ".key"});
    }
    Finished verify(const std::string &key) const { return tool.run({"verify", library, "--pub", key + ".pub"}); }
    std::string passphrase(const std::string &text) const {
        const fs::path file = directory.write("passphrase", text);
        ::chmod(file.c_str(), 0600);
        return file.string();
    }
};

} // namespace

TEST_CASE("a key, a signature and its verification") {
    const Vendor vendor;
    const Finished keygen = vendor.tool.run(
        {"keygen", vendor.path("acme"), "--passphrase-file", vendor.passphrase("correct horse\nsecond line\n")});
    REQUIRE(keygen.code == 0);
    CHECK(contains(keygen.out, vendor.path("acme.key") + ": the secret key; keep it private\n"));
    CHECK(contains(keygen.out, vendor.path("acme.pub") + ": key 'acme' ("));
    CHECK(mode_of(vendor.path("acme.key")) == 0600);
    CHECK(mode_of(vendor.path("acme.pub")) == 0644);
    CHECK_FALSE(contains(content(vendor.path("acme.key")), "correct horse"));

    const std::vector<std::string> sign = {"sign", vendor.library, "--key", vendor.path("acme.key"),
                                           "--passphrase-file"};
    const auto with = [&](const std::string &passphrase) {
        std::vector<std::string> arguments = sign;
        arguments.push_back(vendor.passphrase(passphrase));
        return vendor.tool.run(arguments);
    };
    const Finished wrong = with("wrong");
    CHECK(wrong.code == 1);
    CHECK(contains(wrong.err, "the passphrase is wrong, or the file was changed"));
    CHECK_FALSE(fs::exists(vendor.library + ".sig"));
    const Finished right = with("correct horse");
    CHECK(right.code == 0);
    CHECK(contains(right.out, vendor.library + ".sig: signed with key 'acme' ("));
    CHECK(mode_of(vendor.library + ".sig") == 0644);

    const Finished verified = vendor.verify(vendor.path("acme"));
    CHECK(verified.code == 0);
    CHECK(contains(verified.out, vendor.library + ": valid, signed with key 'acme' ("));
    CHECK(contains(verified.out, " of " + vendor.path("acme.pub") + "\n"));
}

TEST_CASE("a passphrase may come through a pipe, and nobody waits for one that nobody writes to") {
    const Vendor vendor;
    const std::string pipe = vendor.path("pipe");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    const auto keygen = [&](const std::string &name) {
        return vendor.tool.run({"keygen", vendor.path(name), "--passphrase-file", pipe});
    };
    const Finished nobody = keygen("none");
    CHECK(nobody.code == 1);
    CHECK(contains(nobody.err, pipe + ": no process writes to this pipe"));
    const int writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(writer >= 0);
    REQUIRE(::write(writer, "correct horse\n", 14) == 14);
    CHECK(keygen("acme").code == 0);
    ::close(writer);
    for (const std::string device : {"/dev/zero", "/dev/urandom"}) {
        const Finished endless = vendor.tool.run({"keygen", vendor.path("endless"), "--passphrase-file", device});
        CHECK(endless.code == 1);
        CHECK(contains(endless.err, device + ": expected a file or a pipe with the passphrase; this is neither"));
    }
}

TEST_CASE("a key is never overwritten, and none is left half made") {
    const Vendor vendor;
    const std::string key = vendor.make_key("acme");
    const std::string before = content(key + ".key") + content(key + ".pub");
    const Finished again = vendor.tool.run({"keygen", key, "--no-passphrase"});
    CHECK(again.code == 1);
    CHECK(again.err == "plugin-sign: " + key + ".key: the file exists and is never overwritten\n");
    CHECK(content(key + ".key") + content(key + ".pub") == before);

    fs::remove(key + ".key");
    CHECK(vendor.tool.run({"keygen", key, "--no-passphrase"}).code == 1); // its public key is still there
    CHECK_FALSE(fs::exists(key + ".key"));

    fs::create_symlink(vendor.path("elsewhere"), vendor.path("linked.key"));
    CHECK(vendor.tool.run({"keygen", vendor.path("linked"), "--no-passphrase"}).code == 1);
    CHECK_FALSE(fs::exists(vendor.path("elsewhere")));
}

TEST_CASE("only what a host may take for a plugin is signed") {
    const Vendor vendor;
    const std::string key = vendor.make_key("acme");
    const Finished text = vendor.sign(key, key + ".pub");
    CHECK(text.code == 1);
    CHECK(contains(text.err, key + ".pub: not signed (OPDOCK-E005): 'acme.pub' "));
    CHECK(contains(text.err, "Expected a plugin's shared object, or a plugin.json that names one."));
    CHECK_FALSE(fs::exists(key + ".pub.sig"));
    const std::string no_note = vendor.path("libnote.so");
    fs::copy_file(fixture("no_note"), no_note);
    CHECK(contains(vendor.sign(key, no_note).err, "not signed (OPDOCK-E010)"));
    const fs::path manifest = vendor.directory.write("plugin.json", R"({"library": "acme.pub"})");
    CHECK(contains(vendor.sign(key, manifest.string()).err, "acme.pub: not signed (OPDOCK-E005)"));
    // Files that depend on the machine are signed all the same.
    const std::string other = vendor.path("libother.so");
    fs::copy_file(fixture("other_abi"), other);
    CHECK(vendor.sign(key, other).code == 0);
}

TEST_CASE("an operator who requires trust signs the plugins of opdock, or lists them") {
    const Vendor operator_;
    const std::string key = operator_.make_key("mine");
    const fs::path plugins = operator_.directory.path() / "data/opdock/plugins";
    fs::create_directories(plugins);
    const std::vector<std::string> files = {(plugins / "libopdock_cpu.so").string(),
                                            (plugins / "libopdock_reference.so").string()};
    fs::copy_file(CPU_PLUGIN, files[0]);
    fs::copy_file(REFERENCE_PLUGIN, files[1]);
    PluginLs tool({});
    tool.with("XDG_DATA_HOME", operator_.path("data")).with("PLUGIN_MODULES_ONLY", "0");
    tool.with("PLUGIN_TRUST", "require");
    const auto loaded = [&] {
        int count = 0;
        const json document = json::parse(tool.run({"--json"}).out);
        for (const json &plugin : document["plugins"]) {
            count += plugin["status"] == "loaded" && plugin["path"].get<std::string>().starts_with(plugins.string());
        }
        return count;
    };
    CHECK(loaded() == 0);
    const json digests = json::parse(operator_.tool.run({"digest", "--json", files[0], files[1]}).out);
    const std::string listed = "trusted_sha256: [" + digests["files"][0]["sha256"].get<std::string>() + ", " +
                               digests["files"][1]["sha256"].get<std::string>() + "]\n";
    tool.with("PLUGIN_CONFIG", operator_.directory.write("policy.yaml", listed).string());
    CHECK(loaded() == 2);
    tool.with("PLUGIN_CONFIG", operator_.directory.write("empty.yaml", "").string());
    CHECK(loaded() == 0);
    for (const std::string &file : files) {
        CHECK(operator_.sign(key, file).code == 0);
    }
    fs::create_directories(tool.home().path() / "opdock/trust.d");
    fs::copy_file(key + ".pub", tool.home().path() / "opdock/trust.d/mine.pub");
    CHECK(loaded() == 2);
}

TEST_CASE("a public key in place of a secret one is told as that") {
    const Vendor vendor;
    const std::string key = vendor.make_key("acme");
    const Finished finished = vendor.tool.run({"sign", vendor.library, "--key", key + ".pub"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.err, key + ".pub: this is a public key"));
    CHECK_FALSE(contains(finished.err, "chmod"));
}

TEST_CASE("keygen refuses a passphrase that is empty, can be read by others or cannot be asked for") {
    const Vendor vendor;
    const auto keygen = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {"keygen", vendor.path("acme")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Finished finished = vendor.tool.run(arguments);
        CHECK(finished.code != 0);
        CHECK_FALSE(fs::exists(vendor.path("acme.key")));
        CHECK_FALSE(fs::exists(vendor.path("acme.pub")));
        return finished.err;
    };
    CHECK(contains(keygen({"--passphrase-file", vendor.passphrase("\n")}), "the passphrase is empty"));
    const std::string readable = vendor.passphrase("correct horse");
    ::chmod(readable.c_str(), 0644);
    CHECK(contains(keygen({"--passphrase-file", readable}),
                   "other users may read or change this passphrase (mode 0644)"));
    CHECK(contains(keygen({"--passphrase-file", vendor.passphrase(std::string(5000, 'x'))}), "less than 1024"));
    CHECK(contains(keygen({"--passphrase-file", vendor.path("absent")}), "No such file"));
    // In a session without a terminal.
    const Finished unasked =
        Command("/usr/bin/env").run({"setsid", "--wait", PLUGIN_SIGN, "keygen", vendor.path("acme")});
    CHECK(unasked.code == 1);
    CHECK(contains(unasked.err, "there is no terminal to ask for the passphrase of the new key 'acme'; use "
                                "--passphrase-file FILE, or --no-passphrase for a key without one"));
    const Finished wrong_name = vendor.tool.run({"keygen", vendor.path("a b"), "--no-passphrase"});
    CHECK(wrong_name.code == 2);
}

TEST_CASE("a passphrase is asked for twice on the terminal and not shown") {
    const Vendor vendor;
    const std::vector<std::string> keygen = {"keygen", vendor.path("acme")};
    const Finished different = vendor.tool.run_with_terminal(keygen, {"correct horse\n", "correct hose\n"});
    CHECK(different.code == 1);
    CHECK(contains(different.out, "the two passphrases differ; nothing was written"));
    CHECK_FALSE(fs::exists(vendor.path("acme.key")));
    const Finished made = vendor.tool.run_with_terminal(keygen, {"correct horse\n", "correct horse\n"});
    CHECK(made.code == 0);
    CHECK(contains(made.out, "Passphrase of the new key 'acme': "));
    CHECK(contains(made.out, "Repeat the passphrase: "));
    CHECK_FALSE(contains(made.out, "horse"));
    const Finished signed_file =
        vendor.tool.run_with_terminal({"sign", vendor.library, "--key", vendor.path("acme.key")}, {"correct horse\n"});
    CHECK(signed_file.code == 0);
    CHECK_FALSE(contains(signed_file.out, "horse"));
    CHECK(vendor.verify(vendor.path("acme")).code == 0);
}

TEST_CASE("giving up at the terminal leaves nothing behind") {
    const Vendor vendor;
    const Finished finished = vendor.tool.run_with_terminal({"keygen", vendor.path("acme")}, {"corr\x03"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, "input was cancelled"));
    CHECK_FALSE(fs::exists(vendor.path("acme.key")));
    CHECK_FALSE(fs::exists(vendor.path("acme.pub")));
}

TEST_CASE("a secret key that others may read does not sign") {
    const Vendor vendor;
    const std::string key = vendor.make_key("acme");
    ::chmod((key + ".key").c_str(), 0640);
    const Finished finished = vendor.sign(key, vendor.library);
    CHECK(finished.code == 1);
    CHECK(contains(finished.err, "a secret key must belong to you, and no other user may read it"));
    CHECK(contains(finished.err, "mode 0640"));
    CHECK_FALSE(fs::exists(vendor.library + ".sig"));
}

TEST_CASE("a replaced library, another key and no signature are told apart") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    const std::string other = vendor.make_key("other");
    CHECK(contains(vendor.verify(acme).err, "OPDOCK-E061: "));
    REQUIRE(vendor.sign(acme, vendor.library).code == 0);
    const Finished by_other = vendor.verify(other);
    CHECK(by_other.code == 1);
    CHECK(contains(by_other.err, "OPDOCK-E063: 'libacme.so' is signed with key "));
    fs::copy_file(fixture("second_vendor"), vendor.library, fs::copy_options::overwrite_existing);
    const Finished replaced = vendor.verify(acme);
    CHECK(replaced.code == 1);
    CHECK(replaced.out.empty());
    CHECK(contains(replaced.err, "OPDOCK-E062: 'libacme.so' is not the file that key 'acme'"));
}

TEST_CASE("each key has one signature: signing again replaces its own and leaves the others") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    const std::string other = vendor.make_key("other");
    REQUIRE(vendor.sign(acme, vendor.library).code == 0);
    REQUIRE(vendor.sign(other, vendor.library).code == 0);
    fs::copy_file(fixture("second_vendor"), vendor.library, fs::copy_options::overwrite_existing);
    CHECK(vendor.verify(acme).code == 1);
    REQUIRE(vendor.sign(acme, vendor.library).code == 0);
    CHECK(vendor.verify(acme).code == 0);
    const Finished finished =
        vendor.tool.run({"verify", vendor.library, "--pub", acme + ".pub", "--pub", other + ".pub", "--json"});
    CHECK(finished.code == 0);
    const json document = json::parse(finished.out);
    CHECK(document["schema"] == "opdock.plugin-sign.verify/1");
    CHECK(document["status"] == "valid");
    CHECK(document["key"]["name"] == "acme");
    CHECK(document["manifest"].is_null());
    REQUIRE(document["signatures"].size() == 2);
    CHECK(document["signatures"][0]["name"] == "other");
    CHECK(document["signatures"][0]["state"] == "other_library");
    CHECK(document["signatures"][1]["state"] == "valid");
    CHECK(fs::directory_iterator(vendor.directory.path()) != fs::directory_iterator());
    for (const auto &entry : fs::directory_iterator(vendor.directory.path())) {
        CHECK_FALSE(entry.path().filename().string().starts_with('.')); // temporary names are gone after the rename
    }
}

TEST_CASE("a plugin.json is signed together with the library it names") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    const std::string manifest =
        vendor.directory.write("plugin.json", R"({"library": "libacme.so", "signature": "acme.sig"})").string();
    const Finished signed_both = vendor.sign(acme, manifest);
    CHECK(contains(signed_both.out, vendor.path("acme.sig") + ": signed with"));
    const std::vector<std::string> verify = {"verify", manifest, "--pub", acme + ".pub", "--json"};
    const Finished verified = vendor.tool.run(verify);
    CHECK(verified.code == 0);
    CHECK(json::parse(verified.out)["manifest"] == manifest);
    vendor.directory.write("plugin.json", R"({"library": "libacme.so", "signature": "acme.sig" })");
    const Finished changed = vendor.tool.run(verify);
    CHECK(changed.code == 1);
    CHECK(json::parse(changed.out)["code"] == "OPDOCK-E062");
    CHECK(json::parse(changed.out)["signatures"][0]["state"] == "other_manifest");
}

TEST_CASE("verify asks the keys of a folder, and those that a host of the user trusts") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    REQUIRE(vendor.sign(acme, vendor.library).code == 0);
    const std::string folder = vendor.path("trusted");
    fs::create_directory(folder);
    CHECK(vendor.tool.run({"verify", vendor.library, "--trusted", folder}).code == 1);
    fs::copy_file(acme + ".pub", folder + "/acme.pub");
    CHECK(vendor.tool.run({"verify", vendor.library, "--trusted", folder}).code == 0);
    ::chmod((folder + "/acme.pub").c_str(), 0666);
    const Finished unsafe = vendor.tool.run({"verify", vendor.library, "--trusted", folder});
    CHECK(unsafe.code == 1);
    CHECK(contains(unsafe.err, "acme.pub' is not used: everybody may write"));
}

TEST_CASE("a signature file that cannot be read is not written over") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    vendor.directory.write("libacme.so.sig", "nonsense\n");
    const Finished finished = vendor.sign(acme, vendor.library);
    CHECK(finished.code == 1);
    CHECK(contains(finished.err,
                   vendor.library + ".sig:1: expected 'opdock.signature/1', found 'nonsense'; move it away"));
    CHECK(content(vendor.library + ".sig") == "nonsense\n");
}

TEST_CASE("digest prints what trusted_sha256 lists") {
    const Vendor vendor;
    vendor.directory.write("abc", "abc");
    const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const Finished text = vendor.tool.run({"digest", vendor.path("abc"), vendor.library});
    CHECK(text.code == 0);
    CHECK(text.out.starts_with(abc + "  " + vendor.path("abc") + "\n"));
    const json document = json::parse(vendor.tool.run({"digest", "--json", vendor.path("abc")}).out);
    CHECK(document == json{{"schema", "opdock.plugin-sign.digest/1"},
                           {"files", {{{"path", vendor.path("abc")}, {"sha256", abc}}}}});
    CHECK(vendor.tool.run({"digest", vendor.path("absent")}).code == 1);
}

TEST_CASE("what plugin-sign signs a host takes") {
    const Vendor vendor;
    const std::string acme = vendor.make_key("acme");
    PluginLs host({vendor.library});
    host.with("XDG_CONFIG_HOME", vendor.path("config")).with("PLUGIN_TRUST", "require");
    const Finished before = host.run({"--rejected"});
    CHECK(before.code == 1);
    CHECK(contains(before.out, "OPDOCK-E061"));
    REQUIRE(vendor.sign(acme, vendor.library).code == 0);
    CHECK(contains(host.run({"--rejected"}).out, "OPDOCK-E063"));
    vendor.directory.write("config/opdock/trust.d/acme.pub", content(acme + ".pub"));
    const Finished after = host.run({"--exists", "vendor.acme"});
    CHECK(after.code == 0);
    CHECK(after.err.empty());
    const Finished policy = host.run({"--policy"});
    CHECK(contains(policy.out, "  trust            require    from PLUGIN_TRUST\n"));
}

TEST_CASE("plugin-sign exits with 2 when it is used wrongly, and with 0 when asked for help") {
    const Tool tool(PLUGIN_SIGN, {});
    const Finished wrong = tool.run({"sing"});
    CHECK(wrong.code == 2);
    CHECK(wrong.err == "plugin-sign: unknown command 'sing'; did you mean 'sign'?\nTry 'plugin-sign --help'.\n");
    CHECK(tool.run({"--help"}).code == 0);
    CHECK(tool.run({"--version"}).out == "plugin-sign " OPDOCK_VERSION "\n");
}
