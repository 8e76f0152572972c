// Loads plugins into a host: finds and inspects them, and tries each in a separate process.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <sys/stat.h>

#include "files/file_times.hpp"
#include "host/host.hpp"
#include "host/plugin_trust.hpp"
#include "inspect/elf_notes.hpp"
#include "inspect/library_place.hpp"
#include "load/deferred_plugin.hpp"
#include "load/load.hpp"
#include "probe/probe.hpp"
#include "probe/scan.hpp"
#include "probe/transcript_format.h"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

std::string install_directory() {
    const std::filesystem::path library = library_directory();
    return library.empty() ? std::string() : (library / "opdock" / "plugins").string();
}

constexpr const char *own_vendor = "opdock"; // in the notes of opdock's own plugins

FileIdentity identity_in(const DeferredPlugin::Place &place) {
    struct stat status = {};
    // If it cannot be examined now, it cannot be read either: inspection says why.
    return ::fstatat(place.directory->descriptor(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0
               ? identity_of(status)
               : FileIdentity{};
}

// The reason for rejecting a file whose id `other` already has. `file`: the file's own identity.
std::string taken_text(const PluginRecord &record, const PluginRecord &other, const FileIdentity &file) {
    if (other.path != record.path) {
        return fmt::format("plugin id '{}' is already taken by '{}', which was found first.\nKeep only one of them in "
                           "the searched folders, or give your plugin its own id in OPDOCK_NOTE.",
                           record.id, other.path);
    }
    if (has_same_content(other.file, file)) {
        return fmt::format("plugin '{}' is already loaded from this file", record.id);
    }
    return fmt::format(
        "plugin '{}' was already loaded from this path, but the file was replaced since: {} is in use, and {} is there "
        "now.\nA host does not replace a plugin that calls may be using: close this host and open a new one.",
        record.id, build_text(other.build_id), build_text(record.build_id));
}

// The first library that was loaded with the plugin when it was tried and that is now gone or a different file.
std::optional<std::string> find_changed_library(const Transcript &transcript, const DeferredPlugin::Place &place,
                                                std::unordered_map<std::string, FileIdentity> &known) {
    for (const UsedLibrary &library : transcript.libraries()) {
        // Inside the plugin's folder, as the probe holds it.
        static const std::string held = fmt::format("/proc/self/fd/{}", OPDOCK_PROBE_DIRECTORY);
        std::string path = library.path.starts_with(held + '/')
                               ? place.directory->path() + library.path.substr(held.size())
                               : library.path;
        const auto [found, is_new] = known.try_emplace(path);
        struct stat status = {};
        if (is_new && ::stat(path.c_str(), &status) == 0) {
            found->second = identity_of(status);
        }
        if (found->second != library.identity) {
            return path;
        }
    }
    return std::nullopt;
}

} // namespace

void Host::log_impl_ids(const Catalog &catalog) const {
    if (!log_.writes(OPDOCK_LOG_INFO)) {
        return;
    }
    std::vector<std::string_view> impl_ids;
    for (const auto &[name, op] : catalog.ops) {
        for (const auto &implementation : op->implementations) {
            impl_ids.push_back(implementation->impl_id);
        }
    }
    std::sort(impl_ids.begin(), impl_ids.end());
    impl_ids.erase(std::unique(impl_ids.begin(), impl_ids.end()), impl_ids.end());
    log_.info(impl_ids.empty() ? "Registered impl_ids: []"
                               : fmt::format("Registered impl_ids: ['{}']", fmt::join(impl_ids, "', '")));
}

void Host::load_found(const HostOptions &options, Catalog &into) {
    SearchInput input;
    input.modules = options.modules;
    input.standard_directories =
        options.standard_directories ? *options.standard_directories : standard_directories(install_directory());
    for (const SearchDirectory &directory : input.standard_directories) {
        own_folder_ = directory.origin == "install" ? identity_of_folder(directory.path) : own_folder_;
    }
    SearchResult found = search_plugins(input, environment_);
    paths_ = std::move(found.paths);
    std::string refused; // problems with explicitly requested plugins
    problems_ = std::move(found.problems);
    for (const SearchProblem &problem : problems_) {
        log_.warning(problem.message);
        if (problem.requested) {
            refused += "\n  " + problem.message;
        }
    }
    ScanCache cache(cache_folder_, log_);
    read_journals(cache);
    if (options.rescan) {
        cache.forget_all();
    }
    std::set<std::pair<dev_t, ino_t>> taken; // files that were not rejected
    for (const PluginCandidate &candidate : found.candidates) {
        struct stat status = {};
        if (candidate.status) {
            status = *candidate.status;
        } else {
            (void)::stat(candidate.path.c_str(), &status);
        }
        const std::pair file(status.st_dev, status.st_ino);
        if (candidate.again && taken.contains(file)) {
            continue;
        }
        PluginRecord record = load_file(candidate, into, cache, options.retry && candidate.origin == program_origin);
        if (record.status == PluginRecord::Status::rejected) {
            log_.warning(fmt::format("Plugin '{}' rejected ({}): {}", record.path, record.code, record.reason));
            if (candidate.requested) {
                refused += fmt::format("\n  {}: {}: {}", record.path, record.code, record.reason);
            }
        } else if (record.status == PluginRecord::Status::skipped) {
            log_.info(fmt::format("Plugin '{}' skipped ({}): {}", record.path, record.code, record.reason));
        }
        if (record.status != PluginRecord::Status::rejected) {
            taken.insert(file);
        }
        into.add(std::move(record));
    }
    cache.save();
    log_impl_ids(into);
    if (!refused.empty() && process_policy().strict()) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("strict is set ({}) and requested modules did not load:{}",
                                process_policy().effective("", "", -1).source(settings::strict), refused));
    }
}

