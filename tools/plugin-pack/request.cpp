#include "request.hpp"

#include <filesystem>
#include <sstream>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "package.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

namespace po = boost::program_options;

constexpr const char *introduction =
    R"(Usage: plugin-pack patch --backend [NAME=]DIR@COMMIT... --device-type D
                   --task T... --out PACKAGE (--key NAME.key | --unsigned)
       plugin-pack unpatch (PACKAGE | --device-type D --task T [--commit C])
                   --backend [NAME=]DIR... [--out DIR | --in-place]
       plugin-pack unpatch --3way PACKAGE --backend [NAME=]DIR@COMMIT...
       plugin-pack revert PACKAGE --backend [NAME=]DIR...
       plugin-pack rebase PACKAGE --backend [NAME=]DIR@COMMIT... --out PACKAGE
                   (--key NAME.key | --unsigned)
       plugin-pack verify PACKAGE
       plugin-pack inspect PACKAGE
       plugin-pack install PACKAGE [--system | --folder DIR]
       plugin-pack uninstall NAME [--system | --folder DIR]
       plugin-pack list [--system | --folder DIR]
       plugin-pack history [--system | --folder DIR] [--out FILE]
       plugin-pack keygen NAME
       plugin-pack import-flagscale HARDWARE --backend NAME=DIR[@COMMIT]...
                   --out DIR (--key NAME.key | --unsigned)

Carries what a vendor changed in a framework's own source, with plugins, tune
files and policies, in one signed file.

  patch    packs all that differs from COMMIT in the checkout DIR: committed,
           staged, in the worktree, or untracked. The repository is only read.
  unpatch  puts the adapted files together from a repository that has COMMIT, in
           a folder of their own: build/D/NAME. An earlier one is replaced as a
           whole, or left as it is. --3way merges the changes with another commit.
           --in-place changes the files of the checkout DIR instead. Without
           PACKAGE the newest that is installed and fits is taken.
  revert   takes back what unpatch --in-place did.
  rebase   makes a package of the same changes to another commit.
  verify   says who signed a package, and that nothing in it was changed.
  inspect  shows what is in it.
  install  puts the files of a package where hosts find its plugins: in the
           user's folder for plugins. An earlier one is replaced as a whole.
  uninstall
           takes them away again.
  list     shows which packages are installed.
  history  prints patch_history.yaml: device, task, backends and the commits that
           there are packages for, the newest last.
  keygen   makes NAME.key and NAME.pub, as plugin-sign does.
  import-flagscale
           makes packages of what stands in the folder hardware of FlagScale, one
           for each device and task; what cannot be taken over is listed.
)";

constexpr const char *examples = R"(
Examples:
  plugin-pack keygen vendor --passphrase-file passphrase.txt
  plugin-pack patch --backend megatron=./Megatron-LM@core_r0.9 \
              --device-type Acme_A1 --task train --message "fused attention" \
              --plugin libacme.so --key vendor.key \
              --passphrase-file passphrase.txt --out acme-a1.opdock
  plugin-pack inspect acme-a1.opdock --pub vendor.pub
  plugin-pack unpatch acme-a1.opdock --backend megatron=./Megatron-LM \
              --pub vendor.pub
  plugin-pack install acme-a1.opdock --pub vendor.pub
  plugin-pack unpatch --device-type Acme_A1 --task train \
              --backend megatron=./Megatron-LM --pub vendor.pub
  plugin-pack uninstall Acme_A1-train-megatron

Exit codes: 0 fine; 1 what was asked for is absent or failed; 2 wrong usage; 3
the package is damaged, or by nobody who is trusted; 4 a patch does not fit,
or changes and commit do not go together; 5 a newer package is there already.
)";

struct Command {
    const char *name;
    Action action;
    const char *subject; // what it is about; null: nothing
    std::vector<const char *> options;
    bool can_find_subject = false; // where it is not given
};

