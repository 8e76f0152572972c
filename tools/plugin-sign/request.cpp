#include <algorithm>
#include <cstdint>

#include "commands.hpp"

namespace opdock::plugin_sign {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-sign keygen acme-2026 --passphrase-file passphrase.txt
  plugin-sign sign libacme.so --key acme-2026.key \
                              --passphrase-file passphrase.txt
  plugin-sign verify libacme.so --pub acme-2026.pub
  plugin-sign verify libacme.so --pub acme-2026.pub --json
  plugin-sign digest libacme.so

Exit codes: 0 fine; 1 there is no valid signature with a trusted key, or a file
is absent or cannot be written; 2 wrong usage.)";

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(56);
    line.path("key", "NAME.key", request.key, "sign: the secret key");
    line.paths("pub", "NAME.pub", request.public_keys,
               "verify: trust this key instead of those that a host trusts; may be repeated");
    line.path("trusted", "DIR", request.trusted, "verify: trust the keys of this folder instead");
    line.path("passphrase-file", "FILE", request.passphrase_file,
              "keygen, sign: read the passphrase from the first line, without a prompt");
    line.flag("no-passphrase", request.no_passphrase,
              "keygen: leave the secret key unencrypted, for machines that sign");
    line.format(request.json, "docs/trust.md", "verify, digest: ");
    line.ends("the version of this tool", "this text; with a command, the help for that command");
    line.conflict({"passphrase-file"}, {"no-passphrase"});
    line.conflict({"pub"}, {"trusted"}, "--pub and --trusted both say whom you trust; give one");
    line.words("words", request.subjects);
    return line;
}

void check_paths(const cli::CommandLine & /*line*/, Request &request) {
    std::for_each(request.subjects.begin(), request.subjects.end(), cli::absolute_path);
}

} // namespace

const cli::Tool<Request> tool = {
    {"plugin-sign", "plugin-sign " OPDOCK_TOOL_VERSION, "Makes keys, signs plugins with them and checks signatures.",
     examples},
    describe_options,
    {
        {{"keygen",
          "NAME [--passphrase-file FILE | --no-passphrase]",
          R"(makes NAME.key, which stays with you, and NAME.pub, which is for everybody. Neither file is ever
             overwritten. Asks for a passphrase twice.)",
          {1, 1, "the NAME of the key", true},
          {"passphrase-file", "no-passphrase"}},
         keygen},
        {{"sign",
          "FILE.so|plugin.json --key NAME.key",
          R"(writes FILE.so.sig, or adds this key's signature to it. If a plugin is installed with a
             plugin.json, sign the plugin.json: that signs both.)",
          {1, 1, "the FILE.so or plugin.json", true},
          {"key", "passphrase-file"},
          {"key"},
          "--key NAME.key"},
         sign},
        {{"verify",
          "FILE.so|plugin.json [--pub NAME.pub]...",
          R"(says which key signed the plugin. Without --pub, the keys that a host trusts are used: *.pub in
             /etc/opdock/trust.d and in opdock/trust.d of your configuration folder.)",
          {1, 1, "the FILE.so or plugin.json", true},
          {"pub", "trusted", "json"}},
         verify},
        {{"digest",
          "FILE...",
          "prints the SHA-256 of files, for trusted_sha256 of a policy.",
          {1, SIZE_MAX, "at least one FILE"},
          {"json"}},
         digest_files,
         check_paths},
    }};

} // namespace opdock::plugin_sign