void Host::take_tried(const PluginIdentity &identity, const Scan &scan, DeferredPlugin::Place place, Catalog &into,
                      PluginRecord &record) {
    Registrar registrar(identity, &table_->api, loading().signatures);
    registrar.run([&](opdock_registry *registry) { return scan.transcript->replay(registry); });
    for (const std::string &change : scan.transcript->changes()) {
        record.warnings.push_back(fmt::format("'{}' changes {} when it is loaded", place.name, visible_line(change)));
    }
    refuse_errors(registrar, &record);
    judge_tune_file(record, registrar.registration());
    auto deferred = std::make_shared<DeferredPlugin>(*this, identity, std::move(place), registrar.take());
    admit(identity, deferred->known(), into, &record);
    record.deferred = std::move(deferred);
}

std::vector<CallDeath> Host::judge_and_take(const PluginCandidate &candidate, Catalog &into, ScanCache &cache,
                                            bool retry, PluginRecord &record) {
    const std::filesystem::path path = candidate.path;
    HeldDirectories &directories = loading().directories;
    HeldFile file = candidate.status ? HeldFile{directories.of(path), path.filename().string()} // no link
                                     : directories.follow(path);
    DeferredPlugin::Place place{std::move(file.directory), std::move(file.name), {}};
    place.remembered = remembered_path({place.directory, place.name});
    place.identity = candidate.status ? identity_of(*candidate.status) : identity_in(place);
    if (retry) {
        cache.forget_rejection(place.remembered);
    }
    wait_until_changes_show(place.identity);
    judge_trust(candidate, place, record);
    const Scan scan = this->scan(place, into, cache, record);
    place.identity = scan.identity;
    record.file = scan.identity;
    place.has_call_deaths = !scan.call_deaths.empty();
    const PluginIdentity identity = {record.id,
                                     record.vendor,
                                     record.path,
                                     true,
                                     scan.note->devices,
                                     record.standing,
                                     is_named_default(record.id, record.vendor),
                                     scan.note->abi};
    if (scan.transcript != nullptr) {
        take_tried(identity, scan, std::move(place), into, record);
        return scan.call_deaths;
    }
    open_untried(identity, place, into, record);
    if (scan.deaths != 0) { // earlier deaths while opening it had other causes
        Scan opened = scan;
        opened.deaths = 0;
        cache.keep(place.remembered, opened);
    }
    return {};
}