const std::vector<Command> commands = {
    {"patch",
     Action::patch,
     nullptr,
     {"backend",      "device-type", "task",     "out",       "plugin",          "tune",   "policy",
      "license",      "model",       "message",  "contact",   "backend-version", "serial", "include-ignored",
      "no-questions", "key",         "unsigned", "recipient", "passphrase-file", "force",  "json"}},
    {"unpatch",
     Action::unpatch,
     "the PACKAGE, or --device-type and --task",
     {"backend", "out", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run", "json",
      "device-type", "task", "commit", "folder", "system", "in-place", "allow-older"},
     true},
    {"revert",
     Action::revert,
     "the PACKAGE",
     {"backend", "3way", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "dry-run", "json"}},
    {"install",
     Action::install,
     "the PACKAGE",
     {"folder", "system", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "allow-older",
      "dry-run", "json"}},
    {"uninstall", Action::uninstall, "the NAME of a package, which list shows", {"folder", "system", "json"}},
    {"list", Action::list, nullptr, {"folder", "system", "pub", "trusted", "allow-unsigned", "json"}},
    {"history",
     Action::history,
     nullptr,
     {"folder", "system", "out", "force", "pub", "trusted", "allow-unsigned", "json"}},
    {"rebase",
     Action::rebase,
     "the PACKAGE",
     {"backend", "out", "pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "serial", "key",
      "unsigned", "recipient", "force", "json"}},
    {"verify", Action::verify, "the PACKAGE", {"pub", "trusted", "allow-unsigned", "json"}},
    {"inspect",
     Action::inspect,
     "the PACKAGE",
     {"pub", "trusted", "allow-unsigned", "decrypt-key", "passphrase-file", "json"}},
    {"import-flagscale",
     Action::import_flagscale,
     "the folder HARDWARE",
     {"backend", "out", "key", "unsigned", "recipient", "passphrase-file", "force", "json"}},
    {"keygen", Action::keygen, "the NAME of the key", {"passphrase-file", "no-passphrase"}},
};

const std::vector<const char *> attachment_kinds = {"plugin", "tune", "policy", "license"};

po::options_description describe_options() {
    po::options_description options("Options", 80, 56);
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    options.add_options()                                                                              //
        ("backend", texts("B"), "[NAME=]DIR: a repository; patch: [NAME=]DIR@COMMIT; may be repeated") //
        ("device-type", text("D"), "VENDOR_MODEL, such as Acme_A1")                                    //
        ("task", texts("T"), "train, inference or post_train; patch: may be repeated")                 //
        ("out", text("PATH"),
         "patch, rebase: the package; unpatch: the folder, build/D without it; import-flagscale: the folder of the "
         "packages; history: the file")                                                                          //
        ("plugin", texts("FILE.so"), "patch: a plugin that belongs to it; may be repeated")                      //
        ("tune", texts("FILE"), "patch: a tune file; may be repeated")                                           //
        ("policy", texts("FILE"), "patch: a policy; may be repeated")                                            //
        ("license", texts("FILE"), "patch: a license; may be repeated")                                          //
        ("model", texts("NAME"), "patch: a model that it was tried with; may be repeated")                       //
        ("message", text("TEXT"), "patch: what was changed")                                                     //
        ("contact", text("TEXT"), "patch: who answers questions")                                                //
        ("backend-version", text("TEXT"), "patch: what people call COMMIT; what git describes it as without it") //
        ("no-questions", "patch: ask for none of these four on the terminal")                                    //
        ("serial", text("N"),
         "higher than that of the package before; patch: 1 without it; rebase: the old one and 1")                 //
        ("include-ignored", "patch: also what .gitignore leaves out")                                              //
        ("key", text("NAME.key"), "sign with this key")                                                            //
        ("unsigned", "sign with none")                                                                             //
        ("recipient", texts("NAME.pub"), "only this key can read the changes and files; may be repeated")          //
        ("passphrase-file", text("FILE"), "the passphrase of a secret key is its first line, and nobody is asked") //
        ("no-passphrase", "keygen: leave the secret key unencrypted")                                              //
        ("pub", texts("NAME.pub"), "trust this key, and not those a host trusts; may be repeated")                 //
        ("trusted", text("DIR"), "trust the keys of this folder instead")                                          //
        ("allow-unsigned", "take a package that nobody signed")                                                    //
        ("decrypt-key", text("NAME.key"), "unpatch, inspect: the key that it is encrypted for")                    //
        ("3way", "unpatch: merge with the commit that --backend names")                                            //
        ("in-place", "unpatch: change the files of the checkouts")                                                 //
        ("commit", text("C"), "unpatch: a package for this commit of a backend, not the newest")                   //
        ("allow-older", "unpatch, install: in the place of a newer package")                                       //
        ("folder", text("DIR"), "where packages are installed, instead of the user's folder for plugins")          //
        ("system", "that is the folder for all users, /usr/local/lib/opdock/plugins")                              //
        ("dry-run", "unpatch, revert, install: do everything but put it in place")                                 //
        ("force", "overwrite files")                                                                               //
        ("json", "as JSON; docs/packages.md has the keys")                                                         //
        ("version", "the version of this tool")                                                                    //
        ("help,h", "this text");
    return options;
}

