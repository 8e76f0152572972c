#include "request.hpp"

#include "cli/command_line.hpp"
#include "cli/exit.hpp"

namespace opdock::plugin_sign {
namespace {

constexpr const char *introduction =
    R"(Usage: plugin-sign keygen NAME [--passphrase-file FILE | --no-passphrase]
       plugin-sign sign FILE.so|plugin.json --key NAME.key
       plugin-sign verify FILE.so|plugin.json [--pub NAME.pub]...
       plugin-sign digest FILE...

Makes keys, signs plugins with them and checks signatures.

  keygen   makes NAME.key, which stays with you, and NAME.pub, which is for
           everybody; neither is ever overwritten. Asks for a passphrase twice.
  sign     writes FILE.so.sig, or adds this key's signature to it. A plugin that
           is installed with a plugin.json is signed through that, both at once.
  verify   says which key signed it. Without --pub, the keys that a host trusts
           are asked: *.pub in /etc/opdock/trust.d and in opdock/trust.d of your
           configuration folder.
  digest   prints the SHA-256 of files, for trusted_sha256 of a policy.
)";

constexpr const char *examples = R"(
Examples:
  plugin-sign keygen acme-2026 --passphrase-file passphrase.txt
  plugin-sign sign libacme.so --key acme-2026.key \
                              --passphrase-file passphrase.txt
  plugin-sign verify libacme.so --pub acme-2026.pub
  plugin-sign verify libacme.so --pub acme-2026.pub --json
  plugin-sign digest libacme.so

Exit codes: 0 fine; 1 the signature does not hold or is by nobody trusted, or a
file is absent or cannot be written; 2 wrong usage.
)";

const std::vector<cli::Command<Action>> commands = {
    {"keygen", Action::keygen, "the NAME of the key", {"passphrase-file", "no-passphrase"}},
    {"sign", Action::sign, "the FILE.so or plugin.json", {"key", "passphrase-file"}},
    {"verify", Action::verify, "the FILE.so or plugin.json", {"pub", "trusted", "json"}},
    {"digest", Action::digest, "at least one FILE", {"json"}},
};

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(56);
    line.path("key", "NAME.key", request.key, "sign: the secret key");
    line.paths("pub", "NAME.pub", request.public_keys,
               "verify: this key, and not those a host trusts; may be repeated");
    line.path("trusted", "DIR", request.trusted, "verify: the keys of this folder instead");
    line.path("passphrase-file", "FILE", request.passphrase_file,
              "keygen, sign: the passphrase is its first line, and nobody is asked");
    line.flag("no-passphrase", request.no_passphrase,
              "keygen: leave the secret key unencrypted, for machines that sign");
    line.format(request.json, "docs/trust.md", "verify, digest: ");
    line.ends("the version of this tool", "this text; with a command, what is about it");
    line.words("words");
    return line;
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    Request request;
    cli::CommandLine line = describe_options(request);
    const cli::Asked asked = line.parse(arguments);
    const std::vector<std::string> words = line.words();
    if (asked != cli::Asked::work) {
        request.action = asked == cli::Asked::version ? Action::version : Action::help;
        request.words = words;
        return request;
    }
    if (words.empty()) {
        throw cli::UsageError("expected a command: keygen, sign, verify or digest");
    }
    const cli::Command<Action> &command = cli::find_command(commands, words.front());
    line.refuse_others(std::string("with ") + command.name, command.options);
    request.action = command.action;
    request.subjects.assign(words.begin() + 1, words.end());
    if (request.subjects.empty() || (request.subjects.size() > 1 && request.action != Action::digest)) {
        throw cli::UsageError(std::string(command.name) + " expects " + command.subject);
    }
    for (std::string &subject : request.subjects) {
        const std::string absolute = cli::absolute_path(subject);
        subject = request.action == Action::digest ? subject : absolute;
    }
    line.store();
    if (request.action == Action::sign && request.key.empty()) {
        throw cli::UsageError("sign expects --key NAME.key");
    }
    line.refuse_both("passphrase-file", "no-passphrase");
    line.refuse_both("pub", "trusted", "are two answers to whom you trust; give one");
    return request;
}

std::string help_text(const std::vector<std::string> &words) {
    Request none;
    if (!words.empty()) {
        (void)cli::find_command(commands, words.front()); // or what may have been meant
    }
    return cli::help_of(introduction, describe_options(none).description(), examples, commands, words);
}

std::string version_text() {
    return "plugin-sign " OPDOCK_TOOL_VERSION;
}

} // namespace opdock::plugin_sign