PluginRecord Host::load_file(const PluginCandidate &candidate, Catalog &into, ScanCache &cache, bool retry) {
    PluginRecord record;
    record.path = candidate.path;
    record.origin = candidate.origin;
    record.requested = candidate.requested;
    record.names_tune = !candidate.tune.empty();
    record.tune = record.names_tune ? candidate.tune : tune_file_beside(candidate.path);
    std::vector<CallDeath> call_deaths;
    try {
        call_deaths = judge_and_take(candidate, into, cache, retry, record);
    } catch (const Rejected &rejected) {
        record.status = is_skip(rejected.code()) ? PluginRecord::Status::skipped : PluginRecord::Status::rejected;
        record.code = code_text(rejected.code());
        record.reason = rejected.what();
        record.warnings.clear(); // they concern its use
        record.left_out.clear();
        return record;
    }
    for (const std::string &warning : record.warnings) {
        log_.warning(fmt::format("Plugin {}", warning));
    }
    for (const CallDeath &death : call_deaths) { // logged by the host that found it; listed from then on
        record.warnings.push_back(text_of(death));
    }
    if (log_.writes(OPDOCK_LOG_DEBUG)) {
        log_.debug(fmt::format("Plugin '{}' {} found in '{}'", record.id, record.version, record.path));
    }
    return record;
}

void Host::log_printed(std::string_view printed, const std::string &name, std::int32_t level) const {
    const bool is_cut = printed.size() >= most_printed_bytes;
    while (!printed.empty()) {
        const std::size_t end = std::min(printed.find_first_of("\r\n"), printed.size());
        if (end != 0) {
            log_.write(level, fmt::format("Plugin '{}' printed while it was tried: {}", name, printed.substr(0, end)));
        }
        printed.remove_prefix(std::min(end + 1, printed.size()));
    }
    if (is_cut) {
        log_.write(level, fmt::format("Plugin '{}' printed {} KiB or more while it was tried; the rest is not shown",
                                      name, most_printed_bytes >> 10));
    }
}

Scan Host::known_scan(const DeferredPlugin::Place &place, std::optional<Scan> kept, const std::string &path) {
    Scan scan;
    if (kept && was_looked_at(*kept)) {
        scan = std::move(*kept);
        const auto changed = scan.transcript != nullptr
                                 ? find_changed_library(*scan.transcript, place, loading().trust.library_files)
                                 : std::nullopt;
        if (changed) {
            log_.debug(fmt::format("Plugin '{}' is tried again: the library '{}' that it uses was changed or removed",
                                   path, visible_line(*changed)));
            scan.transcript.reset();
        }
        return scan;
    }
    scan = look_at(*place.directory, place.name, loading().library_versions);
    scan.deaths = kept ? kept->deaths : 0;
    scan.interruptions = kept ? kept->interruptions : 0;
    return scan;
}

void Host::judge_scan(const Scan &scan, const DeferredPlugin::Place &place, const Catalog &into, PluginRecord &record) {
    for (const std::string &weakness : scan.weaknesses) {
        if (process_policy().strict()) {
            throw Rejected(RejectCode::unsafe_memory, weakness + " Strict mode refuses it.");
        }
        record.warnings.push_back(weakness);
    }
    record.warnings.insert(record.warnings.end(), scan.remarks.begin(), scan.remarks.end());
    judge_libraries(scan, place, record);
    const std::vector<std::string> &devices = scan.note->devices;
    if (environment_.is_on(Variable::skip_cuda) && !devices.empty() &&
        std::all_of(devices.begin(), devices.end(), [](const std::string &device) { return device == "cuda"; })) {
        throw Rejected(RejectCode::cuda_skipped,
                       fmt::format("it is for CUDA, and {} is set", environment_.name(Variable::skip_cuda)));
    }
    if (own_folder_ == place.directory->identity()) {
        record.standing = same_name(scan.note->vendor, own_vendor) ? Standing::own : Standing::beside;
    }
    if (const PluginRecord *other = into.find_plugin(record.id); other != nullptr && !yields(*other, record, into)) {
        throw Rejected(RejectCode::shadowed, taken_text(record, *other, place.identity));
    }
}

