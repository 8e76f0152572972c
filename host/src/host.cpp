#include "host.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "error.hpp"
#include "inspect.hpp"
#include "load.hpp"
#include "plugin_call.hpp"
#include "resolve_error.hpp"

namespace opdock::core {
namespace {

// The hosts of this process and the handle indices they use. Both locks are held while the process forks, so that the
// child copies what is whole. The first is taken before a ledger's, the second after.
struct Hosts {
    std::mutex mutex;
    std::map<uint64_t, Host *> open;
    uint64_t next_id = 1;
    std::vector<std::unique_ptr<Registrar>> registrars; // of closed hosts: plugins may have kept their registries

    std::mutex index_mutex;
    uint32_t next_index = 0;
    std::vector<uint32_t> free_indices;
};

Hosts *&hosts_pointer() {
    static auto *hosts = new Hosts; // never freed: threads may end after main returned
    return hosts;
}

Hosts &hosts() {
    return *hosts_pointer();
}

void before_fork() {
    hosts().mutex.lock();
    hosts().index_mutex.lock();
}

void after_fork_in_parent() {
    hosts().index_mutex.unlock();
    hosts().mutex.unlock();
}

void start_over_in_child() {
    // Only this thread is left. What another thread was changing under a ledger's lock is abandoned, half changed or
    // not; what is kept was published whole.
    auto fresh = std::make_unique<Hosts>();
    Hosts &old = hosts();
    fresh->open = old.open;
    fresh->next_id = old.next_id;
    fresh->registrars = std::move(old.registrars);
    fresh->next_index = old.next_index;
    fresh->free_indices = old.free_indices;
    hosts_pointer() = fresh.release();
    if (opdock_thread_state != nullptr) {
        ThreadState &thread = *opdock_thread_state;
        for (const auto &slot : thread.slot_storage) {
            if (slot) {
                *slot = {};
            }
        }
        thread.latest.fill({});
        for (Scope &scope : thread.scopes) {
            scope.policy_generation = 0;
        }
    }
    for (const auto &[id, host] : hosts().open) {
        host->start_over_in_child();
    }
}

void handle_forks() {
    static const int once = pthread_atfork(before_fork, after_fork_in_parent, start_over_in_child);
    (void)once;
}

uint64_t next_host_id() {
    const std::lock_guard lock(hosts().mutex);
    return hosts().next_id++;
}

uint32_t take_index() {
    Hosts &all = hosts();
    const std::lock_guard lock(all.index_mutex);
    if (all.free_indices.empty()) {
        return all.next_index++;
    }
    const uint32_t index = all.free_indices.back();
    all.free_indices.pop_back();
    return index;
}

// <libdir>/opdock/plugins for the libdir this library was loaded from.
std::string install_directory() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(&install_directory), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code ignored;
    const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, ignored);
    return ignored ? std::string() : (library.parent_path() / "opdock" / "plugins").string();
}

} // namespace

Host::Host(HostOptions options)
    : id_(next_host_id()), log_(options.log), environment_given_(options.environment.has_value()),
      environment_(environment_given_ ? *options.environment : capture_environment(options.prefix)),
      system_policy_file_(options.system_policy_file), workspace_(options.workspace), table_(new_plugin_table()),
      ledger_(new Ledger) {
    try {
        open(options);
    } catch (...) {
        close();
        throw;
    }
}

Host::~Host() {
    close();
}

void Host::open(const HostOptions &options) {
    table_.host = this;
    handle_forks();
    log_.set_level(environment_.log_level(OPDOCK_LOG_INFO));
    for (const std::string &warning : environment_.warnings) {
        log_.warning(warning);
    }
    LoadedPolicy policy = load_policy(environment_, system_policy_file_);
    for (const std::string &warning : policy.warnings) {
        log_.warning(warning);
    }
    Ledger &book = ledger();
    policy_ = book.policies.emplace_back(std::make_unique<const PolicyStack>(std::move(policy.stack))).get();

    Catalog found;
    found.providers.push_back(cpu_provider());
    load_found(options, found);
    check_names(process_policy(), found);
    publish_catalog(std::move(found));
    const std::lock_guard lock(hosts().mutex);
    hosts().open.emplace(id_, this);
}

