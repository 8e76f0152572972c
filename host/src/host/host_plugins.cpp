// How plugins come into a host: found, looked at, tried in a process of their own, and opened when first chosen.
#include <algorithm>
#include <list>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "files/file_times.hpp"
#include "host/host.hpp"
#include "host/plugin_trust.hpp"
#include "inspect/library_place.hpp"
#include "load/deferred_plugin.hpp"
#include "load/kept_process.hpp"
#include "load/load.hpp"
#include "load/registration_difference.hpp"
#include "probe/scan.hpp"
#include "resolve/admission.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

std::string install_directory() {
    const std::filesystem::path library = library_directory();
    return library.empty() ? std::string() : (library / "opdock" / "plugins").string();
}

constexpr const char *own_vendor = "opdock"; // of the notes of opdock's own plugins

std::string text_of(const std::string &id, const std::vector<RegistrationError> &errors) {
    std::string message = fmt::format("plugin '{}' registered nothing because of ", id);
    message += errors.size() == 1 ? "an error: " : fmt::format("{} errors:", errors.size());
    for (const RegistrationError &error : errors) {
        message += (errors.size() == 1 ? "" : "\n  ") + error.message;
    }
    return message;
}

FileIdentity identity_in(const DeferredPlugin::Place &place) {
    struct stat status = {};
    // What cannot be looked at now cannot be read either: inspection says why.
    return ::fstatat(place.directory->descriptor(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0
               ? identity_of(status)
               : FileIdentity{};
}

// Keeps a plugin's folder when it is told to, and else when the plugin stays mapped though it was let go of, as inline
// variables of C++ make it: the loader would give it for a file of its name in the next folder with this descriptor.
class KeptIfMapped {
  public:
    explicit KeptIfMapped(const DeferredPlugin::Place &place)
        : directory_(place.directory), name_(place.directory->name_for_loader(place.name)) {}
    ~KeptIfMapped() {
        if (void *const mapped = kept_ ? nullptr : ::dlopen(name_.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
            ::dlclose(mapped);
            directory_.keep();
        }
    }
    KeptIfMapped(const KeptIfMapped &) = delete;
    KeptIfMapped &operator=(const KeptIfMapped &) = delete;

    void keep() noexcept {
        directory_.keep();
        kept_ = true;
    }

  private:
    KeptDirectory directory_;
    const std::string name_;
    bool kept_ = false;
};

std::variant<Loaded, Rejection> load_code(const DeferredPlugin::Place &place) {
    const LoadingCode constructors(thread_state());
    return load(*place.directory, place.name, place.identity);
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
        own_folder_ = directory.origin == "install" ? directory.path : own_folder_;
    }
    SearchResult found = search_plugins(input, environment_);
    paths_ = std::move(found.paths);
    std::string refused; // of what was asked for by name
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
    for (const PluginCandidate &candidate : found.candidates) {
        PluginRecord record = load_file(candidate, into, cache);
        if (record.status == PluginRecord::Status::rejected) {
            log_.warning(fmt::format("Plugin '{}' rejected ({}): {}", record.path, record.code, record.reason));
            if (candidate.requested) {
                refused += fmt::format("\n  {}: {}: {}", record.path, record.code, record.reason);
            }
        } else if (record.status == PluginRecord::Status::skipped) {
            log_.info(fmt::format("Plugin '{}' skipped ({}): {}", record.path, record.code, record.reason));
        }
        into.add(std::move(record));
    }
    cache.save();
    log_impl_ids(into);
    if (!refused.empty() && process_policy().strict()) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("strict is set ({}) and modules that were asked for did not load:{}",
                                process_policy().effective("", "", -1).strict_source, refused));
    }
}

