#include "request.hpp"

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"

namespace opdock::plugin_sign {
namespace {

namespace po = boost::program_options;

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

struct Command {
    const char *name;
    Action action;
    const char *subject;               // what it is about
    std::vector<const char *> options; // it takes
};

const std::vector<Command> commands = {
    {"keygen", Action::keygen, "the NAME of the key", {"passphrase-file", "no-passphrase"}},
    {"sign", Action::sign, "the FILE.so or plugin.json", {"key", "passphrase-file"}},
    {"verify", Action::verify, "the FILE.so or plugin.json", {"pub", "trusted", "json"}},
    {"digest", Action::digest, "at least one FILE", {"json"}},
};

po::options_description describe_options() {
    po::options_description options("Options", 80, 56);
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    options.add_options()                                                                   //
        ("key", text("NAME.key"), "sign: the secret key")                                   //
        ("pub", po::value<std::vector<std::string>>()->composing()->value_name("NAME.pub"), //
         "verify: this key, and not those a host trusts; may be repeated")                  //
        ("trusted", text("DIR"), "verify: the keys of this folder instead")                 //
        ("passphrase-file", text("FILE"),
         "keygen, sign: the passphrase is its first line, and nobody is asked") //
        ("no-passphrase", "keygen: leave the secret key unencrypted, for machines that sign");
    cli::add_format(options, "docs/trust.md", "verify, digest: ");
    options.add_options()                       //
        ("version", "the version of this tool") //
        ("help,h", "this text; with a command, what is about it");
    return options;
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    po::options_description all = describe_options();
    all.add_options()("words", po::value<std::vector<std::string>>());
    po::positional_options_description positional;
    positional.add("words", -1);
    const po::variables_map values = cli::parse_arguments(arguments, all, positional);
    Request request;
    if (values.count("help") != 0) {
        request.words = cli::texts_of(values, "words");
        return request;
    }
    if (values.count("version") != 0) {
        request.action = Action::version;
        return request;
    }
    std::vector<std::string> words;
    if (values.count("words") != 0) {
        words = values["words"].as<std::vector<std::string>>();
    }
    if (words.empty()) {
        throw cli::UsageError("expected a command: keygen, sign, verify or digest");
    }
    const Command &command = cli::find_command(commands, words.front());
    cli::refuse_options_of_others(command.name, command.options, values);
    request.action = command.action;
    request.subjects.assign(words.begin() + 1, words.end());
    if (request.subjects.empty() || (request.subjects.size() > 1 && request.action != Action::digest)) {
        throw cli::UsageError(std::string(command.name) + " expects " + command.subject);
    }
    for (std::string &subject : request.subjects) {
        const std::string absolute = cli::absolute_path(subject);
        subject = request.action == Action::digest ? subject : absolute;
    }
    request.key = cli::path_of(values, "key");
    request.trusted = cli::path_of(values, "trusted");
    request.passphrase_file = cli::path_of(values, "passphrase-file");
    request.no_passphrase = values.count("no-passphrase") != 0;
    request.json = values.count("json") != 0;
    if (values.count("pub") != 0) {
        for (const auto &path : values["pub"].as<std::vector<std::string>>()) {
            request.public_keys.push_back(cli::absolute_path(path));
        }
    }
    if (request.action == Action::sign && request.key.empty()) {
        throw cli::UsageError("sign expects --key NAME.key");
    }
    if (request.no_passphrase && !request.passphrase_file.empty()) {
        throw cli::UsageError("--passphrase-file and --no-passphrase contradict each other");
    }
    if (!request.trusted.empty() && !request.public_keys.empty()) {
        throw cli::UsageError("--pub and --trusted are two answers to whom you trust; give one");
    }
    return request;
}

std::string help_text(const std::vector<std::string> &words) {
    if (!words.empty()) {
        (void)cli::find_command(commands, words.front()); // or what may have been meant
    }
    return cli::help_of(introduction, describe_options(), examples, commands, words);
}

std::string version_text() {
    return "plugin-sign " OPDOCK_TOOL_VERSION;
}

} // namespace opdock::plugin_sign