enum class Commit { needed, possible, none };

Commit commit_of(Action action, bool merges) {
    switch (action) {
    case Action::patch:
    case Action::rebase:
        return Commit::needed;
    case Action::unpatch:
    case Action::revert:
        return merges ? Commit::needed : Commit::none;
    default:
        return Commit::possible;
    }
}

// The '@' of DIR@COMMIT: the last one behind a folder that there is, since refs and folders may have one; without any,
// the last. npos when nothing stands behind it.
size_t commit_at(const std::string &text) {
    size_t last = std::string::npos;
    for (size_t at = text.rfind('@'); at != std::string::npos && at > 0; at = text.rfind('@', at - 1)) {
        if (at + 1 == text.size()) {
            continue;
        }
        if (std::filesystem::is_directory(text.substr(0, at))) {
            return at;
        }
        last = last == std::string::npos ? at : last;
    }
    return last;
}

BackendPlace parse_backend(const std::string &text, Commit commit) {
    BackendPlace place;
    std::string rest = text;
    if (const size_t equals = rest.find('='); equals != std::string::npos && rest.find('/') > equals) {
        place.name = rest.substr(0, equals);
        rest.erase(0, equals + 1);
    }
    if (commit != Commit::none) {
        const size_t at = commit_at(rest);
        if (at == std::string::npos && (commit == Commit::needed || rest.ends_with('@'))) {
            throw cli::UsageError("--backend " + text + ": expected DIR@COMMIT");
        }
        if (at != std::string::npos && (commit == Commit::needed || !std::filesystem::is_directory(rest))) {
            place.commit = rest.substr(at + 1);
            rest.erase(at);
        }
    }
    place.folder = std::filesystem::path(cli::absolute_path(rest)).lexically_normal().string();
    while (place.folder.size() > 1 && place.folder.ends_with('/')) {
        place.folder.pop_back();
    }
    if (place.name.empty()) {
        place.name = std::filesystem::path(place.folder).filename().string();
    }
    if (!is_name(place.name) || place.name == "opdock-provenance.json") {
        throw cli::UsageError("--backend " + text + ": '" + place.name +
                              "' is no name of a backend, which is of letters, digits and ._-; write NAME=DIR");
    }
    return place;
}

// Else the last of the work, printing the package, would fail.
void require_utf8(const char *option, const std::string &text) {
    if (!is_utf8(text)) {
        throw cli::UsageError(std::string("--") + option + ": " + core::quote(text) +
                              " is not UTF-8; write it in that encoding");
    }
}