void Host::try_plugin(Scan &scan, const DeferredPlugin::Place &place, const std::string &path) {
    Trial trial;
    trial.why = "it is not installed (libexec/opdock/plugin-probe)";
    {
        const Journal::Open entry =
            ledger().journal.write({JournalEntry::Doing::trying, place.remembered, {}, {}, scan.identity});
        if (!probe_.empty()) {
            trial = try_out(scan, *place.directory, place.name, probe_, environment_.secure);
        }
    }
    log_printed(trial.printed, place.name, scan.rejection ? OPDOCK_LOG_WARNING : OPDOCK_LOG_INFO);
    if (trial.took_place) {
        return;
    }
    const PolicyStack policy = process_policy();
    if (refuses_unsafe_places(policy.strict(), policy.trust())) {
        throw Rejected(RejectCode::probe_unusable,
                       fmt::format("'{}' could not be tried in a process of its own: plugin-probe could not be used: "
                                   "{}.\nStrict mode and required trust open no plugin that was not tried.",
                                   place.name, trial.why));
    }
    // Opening it after a trial would be safer, but there is no reason to reject the plugin.
    log_.warning(fmt::format("Plugin '{}' is opened without being tried in a process of its own first: plugin-probe "
                             "could not be used: {}",
                             path, trial.why));
}

Scan Host::scan(const DeferredPlugin::Place &place, const Catalog &into, ScanCache &cache, PluginRecord &record) {
    std::optional<Scan> kept = cache.find(place.remembered, place.identity);
    const bool was_kept = kept.has_value();
    Scan scan = known_scan(place, std::move(kept), record.path);
    if (scan.note) {
        record.id = scan.note->id;
        record.version = scan.note->version;
        record.vendor = scan.note->vendor;
    }
    record.build_id = scan.build_id;
    const auto refuse_rejected = [&] {
        if (scan.rejection) {
            throw Rejected(scan.rejection->code, scan.rejection->message);
        }
    };
    if (scan.rejection) {
        cache.keep(place.remembered, scan);
    }
    refuse_rejected();
    if (scan.identity != place.identity) {
        throw Rejected(RejectCode::file_changed, changed_since_judged(record.path).message);
    }
    if (was_kept) { // the same file, but perhaps another machine
        if (const auto reason = judge_cpu_features(place.name, scan.note->cpu_features, machine_cpu_features())) {
            throw Rejected(RejectCode::cpu_feature_missing, *reason);
        }
    }
    judge_scan(scan, place, into, record);
    if (scan.transcript != nullptr) {
        return scan; // tried before
    }
    try_plugin(scan, place, record.path);
    Scan known = scan;
    if (scan.rejection && scan.rejection->code == RejectCode::probe_stopped) { // the next host tries again
        known.rejection.reset();
    }
    cache.keep(place.remembered, known);
    refuse_rejected();
    return scan;
}

void Host::load(const std::string &path) {
    refuse_while_registering("load a plugin");
    refuse_when_frozen("be loaded");
    if (!path.starts_with('/')) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("expected the absolute path of a plugin, found '{}'; the working directory is never "
                                "searched",
                                path));
    }
    Loading &book = loading();
    const std::lock_guard lock(book.mutex);
    Catalog next = catalog();
    next.in_use = true;
    PluginCandidate candidate;
    candidate.path = path;
    candidate.origin = program_origin;
    candidate.requested = true;
    ScanCache cache(cache_folder_, log_);
    book.trust.keys.reset(); // meanwhile keys may have been trusted, or permissions changed
    book.trust.rules = PathRules();
    book.trust.libraries = LibraryRules();
    book.trust.library_files.clear();
    PluginRecord record = load_file(candidate, next, cache, false);
    cache.save();
    if (record.status != PluginRecord::Status::loaded) {
        throw Error(OPDOCK_LOAD_FAILED, fmt::format("{}: {}: {}", path, record.code, record.reason));
    }
    next.add(std::move(record));
    publish_catalog(std::move(next));
    log_impl_ids(catalog());
}

} // namespace opdock::core