PluginRecord Host::load_file(const PluginCandidate &candidate, Catalog &into, ScanCache &cache) {
    PluginRecord record;
    record.path = candidate.path;
    record.origin = candidate.origin;
    record.requested = candidate.requested;
    record.names_tune = !candidate.tune.empty();
    record.tune = record.names_tune ? candidate.tune : tune_file_beside(candidate.path);
    std::vector<CallDeath> call_deaths;
    try {
        const std::filesystem::path path = candidate.path;
        HeldDirectories &directories = ledger().directories;
        HeldFile file = candidate.status ? HeldFile{directories.of(path), path.filename().string()} // no link
                                         : directories.follow(path);
        DeferredPlugin::Place place{std::move(file.directory), std::move(file.name), {}};
        place.identity = candidate.status ? identity_of(*candidate.status) : identity_in(place);
        wait_until_changes_show(place.identity);
        judge_trust(candidate, place, record);
        const Scan scan = this->scan(place, into, cache, record);
        place.identity = scan.identity;
        place.deaths = scan.deaths;
        place.has_call_deaths = !scan.call_deaths.empty();
        const PluginIdentity identity = identify(place, *scan.note, record);
        if (scan.transcript != nullptr) {
            Registrar registrar(identity, &table_->api, ledger().signatures);
            registrar.run([&](opdock_registry *registry) { return scan.transcript->replay(registry); });
            for (const std::string &change : scan.transcript->changes()) {
                record.warnings.push_back(fmt::format("'{}' changes {} when it is loaded", place.name, change));
            }
            refuse_errors(registrar);
            judge_tune_file(record, registrar.registration());
            auto deferred = std::make_shared<DeferredPlugin>(*this, identity, std::move(place), registrar.take());
            admit(identity, deferred->known(), into, &record);
            record.deferred = std::move(deferred);
            call_deaths = scan.call_deaths;
        } else {
            const KeptProcess keep(log_, record.path);
            const Journal::Open entry =
                ledger().journal.write({JournalEntry::Doing::opening, record.path, {}, {}, place.identity});
            KeptIfMapped directory(place);
            table_->keep();
            auto loaded = load_code(place);
            if (const auto *rejection = std::get_if<Rejection>(&loaded)) {
                throw Rejected(rejection->code, rejection->message);
            }
            take(identity, std::get<Loaded>(loaded).entry, into, &record);
            keep_mapped(std::move(std::get<Loaded>(loaded)));
            directory.keep();
            if (scan.deaths != 0) { // who died while they opened it died of something else
                Scan opened = scan;
                opened.deaths = 0;
                cache.keep(record.path, opened);
            }
        }
    } catch (const Rejected &rejected) {
        record.status = is_skip(rejected.code()) ? PluginRecord::Status::skipped : PluginRecord::Status::rejected;
        record.code = code_text(rejected.code());
        record.reason = rejected.what();
        record.warnings.clear(); // they are about using it
        return record;
    }
    for (const std::string &warning : record.warnings) {
        log_.warning(fmt::format("Plugin {}", warning));
    }
    for (const CallDeath &death : call_deaths) { // was logged by the host that found it, and is listed from then on
        record.warnings.push_back(text_of(death));
    }
    if (log_.writes(OPDOCK_LOG_DEBUG)) {
        log_.debug(fmt::format("Plugin '{}' {} found in '{}'", record.id, record.version, record.path));
    }
    return record;
}

