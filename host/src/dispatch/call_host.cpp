#include "dispatch/call_host.hpp"

#include <memory>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/open_hosts.hpp"
#include "load/tenancy.hpp"
#include "signature/other_names.hpp"
#include "text/error.hpp"

namespace opdock::core {

CallHost::CallHost(Options options)
    : log_(options.log), devices_(options.api, std::move(options.ask_device_command)),
      configs_(std::move(options.configs), devices_, log_), id_(next_host_id()), workspace_(options.workspace),
      journal_folder_(std::move(options.journal_folder)), now_(options.now),
      ledger_(new Ledger(journal_folder_, log_)) {}

CallHost::~CallHost() {
    const std::unique_ptr<const Ledger> gone(ledger_.load());
    if (const auto *ops = ops_.load()) {
        give_back_indices(*ops);
    }
}

void CallHost::start_observing(CallObserver::Options options) {
    auto observer = std::make_shared<CallObserver>(std::move(options), devices_, log_);
    observer_ = observer->watches() ? std::move(observer) : nullptr;
}

void CallHost::start_shadows(std::vector<ShadowRule> rules, std::string source) {
    shadow_rules_ = std::move(rules);
    shadow_source_ = std::move(source);
}

std::function<void()> CallHost::work_at_exit() const {
    return observer_ ? [observer = observer_] { observer->finish(); } : std::function<void()>();
}

void CallHost::end_calls() {
    if (observer_) {
        observer_->ask_devices();
    }
    Ledger &book = ledger();
    tell_left_out();
    book.memos.clear(); // their plans must go before the device states
    for (const auto &[key, deployment] : book.deployments) {
        deployment->finish();
    }
    if (observer_) {
        observer_->finish(); // memos have reported their counts by now
    }
}

void CallHost::before_fork() {
    if (observer_) {
        observer_->before_fork();
    }
}

void CallHost::after_fork() {
    if (observer_) {
        observer_->after_fork();
    }
}

void CallHost::start_over_in_child() {
    if (observer_) {
        observer_->start_over_in_child();
    }
    devices_.start_over_in_child();
    configs_.start_over_in_child();
    counts_.start_over_in_child();
    is_idle_child_.store(true, std::memory_order_relaxed);
    ledger().journal.leave_to_parent();
    auto *fresh = new Ledger(journal_folder_, log_);
    ledger_.store(fresh, std::memory_order_release);
    for (const PluginRecord &plugin : catalog().plugins) {
        if (plugin.tenancy) {
            plugin.tenancy->start_over_in_child();
        }
    }
    publish(*fresh);
}

void CallHost::set_first_policy(PolicyStack policy) {
    policy_ = ledger().policies.emplace_back(std::make_unique<const PolicyStack>(std::move(policy))).get();
}

void CallHost::publish_catalog(Catalog next) {
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
        devices_.publish(published.providers);
        ops_.store(kept_ops, std::memory_order_release);
        publish(book);
        // Last: a handle found by name must already point to a target.
        names_.store(kept_names, std::memory_order_release);
    } catch (...) {
        // Out of memory: undo everything. A concurrent listing of plugins may have seen one that is gone again.
        catalog_.store(catalog_before, std::memory_order_release);
        if (catalog_before != nullptr) { // otherwise nothing was published, and the host does not open
            devices_.publish(catalog_before->providers);
        }
        ops_.store(before, std::memory_order_release);
        give_back_indices(std::span(ops).subspan(n_before, first_without_index - n_before));
        throw;
    }
}

OpEntry *CallHost::find_op(std::string_view name) const {
    const NameTable &names = *names_.load(std::memory_order_acquire);
    if (const auto found = names.find(name); found != names.end()) {
        return found->second;
    }
    const auto found = names.find(standard_name(name));
    return found == names.end() ? nullptr : found->second;
}

OpEntry &CallHost::op(std::string_view name) const {
    if (OpEntry *found = find_op(name)) {
        return *found;
    }
    std::vector<std::string_view> known;
    for (const auto &[op, declared] : catalog().ops) {
        known.push_back(op);
    }
    throw unknown_op_error(name, known, catalog().rejected_plugins());
}

PolicyStack CallHost::effective_policy() const {
    PolicyStack stack = process_policy();
    for (const Scope &scope : call_thread().scopes) {
        if (scope.host_id == id_ && !is_frozen()) {
            stack.scopes.push_back(scope.policy);
        }
    }
    return stack;
}

void CallHost::refuse_when_frozen(const char *what) const {
    if (is_frozen()) {
        throw Error(
            OPDOCK_FROZEN,
            fmt::format("the host is frozen, so nothing can {}.\nDo it before opdock_freeze, or open another host.",
                        what));
    }
}

// Publishes the process's policy under one that is strict everywhere.
void CallHost::publish_frozen(bool frozen) {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    auto next = std::make_unique<PolicyStack>(process_policy());
    next->frozen = nullptr;
    if (frozen) {
        Policy strict;
        strict.everywhere.strict = {true, "the host is frozen"};
        strict.everywhere.fallback_to_cpu = {false, "the host is frozen"};
        next->frozen = std::make_shared<const Policy>(std::move(strict));
    }
    frozen_.store(frozen, std::memory_order_release);
    publish(book, book.policies.emplace_back(std::move(next)).get());
}

} // namespace opdock::core
