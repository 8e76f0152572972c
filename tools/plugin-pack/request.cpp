#include "request.hpp"

#include <algorithm>
#include <filesystem>

#include "cli/suggest.hpp"
#include "options.hpp"
#include "package.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

enum class Commit { needed, possible, none };

// The '@' of DIR@COMMIT: the last one after an existing folder, since refs and folders may contain '@'; if there is no
// such folder, the last one. npos if nothing follows it.
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
                              "' is not a valid name for a backend (letters, digits and ._-); write NAME=DIR");
    }
    return place;
}

// Otherwise the last step, printing the package, would fail.
void require_utf8(const char *option, const std::string &text) {
    if (!is_utf8(text)) {
        throw cli::UsageError(std::string("--") + option + ": " + core::quote(text) +
                              " is not UTF-8; write it in that encoding");
    }
}

// NAME=VERSION; with a single backend, the version alone.
void read_backend_version(const std::string &text, std::vector<BackendPlace> &places) {
    require_utf8("backend-version", text);
    const size_t equals = text.find('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    const bool is_of_one = name.empty() && places.size() == 1;
    const auto place =
        is_of_one ? places.begin()
                  : std::find_if(places.begin(), places.end(), [&](const auto &one) { return one.name == name; });
    if (place == places.end()) {
        throw cli::UsageError(
            "--backend-version " + text +
            (name.empty() ? ": it does not name its backend; write NAME=VERSION"
                          : ": there is no --backend with that name" + cli::did_you_mean(name, cli::names_of(places))));
    }
    if (!place->version.empty()) {
        throw cli::UsageError("--backend-version is given twice for " + place->name);
    }
    place->version = is_of_one ? text : text.substr(equals + 1);
}

void read_backends(Request &request, Commit commit) {
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

void read_commits(const cli::CommandLine & /*line*/, Request &request) {
    read_backends(request, Commit::needed);
}

void read_folders(const cli::CommandLine & /*line*/, Request &request) {
    read_backends(request, Commit::possible);
}

void read_merged(const cli::CommandLine & /*line*/, Request &request) {
    read_backends(request, request.merges ? Commit::needed : Commit::none);
}

void check_keys(const cli::CommandLine & /*line*/, Request &request) {
    if (request.key.empty() && !request.no_key) {
        throw cli::UsageError(
            "expected --key NAME.key, or --unsigned for a package that only --allow-unsigned accepts");
    }
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
    if (request.backends.empty() && request.attachments.empty()) {
        throw cli::UsageError("patch expects --backend [NAME=]DIR@COMMIT, or only files, such as --plugin libacme.so");
    }
    check_keys(line, request);
}

void check_unpatch(const cli::CommandLine &line, Request &request) {
    if (!request.subject.empty()) {
        for (const char *option : {"device-type", "task", "commit", "folder", "system"}) {
            if (line.given(option)) {
                throw cli::UsageError(std::string("--") + option +
                                      " selects an installed package, but one is named: " + request.subject);
            }
        }
        return;
    }
    if (!line.given("device-type") || !line.given("task")) {
        throw cli::UsageError(
            "unpatch expects the PACKAGE, or --device-type TYPE and --task TASK of one that is installed");
    }
}

void check_history(const cli::CommandLine &line, Request &request) {
    if (request.json && !request.out.empty()) {
        throw cli::UsageError(line.as_given("json") + " prints, and --out writes patch_history.yaml; give one");
    }
}

} // namespace opdock::plugin_pack