Scan Host::scan(const DeferredPlugin::Place &place, const Catalog &into, ScanCache &cache, PluginRecord &record) {
    std::optional<Scan> kept = cache.find(record.path, place.identity);
    Scan scan;
    if (kept && was_looked_at(*kept)) {
        scan = std::move(*kept);
    } else {
        scan = look_at(*place.directory, place.name, ledger().library_versions);
        scan.deaths = kept ? kept->deaths : 0;
        scan.interruptions = kept ? kept->interruptions : 0;
    }
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
        cache.keep(record.path, scan);
    }
    refuse_rejected();
    if (scan.identity != place.identity) {
        throw Rejected(RejectCode::file_changed, changed_since_judged(record.path).message);
    }
    if (kept) { // the file is the same; the machine may be another
        if (const auto reason = judge_cpu_features(place.name, scan.note->cpu_features, machine_cpu_features())) {
            throw Rejected(RejectCode::cpu_feature_missing, *reason);
        }
    }
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
    (void)identify(place, *scan.note, record); // for its standing
    if (const PluginRecord *other = into.find_plugin(record.id); other != nullptr && !yields(*other, record, into)) {
        throw Rejected(
            RejectCode::shadowed,
            fmt::format("plugin id '{}' is already taken by '{}', which was found first", record.id, other->path));
    }
    if (scan.transcript != nullptr) {
        return scan; // it was tried before
    }
    std::string why = "it is not installed (libexec/opdock/plugin-probe)";
    bool was_tried = false;
    {
        const Journal::Open entry =
            ledger().journal.write({JournalEntry::Doing::trying, record.path, {}, {}, scan.identity});
        was_tried = !probe_.empty() && try_out(scan, *place.directory, place.name, probe_, environment_.secure, &why);
    }
    if (!was_tried) {
        const PolicyStack policy = process_policy();
        if (refuses_unsafe_places(policy.strict(), policy.trust())) {
            throw Rejected(RejectCode::probe_unusable,
                           fmt::format("'{}' could not be tried in a process of its own: plugin-probe could not be "
                                       "used: {}.\nStrict mode and required trust open no plugin that was not tried.",
                                       place.name, why));
        }
        // Safer with it than without it, but no reason to do without the plugin.
        log_.warning(fmt::format("Plugin '{}' is opened without being tried in a process of its own first: "
                                 "plugin-probe could not be used: {}",
                                 record.path, why));
    }
    if (scan.rejection && scan.rejection->code == RejectCode::probe_stopped) { // to be tried again by the next host
        Scan untried = scan;
        untried.rejection.reset();
        cache.keep(record.path, untried);
    } else {
        cache.keep(record.path, scan);
    }
    refuse_rejected();
    return scan;
}

PluginIdentity Host::identify(const DeferredPlugin::Place &place, const Note &note, PluginRecord &record) const {
    struct stat own = {}, here = {};
    if (!own_folder_.empty() && ::stat(own_folder_.c_str(), &own) == 0 &&
        ::fstat(place.directory->descriptor(), &here) == 0 && own.st_dev == here.st_dev && own.st_ino == here.st_ino) {
        record.standing = same_name(note.vendor, own_vendor) ? Standing::own : Standing::beside;
    }
    return {
        note.id, note.vendor, record.path, true, note.devices, record.standing, is_named_default(note.id, note.vendor)};
}

bool Host::is_named_default(const std::string &id, const std::string &vendor) const {
    const auto named = process_policy().default_plugins();
    return named && std::any_of(named->value.begin(), named->value.end(), [&](const std::string &name) {
               return same_name(name, id) || same_name(name, vendor);
           });
}

bool Host::yields(const PluginRecord &earlier, const PluginRecord &later, const Catalog &in) const {
    return later.standing == Standing::own && earlier.standing < Standing::own && !in.in_use &&
           !is_named_default(earlier.id, earlier.vendor);
}

void Host::refuse_errors(const Registrar &registrar) const {
    if (!registrar.errors().empty()) {
        throw Rejected(registrar.errors().front().code, text_of(registrar.identity().id, registrar.errors()));
    }
    for (const std::string &warning : registrar.warnings()) {
        log_.warning(fmt::format("Plugin '{}': {}", registrar.identity().id, warning));
    }
}