// Whom a package is for.
void read_device(const po::variables_map &values, Request &request) {
    request.device_type = cli::text_of(values, "device-type");
    request.tasks = cli::texts_of(values, "task");
    if (!is_device_type(request.device_type)) {
        throw cli::UsageError("--device-type " + request.device_type +
                              ": expected VENDOR_MODEL, such as Acme_A1: letters and digits with one '_' between "
                              "them, a capital first");
    }
    for (const std::string &task : request.tasks) {
        if (!is_task(task)) {
            throw cli::UsageError("--task " + task + ": expected train, inference or post_train" +
                                  cli::did_you_mean(task, {"train", "inference", "post_train"}));
        }
    }
}

void read_patch(const po::variables_map &values, Request &request) {
    request.models = cli::texts_of(values, "model");
    request.message = cli::text_of(values, "message");
    request.contact = cli::text_of(values, "contact");
    request.backend_version = cli::text_of(values, "backend-version");
    request.include_ignored = values.count("include-ignored") != 0;
    request.no_questions = values.count("no-questions") != 0;
    require_utf8("message", request.message);
    require_utf8("contact", request.contact);
    require_utf8("backend-version", request.backend_version);
    for (const std::string &model : request.models) {
        require_utf8("model", model);
    }
    for (const char *kind : attachment_kinds) {
        for (const std::string &file : cli::texts_of(values, kind)) {
            request.attachments.emplace_back(kind, cli::absolute_path(file));
        }
    }
    if (request.out.empty() || values.count("device-type") == 0 || values.count("task") == 0) {
        throw cli::UsageError("patch expects --backend, --device-type, --task and --out");
    }
    if (request.backends.empty() && request.attachments.empty()) {
        throw cli::UsageError("patch expects --backend [NAME=]DIR@COMMIT, or files alone, such as --plugin libacme.so");
    }
    read_device(values, request);
}

void read_unpatch(const po::variables_map &values, Request &request) {
    request.in_place = values.count("in-place") != 0;
    if (request.backends.empty()) {
        throw cli::UsageError("unpatch expects --backend [NAME=]DIR, a repository that has the commit");
    }
    if (request.in_place && !request.out.empty()) {
        throw cli::UsageError("--in-place and --out contradict each other");
    }
    if (!request.subject.empty()) {
        for (const char *option : {"device-type", "task", "commit", "folder", "system"}) {
            if (values.count(option) != 0) {
                throw cli::UsageError(std::string("--") + option +
                                      " looks for a package, and one is named: " + request.subject);
            }
        }
        return;
    }
    if (values.count("device-type") == 0 || values.count("task") != 1) {
        throw cli::UsageError("unpatch expects the PACKAGE, or --device-type D and --task T of one that is installed");
    }
    read_device(values, request);
    request.commit = cli::text_of(values, "commit");
}

