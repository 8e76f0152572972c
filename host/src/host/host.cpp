#include "host/host.hpp"

#include <pthread.h>

#include <list>
#include <new>
#include <optional>
#include <span>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "probe/probe.hpp"
#include "resolve/resolve_error.hpp"
#include "signature/standard_ops.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

// The hosts of this process and the handle indices they use. Both locks are held while the process forks, so that the
// child copies what is whole. The first is taken before a ledger's, the second after.
struct Hosts {
    std::mutex mutex;
    std::map<uint64_t, Host *> open;
    uint64_t next_id = 1;
    std::list<std::unique_ptr<Registrar>> registrars; // of closed hosts: plugins may have kept their registries

    std::mutex index_mutex;
    uint32_t next_index = 0;
    std::vector<uint32_t> free_indices;

    const Hosts *of_parent = nullptr; // abandoned, and still pointed to: it is no leak
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
    fresh->free_indices = std::move(old.free_indices); // with the room that it has
    fresh->of_parent = &old;
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
        if (all.free_indices.capacity() <= all.next_index) { // so that giving back needs no memory
            all.free_indices.reserve(2 * (size_t{all.next_index} + 1));
        }
        return all.next_index++;
    }
    const uint32_t index = all.free_indices.back();
    all.free_indices.pop_back();
    return index;
}

void give_back_indices(std::span<OpEntry *const> ops) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.index_mutex);
    for (const OpEntry *op : ops) {
        all.free_indices.push_back(op->index);
    }
}

} // namespace

Host::Host(HostOptions options)
    : id_(next_host_id()), log_(options.log), environment_given_(options.environment.has_value()),
      environment_(environment_given_ ? *options.environment : capture_environment(options.prefix)),
      system_policy_file_(options.system_policy_file), system_trust_folder_(options.system_trust_folder),
      workspace_(options.workspace), extensions_(options.extensions),
      probe_(options.probe ? *options.probe : find_probe()), now_(options.now),
      cache_folder_(options.cache_folder ? *options.cache_folder : environment_.cache_folder()),
      tune_mode_(environment_.tune_mode()), tune_budget_(environment_.tune_budget()),
      tune_database_(environment_.tune_database(options.cache_folder)), table_(new_plugin_table()),
      ledger_(new Ledger(journal_folder())) {
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
    if (is_inside_probe()) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    "a plugin's entry must not open a host: it only says what the plugin brings");
    }
    table_->host = this;
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
    std::optional<ClosingHost> closing;
    try {
        closing.emplace(thread_state());
    } catch (const std::bad_alloc &) { // NOLINT(bugprone-empty-catch): plugins are not kept from calling ops, then
    }
    Hosts &all = hosts();
    {
        const std::lock_guard lock(all.mutex);
        all.open.erase(id_);
    }
    const std::unique_ptr<Ledger> book(ledger_.load()); // in which plugins may still look something up
    book->memos.clear();                                // their plans go before the state of the devices
    for (const auto &[key, deployment] : book->deployments) {
        deployment->finish();
    }
    for (auto shutdown = book->shutdowns.rbegin(); shutdown != book->shutdowns.rend(); ++shutdown) {
        call_plugin([&] {
            shutdown->function(shutdown->user_data);
            return OPDOCK_OK;
        });
    }
    table_->close();
    ledger_ = nullptr;
    {
        const std::lock_guard lock(all.mutex);
        all.registrars.splice(all.registrars.end(), book->registrars);
    }
    if (const auto *ops = ops_.load()) {
        give_back_indices(*ops);
    }
}

void Host::publish_catalog(Catalog next) {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    const Catalog *const catalog_before = catalog_.load();
    const auto *const before = ops_.load();
    const Catalog &published = *book.catalogs.emplace_back(std::make_unique<const Catalog>(std::move(next)));
    auto made = before != nullptr ? std::make_unique<std::vector<OpEntry *>>(*before)
                                  : std::make_unique<std::vector<OpEntry *>>();
    std::vector<OpEntry *> &ops = *made;
    auto names = names_.load() != nullptr ? std::make_unique<NameTable>(*names_.load()) : std::make_unique<NameTable>();
    size_t first_without_index = ops.size();
    const size_t n_before = ops.size();
    try {
        for (const auto &[name, declared] : published.ops) {
            if (names->contains(name)) {
                continue;
            }
            auto op = std::make_unique<OpEntry>();
            op->name = name;
            op->host = this;
            op->number = static_cast<uint32_t>(ops.size());
            names->emplace(op->name, op.get());
            ops.push_back(op.get());
            book.ops.push_back(std::move(op));
        }
        for (; first_without_index < ops.size(); ++first_without_index) {
            ops[first_without_index]->index = take_index();
        }
        const NameTable *const kept_names = book.name_tables.emplace_back(std::move(names)).get();
        const auto *const kept_ops = book.op_lists.emplace_back(std::move(made)).get();
        catalog_.store(&published, std::memory_order_release);
        ops_.store(kept_ops, std::memory_order_release);
        publish(book);
        // Last: whoever finds an op by name finds its handle pointing to a target.
        names_.store(kept_names, std::memory_order_release);
    } catch (...) {
        // No memory: nothing of it was in force. Whoever listed plugins meanwhile saw one that is gone again.
        catalog_.store(catalog_before, std::memory_order_release);
        ops_.store(before, std::memory_order_release);
        give_back_indices(std::span(ops).subspan(n_before, first_without_index - n_before));
        throw;
    }
}

OpEntry *Host::find_op(std::string_view name) const {
    const NameTable &names = *names_.load(std::memory_order_acquire);
    if (const auto found = names.find(name); found != names.end()) {
        return found->second;
    }
    const auto found = names.find(standard_name(name));
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
    table_->users = 0; // those of the parent's other threads
    ledger().journal.leave_to_parent();
    auto *fresh = new Ledger(journal_folder());
    ledger_.store(fresh, std::memory_order_release);
    for (const PluginRecord &plugin : catalog().plugins) {
        if (plugin.tenancy) {
            plugin.tenancy->start_over_in_child();
        }
    }
    publish(*fresh);
}

void refuse_while_registering(const char *what) {
    if ((thread_state().flags & ThreadState::registering) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("a plugin's entry must not {}: it only says what the plugin brings", what));
    }
}

void refuse_op_calls() {
    refuse_while_registering("call ops");
    if ((thread_state().flags & ThreadState::closing) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "a plugin must not call ops while its host is being closed");
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
