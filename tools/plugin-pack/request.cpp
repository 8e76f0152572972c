#include "request.hpp"

#include <algorithm>
#include <filesystem>

#include "cli/command_line.hpp"
#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "options.hpp"
#include "package.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

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
    if (!is_name(place.name) || place.name == provenance_name) {
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
void check_device(const Request &request) {
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

// NAME=VERSION; with one backend the version alone.
void read_backend_version(const std::string &text, std::vector<BackendPlace> &places) {
    require_utf8("backend-version", text);
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    std::vector<std::string> names(places.size());
    std::transform(places.begin(), places.end(), names.begin(), [](const auto &place) { return place.name; });
    const bool is_of_one = name.empty() && places.size() == 1;
    const auto place =
        is_of_one ? places.begin()
                  : std::find_if(places.begin(), places.end(), [&](const auto &one) { return one.name == name; });
    if (place == places.end()) {
        throw cli::UsageError("--backend-version " + text +
                              (name.empty() ? ": it does not say of which backend; write NAME=VERSION"
                                            : ": there is no --backend of that name" + cli::did_you_mean(name, names)));
    }
    if (!place->version.empty()) {
        throw cli::UsageError("--backend-version is given twice for " + place->name);
    }
    place->version = is_of_one ? text : text.substr(equals + 1);
}

void check_patch(const cli::CommandLine &line, Request &request) {
    require_utf8("message", request.message);
    require_utf8("contact", request.contact);
    for (const std::string &model : request.models) {
        require_utf8("model", model);
    }
    for (const std::string &text : request.backend_versions) {
        read_backend_version(text, request.backends);
    }
    if (request.out.empty() || !line.given("device-type") || !line.given("task")) {
        throw cli::UsageError("patch expects --device-type, --task and --out");
    }
    if (request.backends.empty() && request.attachments.empty()) {
        throw cli::UsageError("patch expects --backend [NAME=]DIR@COMMIT, or files alone, such as --plugin libacme.so");
    }
    check_device(request);
}

void check_unpatch(const cli::CommandLine &line, const Request &request) {
    if (request.backends.empty()) {
        throw cli::UsageError("unpatch expects --backend [NAME=]DIR, a repository that has the commit");
    }
    line.refuse_both("in-place", "out");
    if (!request.subject.empty()) {
        for (const char *option : {"device-type", "task", "commit", "folder", "system"}) {
            if (line.given(option)) {
                throw cli::UsageError(std::string("--") + option +
                                      " looks for a package, and one is named: " + request.subject);
            }
        }
        return;
    }
    if (!line.given("device-type") || !line.given("task")) {
        throw cli::UsageError(
            "unpatch expects the PACKAGE, or --device-type TYPE and --task TASK of one that is installed");
    }
    check_device(request);
}

// Who signs what is written.
void check_keys(const Request &request) {
    if (request.key.empty() != request.no_key) {
        throw cli::UsageError(request.no_key ? "--key and --unsigned contradict each other"
                                             : "expected --key NAME.key, or --unsigned for a package that only "
                                               "--allow-unsigned takes");
    }
}

// The command, and what it is about.
void read_command(const cli::CommandLine &line, Request &request) {
    const std::vector<std::string> words = line.words();
    if (words.empty()) {
        throw cli::UsageError(
            "expected a command: patch, unpatch, revert, rebase, verify, inspect, install, uninstall, list, history, "
            "keygen or import-flagscale");
    }
    const cli::Command<Action> &command = cli::find_command(commands(), words.front());
    line.refuse_others(std::string("with ") + command.name, command.options);
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
}

void read_backends(Request &request) {
    const Commit commit = commit_of(request.action, request.merges);
    for (const std::string &text : request.backend_texts) {
        BackendPlace place = parse_backend(text, commit);
        for (const BackendPlace &other : request.backends) {
            if (other.name == place.name) {
                throw cli::UsageError("two backends are called '" + place.name + "'; write NAME=DIR");
            }
        }
        request.backends.push_back(std::move(place));
    }
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    Request request;
    cli::CommandLine line = describe_options(request);
    if (const cli::Asked asked = line.parse(arguments, "message"); asked != cli::Asked::work) {
        request.action = asked == cli::Asked::version ? Action::version : Action::help;
        request.words = line.words();
        return request;
    }
    read_command(line, request);
    line.store();
    read_backends(request);
    line.refuse_both("passphrase-file", "no-passphrase");
    line.refuse_both("pub", "trusted", "are two answers to whom you trust; give one");
    line.refuse_both("system", "folder", "are two answers to where; give one");
    const bool lacks_place = request.backends.empty() || request.out.empty();
    switch (request.action) {
    case Action::patch:
        check_patch(line, request);
        check_keys(request);
        break;
    case Action::rebase:
        if (lacks_place) {
            throw cli::UsageError("rebase expects --backend [NAME=]DIR@COMMIT, the new commit, and --out");
        }
        check_keys(request);
        break;
    case Action::import_flagscale:
        if (lacks_place) {
            throw cli::UsageError("import-flagscale expects --backend NAME=DIR, a repository for each, and --out DIR");
        }
        check_keys(request);
        break;
    case Action::unpatch:
        check_unpatch(line, request);
        break;
    case Action::revert:
        if (request.backends.empty()) {
            throw cli::UsageError("revert expects --backend [NAME=]DIR, a checkout that unpatch --in-place changed");
        }
        break;
    case Action::history:
        if (request.json && !request.out.empty()) {
            throw cli::UsageError("--json prints, and --out writes patch_history.yaml; give one");
        }
        break;
    default:
        break;
    }
    return request;
}

std::string version_text() {
    return "plugin-pack (opdock) " OPDOCK_TOOL_VERSION;
}

} // namespace opdock::plugin_pack