// Who signs what is written, and who may read it.
void read_keys(const po::variables_map &values, Request &request) {
    if (values.count("serial") != 0) {
        request.serial = cli::number_of(values, "serial", 1, most_serial);
    }
    request.no_key = values.count("unsigned") != 0;
    request.force = values.count("force") != 0;
    if (values.count("key") != 0) {
        request.key = cli::absolute_path(cli::text_of(values, "key"));
    }
    for (const std::string &path : cli::texts_of(values, "recipient")) {
        request.recipients.push_back(cli::absolute_path(path));
    }
    if (request.key.empty() != request.no_key) {
        throw cli::UsageError(request.no_key ? "--key and --unsigned contradict each other"
                                             : "expected --key NAME.key, or --unsigned for a package that only "
                                               "--allow-unsigned takes");
    }
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
        return request;
    }
    if (values.count("version") != 0) {
        request.action = Action::version;
        return request;
    }
    const std::vector<std::string> words = cli::texts_of(values, "words");
    if (words.empty()) {
        throw cli::UsageError(
            "expected a command: patch, unpatch, revert, rebase, verify, inspect, install, uninstall, list, history, "
            "keygen or import-flagscale");
    }
    const Command &command = cli::find_command(commands, words.front());
    cli::refuse_options_of_others(command.name, command.options, values);
    request.action = command.action;
    const bool has_subject = words.size() == 2;
    if (words.size() > 2 ||
        (has_subject ? command.subject == nullptr : command.subject != nullptr && !command.can_find_subject)) {
        throw cli::UsageError(std::string(command.name) + " expects " +
                              (command.subject == nullptr ? "options only" : command.subject));
    }
    if (has_subject) {
        request.subject = request.action == Action::uninstall ? words.back() : cli::absolute_path(words.back());
    }
    for (const std::string &text : cli::texts_of(values, "backend")) {
        request.backends.push_back(parse_backend(text, commit_of(request.action, values.count("3way") != 0)));
        for (size_t i = 0; i + 1 < request.backends.size(); ++i) {
            if (request.backends[i].name == request.backends.back().name) {
                throw cli::UsageError("two backends are called '" + request.backends.back().name + "'; write NAME=DIR");
            }
        }
    }
    if (values.count("out") != 0) {
        request.out = cli::absolute_path(cli::text_of(values, "out"));
    }
    if (request.action == Action::patch) {
        read_patch(values, request);
    }
    if (request.action == Action::import_flagscale && (request.backends.empty() || request.out.empty())) {
        throw cli::UsageError("import-flagscale expects --backend NAME=DIR, a repository for each, and --out DIR");
    }
    if (request.action == Action::rebase && (request.backends.empty() || request.out.empty())) {
        throw cli::UsageError("rebase expects --backend [NAME=]DIR@COMMIT, the new commit, and --out");
    }
    if (request.action == Action::patch || request.action == Action::rebase ||
        request.action == Action::import_flagscale) {
        read_keys(values, request);
    }
    for (const std::string &path : cli::texts_of(values, "pub")) {
        request.public_keys.push_back(cli::absolute_path(path));
    }
    if (values.count("trusted") != 0) {
        request.trusted = cli::absolute_path(cli::text_of(values, "trusted"));
    }
    if (values.count("decrypt-key") != 0) {
        request.decrypt_key = cli::absolute_path(cli::text_of(values, "decrypt-key"));
    }
    if (values.count("passphrase-file") != 0) {
        request.passphrase_file = cli::absolute_path(cli::text_of(values, "passphrase-file"));
    }
    request.no_passphrase = values.count("no-passphrase") != 0;
    request.allow_unsigned = values.count("allow-unsigned") != 0;
    request.dry_run = values.count("dry-run") != 0;
    request.json = values.count("json") != 0;
    if (request.no_passphrase && !request.passphrase_file.empty()) {
        throw cli::UsageError("--passphrase-file and --no-passphrase contradict each other");
    }
    if (!request.trusted.empty() && !request.public_keys.empty()) {
        throw cli::UsageError("--pub and --trusted are two answers to whom you trust; give one");
    }
    request.system = values.count("system") != 0;
    request.allow_older = values.count("allow-older") != 0;
    if (values.count("folder") != 0) {
        request.folder = cli::absolute_path(cli::text_of(values, "folder"));
    }
    if (request.system && !request.folder.empty()) {
        throw cli::UsageError("--system and --folder are two answers to where; give one");
    }
    if (request.action == Action::history && request.json && !request.out.empty()) {
        throw cli::UsageError("--json prints, and --out writes patch_history.yaml; give one");
    }
    if (request.action == Action::unpatch) {
        read_unpatch(values, request);
    }
    if (request.action == Action::revert && request.backends.empty()) {
        throw cli::UsageError("revert expects --backend [NAME=]DIR, a checkout that unpatch --in-place changed");
    }
    return request;
}

std::string help_text() {
    std::ostringstream text;
    text << introduction << '\n' << describe_options() << examples;
    return text.str();
}

std::string version_text() {
    return "plugin-pack (opdock) " OPDOCK_TOOL_VERSION;
}

} // namespace opdock::plugin_pack