void Host::admit(const PluginIdentity &identity, const Registration &registration, Catalog &into,
                 PluginRecord *record) const {
    if (const auto other = into.loaded.find(identity.id); other != into.loaded.end()) { // and yields
        PluginRecord &yielding = into.plugins[other->second];
        yielding.status = PluginRecord::Status::skipped;
        yielding.code = code_text(RejectCode::shadowed);
        yielding.reason =
            fmt::format("plugin id '{}' is that of opdock's own '{}'; to use this one in its place, name it "
                        "in {}",
                        identity.id, identity.path, environment_.name(Variable::default_plugins));
        yielding.warnings.clear();
        log_.warning(fmt::format("Plugin '{}' skipped ({}): {}", yielding.path, yielding.code, yielding.reason));
        into.remove_plugin(identity.id);
    }
    const Admission admission =
        judge_admission(into, registration, identity, environment_.name(Variable::default_plugins));
    if (!admission.errors.empty()) {
        throw Rejected(admission.errors.front().code, text_of(identity.id, admission.errors));
    }
    for (const std::string &sentence : admission.left_out) {
        const std::string text = fmt::format("'{}': {}", identity.id, sentence);
        if (record != nullptr) {
            record->warnings.push_back(text); // logged with the others
        } else {
            log_.warning(fmt::format("Plugin {}", text));
        }
    }
    for (const Admission::Loss &loss : admission.losses) {
        const std::string text = fmt::format("'{}': {}", loss.plugin, loss.sentence);
        log_.warning(fmt::format("Plugin {}", text));
        if (const auto loser = into.loaded.find(loss.plugin); loser != into.loaded.end()) {
            into.plugins[loser->second].warnings.push_back(text);
        }
    }
    core::admit(into, admission, identity.standing);
}

void Host::judge_tune_file(const PluginRecord &record, const Registration &registration) const {
    if (!process_policy().strict() || tune_mode_ == TuneMode::off) {
        return; // read when it is needed, and what is wrong with it is left out
    }
    std::vector<const Implementation *> implementations;
    for (const auto &implementation : registration.implementations) {
        implementations.push_back(implementation.get());
    }
    const PluginTuning tuning(record.tune, record.names_tune, implementations);
    if (!tuning.problems().empty()) {
        throw Rejected(RejectCode::tune_file_wrong,
                       fmt::format("{}\nStrict mode refuses a plugin whose tune file is wrong.",
                                   fmt::join(tuning.problems(), "\n")));
    }
}

void Host::take(const PluginIdentity &identity, opdock_entry entry, Catalog &into, PluginRecord *record) {
    // Both kept whatever comes of it: the plugin may have kept the registry, and what it knows of the host.
    table_->keep();
    Ledger &book = ledger();
    Registrar &registrar =
        *book.registrars.emplace_back(std::make_unique<Registrar>(identity, &table_->api, book.signatures));
    registrar.run(entry);
    refuse_errors(registrar);
    if (record != nullptr) {
        judge_tune_file(*record, registrar.registration());
    }
    const Registration registration = registrar.take();
    admit(identity, registration, into, record);
    book.shutdowns.insert(book.shutdowns.end(), registration.shutdowns.begin(), registration.shutdowns.end());
}

const Rejection *Host::open_plugin(DeferredPlugin &plugin) const {
    const auto rejection_in = [](const DeferredPlugin::Outcome &outcome) {
        return outcome.rejection ? &*outcome.rejection : nullptr;
    };
    if (const DeferredPlugin::Outcome *known = plugin.outcome()) {
        return rejection_in(*known);
    }
    Ledger &book = ledger();
    const std::lock_guard loading(book.loading);
    if (const DeferredPlugin::Outcome *known = plugin.outcome()) {
        return rejection_in(*known);
    }
    auto outcome = std::make_unique<DeferredPlugin::Outcome>();
    try {
        outcome->registration = open_and_register(book, plugin);
    } catch (const Rejected &rejected) {
        outcome->rejection = Rejection{rejected.code(), plugin.identity().path, rejected.what()};
        log_.warning(fmt::format("Plugin {}", plugin.unavailable(*outcome->rejection)));
    }
    const Rejection *const rejection = rejection_in(plugin.settle(std::move(outcome)));
    if (rejection == nullptr && plugin.place().deaths != 0) {
        forget_deaths(plugin);
    }
    return rejection;
}