void Host::close() {
    Hosts &all = hosts();
    {
        const std::lock_guard lock(all.mutex);
        all.open.erase(id_);
    }
    const std::unique_ptr<Ledger> book(ledger_.exchange(nullptr));
    book->memos.clear(); // their plans go before the state of the devices
    for (const auto &[key, deployment] : book->deployments) {
        deployment->finish();
    }
    const Catalog *catalog = catalog_.load();
    if (catalog != nullptr && forks() == 0) { // in a child, what they would stop was never started
        for (auto shutdown = catalog->shutdowns.rbegin(); shutdown != catalog->shutdowns.rend(); ++shutdown) {
            call_plugin([&] {
                shutdown->function(shutdown->user_data);
                return OPDOCK_OK;
            });
        }
    }
    table_.close();
    {
        const std::lock_guard lock(all.mutex);
        std::move(book->registrars.begin(), book->registrars.end(), std::back_inserter(all.registrars));
    }
    const std::lock_guard lock(all.index_mutex);
    if (const auto *ops = ops_.load()) {
        for (const OpEntry *op : *ops) {
            all.free_indices.push_back(op->index);
        }
    }
}

void Host::load_found(const HostOptions &options, Catalog &into) {
    SearchInput input;
    input.modules = options.modules;
    input.standard_directories =
        options.standard_directories ? *options.standard_directories : standard_directories(install_directory());
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
    for (const PluginCandidate &candidate : found.candidates) {
        PluginRecord record = load_file(candidate, into);
        if (record.status == PluginRecord::Status::rejected) {
            log_.warning(fmt::format("Plugin '{}' rejected ({}): {}", record.path, record.code, record.reason));
            if (candidate.requested) {
                refused += fmt::format("\n  {}: {}: {}", record.path, record.code, record.reason);
            }
        } else if (record.status == PluginRecord::Status::skipped) {
            log_.info(fmt::format("Plugin '{}' skipped ({}): {}", record.path, record.code, record.reason));
        }
        into.plugins.push_back(std::move(record));
    }
    std::set<std::string> impl_ids;
    for (const auto &[name, op] : into.ops) {
        for (const auto &implementation : op->implementations) {
            impl_ids.insert("'" + implementation->impl_id + "'");
        }
    }
    log_.info(fmt::format("Registered impl_ids: [{}]", fmt::join(impl_ids, ", ")));
    if (!refused.empty() && process_policy().strict()) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("strict is set ({}) and modules that were asked for did not load:{}",
                                process_policy().effective("", "", -1).strict_source, refused));
    }
}

PluginRecord Host::load_file(const PluginCandidate &candidate, Catalog &into) {
    PluginRecord record;
    record.path = candidate.path;
    record.origin = candidate.origin;
    record.requested = candidate.requested;
    const auto refuse = [&](RejectCode code, const std::string &reason) {
        record.status = is_skip(code) ? PluginRecord::Status::skipped : PluginRecord::Status::rejected;
        record.code = code_text(code);
        record.reason = reason;
        return record;
    };
    const Inspection inspection = inspect(candidate.path, ledger().library_versions);
    if (inspection.note) {
        record.id = inspection.note->id;
        record.version = inspection.note->version;
        record.vendor = inspection.note->vendor;
    }
    if (inspection.rejection) {
        return refuse(inspection.rejection->code, inspection.rejection->message);
    }
    for (const std::string &weakness : inspection.weaknesses) {
        if (process_policy().strict()) {
            return refuse(RejectCode::unsafe_memory, weakness + " Strict mode refuses it.");
        }
        log_.warning(fmt::format("Plugin {}", weakness));
    }
    const std::vector<std::string> &devices = inspection.note->devices;
    if (environment_.is_on(Variable::skip_cuda) && !devices.empty() &&
        std::all_of(devices.begin(), devices.end(), [](const std::string &device) { return device == "cuda"; })) {
        return refuse(RejectCode::cuda_skipped,
                      fmt::format("it is for CUDA, and {} is set", environment_.name(Variable::skip_cuda)));
    }
    if (const PluginRecord *other = into.find_plugin(record.id)) {
        return refuse(
            RejectCode::shadowed,
            fmt::format("plugin id '{}' is already taken by '{}', which was found first", record.id, other->path));
    }
    auto loaded = core::load(candidate.path);
    if (const auto *rejection = std::get_if<Rejection>(&loaded)) {
        return refuse(rejection->code, rejection->message);
    }
    try {
        take({record.id, record.vendor, record.path, true, devices}, std::get<Loaded>(loaded).entry, into);
    } catch (const Rejected &rejected) {
        return refuse(rejected.code(), rejected.what());
    }
    keep_mapped(std::move(std::get<Loaded>(loaded)));
    log_.debug(fmt::format("Plugin '{}' {} loaded from '{}'", record.id, record.version, record.path));
    return record;
}

