// Output of verify and inspect for an encrypted package.
#include <iostream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "keys/key_files.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;
using nlohmann::json;

namespace {

// The output of the command.
std::string shown_by(int (*command)(const Request &), const std::vector<std::string> &arguments) {
    std::ostringstream out;
    std::streambuf *before = std::cout.rdbuf(out.rdbuf());
    int code = -1;
    try {
        code = command(tool.read(arguments).request);
    } catch (...) {
        std::cout.rdbuf(before);
        throw;
    }
    std::cout.rdbuf(before);
    CHECK(code == cli::exit_fine);
    return out.str();
}

// The package with another payload.
std::string with_payload(const PackageFile &file, const std::string &payload) {
    json manifest = json::parse(file.manifest);
    manifest["payload"]["bytes"] = payload.size();
    manifest["payload"]["sha256"] = core::hex(core::sha256_of(payload));
    return print_package(manifest.dump(), payload, nullptr);
}

} // namespace

TEST_CASE("of an encrypted package verify and inspect say what they looked at, and with the key all of it is") {
    const test::TemporaryDirectory folder;
    const std::string key = (folder.path() / "customer").string(), path = (folder.path() / "p.opdock").string();
    core::prepare_sodium();
    (void)keys::make_key_files(key, {"", true});
    Package package;
    package.device_type = "Acme_A1";
    package.tasks = {"train"};
    package.attachments = {{"license", "LICENSE", std::string(200'000, 'x')}};
    const std::string whole = print(package, nullptr, {keys::read_key_file(key + ".key", {"", true}).public_key});
    folder.write("p.opdock", whole);

    for (const auto &[name, command] : {std::pair("verify", &verify), std::pair("inspect", &inspect)}) {
        const auto &tried = name;
        CAPTURE(tried);
        const std::vector<std::string> without = {name, path, "--allow-unsigned"};
        std::vector<std::string> with = without;
        with.insert(with.end(), {"--decrypt-key", key + ".key"});
        std::vector<std::string> as_json = without;
        as_json.emplace_back("--json");
        folder.write("p.opdock", whole);
        CHECK(shown_by(command, with).find("not checked") == std::string::npos);

        const PackageFile file = parse_package(whole, "p.opdock");
        for (const std::string &payload :
             {file.payload, file.payload.substr(0, 100), std::string(file.payload.size(), '\x5a')}) {
            folder.write("p.opdock", with_payload(file, payload));
            const std::string text = shown_by(command, without);
            CAPTURE(text);
            CHECK(text.find("the encrypted part was not checked: --decrypt-key NAME.key checks it") !=
                  std::string::npos);
            CHECK(text.find("complete") == std::string::npos);
            CHECK(json::parse(shown_by(command, as_json)).at("is_open") == false);
            if (payload != file.payload) {
                CHECK_THROWS_WITH_AS(shown_by(command, with),
                                     doctest::Contains("its encrypted part was changed or is truncated"), cli::Failure);
            }
        }
    }
    folder.write("p.opdock", whole);
    const std::vector<std::string> opened = {"verify", path, "--allow-unsigned", "--decrypt-key", key + ".key"};
    CHECK(shown_by(&verify, opened) == path + ": complete, not signed\n");
}