Registration Host::open_and_register(Ledger &book, const DeferredPlugin &plugin) const {
    const KeptProcess keep(log_, plugin.identity().path);
    const DeferredPlugin::Place &place = plugin.place();
    const Journal::Open entry =
        book.journal.write({JournalEntry::Doing::opening, plugin.identity().path, {}, {}, place.identity});
    // Whatever needs memory first: once its code is there, it stays, whatever comes of it.
    std::list<std::unique_ptr<Registrar>> made;
    Registrar &registrar =
        *made.emplace_back(std::make_unique<Registrar>(plugin.identity(), &table_->api, book.signatures));
    KeptIfMapped directory(place);
    table_->keep();
    auto loaded = load_code(place);
    if (const auto *rejection = std::get_if<Rejection>(&loaded)) {
        throw Rejected(rejection->code, rejection->message);
    }
    const opdock_entry entry_point = std::get<Loaded>(loaded).entry;
    book.registrars.splice(book.registrars.end(), made);
    directory.keep();
    keep_mapped(std::move(std::get<Loaded>(loaded))); // threads of its own may run in it
    registrar.run(entry_point);
    if (!registrar.errors().empty()) {
        throw Rejected(
            RejectCode::registration_changed,
            fmt::format("{}.\nWhen it was scanned it registered without errors. What an entry registers must "
                        "depend on nothing but the file.",
                        text_of(plugin.identity().id, registrar.errors())));
    }
    Registration registration = registrar.take();
    if (const std::optional<std::string> difference = find_difference(plugin.known(), registration)) {
        throw Rejected(RejectCode::registration_changed,
                       fmt::format("{}.\nWhat an entry registers must depend on nothing but the file; what depends on "
                                   "the machine belongs into available().",
                                   *difference));
    }
    log_.debug(fmt::format("Plugin '{}' opened from '{}'", plugin.identity().id, plugin.identity().path));
    // Last, since what runs out of memory before is done again.
    book.shutdowns.insert(book.shutdowns.end(), registration.shutdowns.begin(), registration.shutdowns.end());
    return registration;
}

void Host::load(const std::string &path) {
    refuse_while_registering("load a plugin");
    if (!path.starts_with('/')) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("expected the absolute path of a plugin, found '{}'; the working directory is never "
                                "searched",
                                path));
    }
    Ledger &book = ledger();
    const std::lock_guard loading(book.loading);
    Catalog next = catalog();
    next.in_use = true;
    PluginCandidate candidate;
    candidate.path = path;
    candidate.origin = "program";
    candidate.requested = true;
    ScanCache cache(cache_folder_, log_);
    book.trust.keys.reset(); // somebody may have trusted another key since, and changed who may write where
    book.trust.rules = PathRules();
    book.trust.libraries = LibraryRules();
    PluginRecord record = load_file(candidate, next, cache);
    cache.save();
    if (record.status != PluginRecord::Status::loaded) {
        throw Error(OPDOCK_LOAD_FAILED, fmt::format("{}: {}: {}", path, record.code, record.reason));
    }
    next.add(std::move(record));
    publish_catalog(std::move(next));
}

void Host::register_module(const std::string &id, const std::string &vendor, opdock_entry entry) {
    refuse_while_registering("register a module");
    for (const auto &[what, name] : {std::pair("id", &id), std::pair("vendor", &vendor)}) {
        if (find_no_name_character(*name) != std::string::npos || name->size() > max_name_bytes) {
            throw Error(OPDOCK_INVALID_ARGUMENT,
                        fmt::format("the module's {} {} is no name: expected at most {} printable ASCII characters "
                                    "without spaces and {}",
                                    what, quote(*name), max_name_bytes, name_separators));
        }
    }
    Ledger &book = ledger();
    const std::lock_guard loading(book.loading);
    Catalog next = catalog();
    next.in_use = true;
    if (const PluginRecord *other = next.find_plugin(id)) {
        throw Error(OPDOCK_LOAD_FAILED, fmt::format("module '{}': the id is already taken by '{}'", id, other->path));
    }
    try {
        take({id, vendor, id}, entry, next, nullptr);
    } catch (const Rejected &rejected) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("module '{}': {}: {}", id, code_text(rejected.code()), rejected.what()));
    }
    PluginRecord record;
    record.id = id;
    record.vendor = vendor;
    record.origin = "program";
    record.standing = Standing::program;
    next.add(std::move(record));
    publish_catalog(std::move(next));
}

} // namespace opdock::core