void Host::take(const PluginIdentity &identity, opdock_entry entry, Catalog &into) {
    // Kept whatever comes of it: the plugin may have kept the registry.
    Registrar &registrar = *ledger().registrars.emplace_back(std::make_unique<Registrar>(identity, &table_.api));
    registrar.run(entry);
    std::vector<RegistrationError> errors = registrar.errors();
    const Registration registration = registrar.take();
    if (errors.empty()) {
        errors = conflicts(into, registration, identity.id);
    }
    if (!errors.empty()) {
        std::string message = fmt::format("plugin '{}' registered nothing because of ", identity.id);
        message += errors.size() == 1 ? "an error: " : fmt::format("{} errors:", errors.size());
        for (const RegistrationError &error : errors) {
            message += (errors.size() == 1 ? "" : "\n  ") + error.message;
        }
        throw Rejected(errors.front().code, message);
    }
    for (const std::string &warning : registrar.warnings()) {
        log_.warning(fmt::format("Plugin '{}': {}", identity.id, warning));
    }
    extend(into, registration);
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
    PluginCandidate candidate;
    candidate.path = path;
    candidate.origin = "program";
    candidate.requested = true;
    PluginRecord record = load_file(candidate, next);
    if (record.status != PluginRecord::Status::loaded) {
        throw Error(OPDOCK_LOAD_FAILED, fmt::format("{}: {}: {}", path, record.code, record.reason));
    }
    next.plugins.push_back(std::move(record));
    publish_catalog(std::move(next));
}

void Host::register_module(const std::string &id, const std::string &vendor, opdock_entry entry) {
    refuse_while_registering("register a module");
    Ledger &book = ledger();
    const std::lock_guard loading(book.loading);
    Catalog next = catalog();
    if (const PluginRecord *other = next.find_plugin(id)) {
        throw Error(OPDOCK_LOAD_FAILED, fmt::format("module '{}': the id is already taken by '{}'", id, other->path));
    }
    try {
        take({id, vendor, id}, entry, next);
    } catch (const Rejected &rejected) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("module '{}': {}: {}", id, code_text(rejected.code()), rejected.what()));
    }
    PluginRecord record;
    record.id = id;
    record.vendor = vendor;
    record.origin = "program";
    next.plugins.push_back(std::move(record));
    publish_catalog(std::move(next));
}

void Host::publish_catalog(Catalog next) {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    catalog_.store(book.catalogs.emplace_back(std::make_unique<const Catalog>(std::move(next))).get(),
                   std::memory_order_release);
    const auto *before = ops_.load();
    auto ops = before != nullptr ? std::make_unique<std::vector<OpEntry *>>(*before)
                                 : std::make_unique<std::vector<OpEntry *>>();
    auto names = names_.load() != nullptr ? std::make_unique<NameTable>(*names_.load()) : std::make_unique<NameTable>();
    for (const auto &[name, declared] : catalog().ops) {
        if (names->contains(name)) {
            continue;
        }
        OpEntry &op = *book.ops.emplace_back(std::make_unique<OpEntry>());
        op.layout = 1;
        op.index = take_index();
        op.name = name;
        op.host = this;
        op.number = static_cast<uint32_t>(ops->size());
        ops->push_back(&op);
        names->emplace(op.name, &op);
    }
    ops_.store(book.op_lists.emplace_back(std::move(ops)).get(), std::memory_order_release);
    publish(book, true);
    // Last: whoever finds an op by name finds its handle pointing to a target.
    names_.store(book.name_tables.emplace_back(std::move(names)).get(), std::memory_order_release);
}

OpEntry *Host::find_op(std::string_view name) const {
    const NameTable &names = *names_.load(std::memory_order_acquire);
    const auto found = names.find(name);
    return found == names.end() ? nullptr : found->second;
}

OpEntry &Host::op(std::string_view name) const {
    if (OpEntry *found = find_op(name)) {
        return *found;
    }
    std::vector<std::string_view> known;
    for (const auto &[op, declared] : catalog().ops) {
        known.push_back(op);
    }
    throw unknown_op_error(name, known, catalog().rejected_plugins());
}

void Host::start_over_in_child() {
    forks_.fetch_add(1, std::memory_order_relaxed);
    table_.users = 0; // those of the parent's other threads
    auto *fresh = new Ledger;
    ledger_.store(fresh, std::memory_order_release);
    publish(*fresh, true);
}

void refuse_while_registering(const char *what) {
    if ((thread_state().flags & ThreadState::registering) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("a plugin's entry must not {}: it only says what the plugin brings", what));
    }
}

void release_memos_of(ThreadState &thread) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.mutex);
    for (const auto &slot : thread.slot_storage) {
        for (size_t i = 0; slot && i < Slot::n_ways; ++i) {
            const Way &way = slot->ways.at(i);
            const auto host = all.open.find(way.host_id);
            if (way.memo != nullptr && host != all.open.end()) {
                host->second->release(way.memo);
            }
        }
    }
}

} // namespace opdock::core
