// Calls report to the host here: which implementations served or failed, and which memos are kept.
#include "dispatch/call_host.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "load/cancellation.hpp"
#include "load/deferred_plugin.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// The bit of a link and its outcome in Chain::told_reasons.
uint64_t reason_bit(const Chain &chain, std::span<const Failure> failures, std::optional<Count> fallback) {
    if (failures.empty() || !fallback) {
        return 0;
    }
    const auto first = std::find_if(chain.links.begin(), chain.links.end(), [&](const Link &link) {
        return link.implementation->impl_id == failures.front().impl_id;
    });
    constexpr size_t most_links = 12; // the last one stands for all further links
    const size_t link = std::min(static_cast<size_t>(first - chain.links.begin()), most_links - 1);
    const size_t reason = static_cast<size_t>(*fallback) - static_cast<size_t>(first_fallback);
    static_assert(most_links * (n_counts - static_cast<size_t>(first_fallback)) <= 64);
    return uint64_t{1} << (link * (n_counts - static_cast<size_t>(first_fallback)) + reason);
}

} // namespace

Memo &CallHost::adopt(std::unique_ptr<Memo> memo) {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    Memo *address = memo.get();
    book.memos.emplace(address, std::move(memo));
    return *address;
}

void CallHost::release(Memo *memo) {
    Ledger &book = ledger();
    std::unique_ptr<Memo> gone; // destroyed without the lock: its plans belong to plugins
    {
        const std::lock_guard lock(book.mutex);
        const auto found = book.memos.find(memo);
        if (found == book.memos.end()) {
            return;
        }
        gone = std::move(found->second);
        book.memos.erase(found);
    }
}

Journal::Open CallHost::note_first_call(Deployment &deployment) const noexcept try {
    if (!deployment.is_first_call()) {
        return {};
    }
    const Uncancellable host_work;
    const Implementation &implementation = deployment.implementation();
    const std::string plugin =
        implementation.deferred != nullptr ? implementation.deferred->place().remembered : implementation.plugin;
    return ledger().journal.write({JournalEntry::Doing::calling, plugin, implementation.op, implementation.impl_id});
} catch (const std::bad_alloc &) {
    return {}; // the call works without an entry
}

void CallHost::note_serving(const Chain &chain, const Implementation &implementation, std::span<const Failure> failures,
                            std::optional<Count> fallback) {
    if (chain.serving.load(std::memory_order_relaxed) == &implementation) {
        return;
    }
    const Implementation *const last = chain.served_last.exchange(&implementation, std::memory_order_relaxed);
    const bool is_change = last != nullptr && last != &implementation;
    const Deployment::Clock::time_point now = now_();
    const uint64_t reason = reason_bit(chain, failures, fallback);
    const bool is_news = (chain.told_reasons.fetch_or(reason, std::memory_order_relaxed) & reason) != reason ||
                         (!is_change && chain.changes.is_settled(now));
    const auto leave_out = [&] {
        chain.serving.store(nullptr, std::memory_order_relaxed);
        if (is_change) {
            chain.changes.count_left_out(now);
        }
    };
    if (!is_news && !chain.changes.is_over(now)) {
        leave_out();
        return;
    }
    chain.serving.store(&implementation, std::memory_order_relaxed);
    std::string before;
    {
        Ledger &book = ledger();
        const std::lock_guard lock(book.mutex);
        std::string &serving = book.serving[{chain.op->name, chain.scoped}];
        before = serving;
        serving = implementation.impl_id;
    }
    if (before == implementation.impl_id && !chain.changes.has_left_out()) {
        return;
    }
    if (!before.empty() && !chain.changes.begin(now) && !is_news) {
        leave_out();
        return;
    }
    const uint64_t untold = chain.changes.take_left_out();
    std::string what = fmt::format("kind={}", kind_name(implementation.kind));
    if (!implementation.vendor.empty()) {
        what += ", vendor=" + implementation.vendor;
    }
    std::string why;
    for (const Failure &failure : failures) {
        why += fmt::format("{} '{}': {}", why.empty() ? " after" : ";", failure.impl_id, failure.outcome);
    }
    if (before.empty()) {
        log_.info(fmt::format("Op '{}' using '{}' ({}){}", chain.op->name, implementation.impl_id, what, why));
    } else if (untold != 0) {
        const uint64_t changes = untold + (is_change ? 1 : 0);
        log_.info(fmt::format("Op '{}' switched {} since the last line about it, now to '{}' ({}){}", chain.op->name,
                              changes == 1 ? "once" : fmt::format("{} times", changes), implementation.impl_id, what,
                              why));
    } else {
        log_.info(fmt::format("Op '{}' switched from '{}' to '{}' ({}){}", chain.op->name, before,
                              implementation.impl_id, what, why));
    }
}

void CallHost::tell_left_out() const {
    std::map<std::string, uint64_t> changes; // per op
    for (const auto &view : ledger().views) {
        for (const auto &chain : view->kept_chains) {
            changes[chain->op->name] += chain->changes.take_left_out();
        }
    }
    for (const auto &[op, count] : changes) {
        if (count != 0) {
            log_.info(fmt::format("Op '{}' switched {} more since the last line about it", op,
                                  count == 1 ? "once" : fmt::format("{} times", count)));
        }
    }
}

void CallHost::drop_failed(const Chain &chain, Deployment &deployment) {
    const OpPolicy &policy = chain.decision.policy;
    std::string outlook = "opdock_reset_health (C++: host.reset_health) brings it back.";
    // A failed op that writes its inputs cannot be repeated by the next implementation, so nobody takes the risk again.
    if (policy.retries_failed() && !deployment.implementation().form->writes_inputs()) {
        const std::chrono::duration<double> pause =
            deployment.retry_after(now_(), std::chrono::duration_cast<std::chrono::nanoseconds>(
                                               std::chrono::duration<double>(policy.value(settings::retry_failed))));
        outlook = fmt::format("It is tried again in {:g} s (retry_failed, {}), or when opdock_reset_health (C++: "
                              "host.reset_health) brings it back.",
                              pause.count(), policy.source(settings::retry_failed));
    }
    log_.warning(fmt::format("Op '{}': '{}' leaves the chain on {}: {}. {}", chain.op->name,
                             deployment.implementation().impl_id, devices_.text(chain.device), deployment.out_reason(),
                             outlook));
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    publish(book);
}

void CallHost::drop_wrong(Deployment &deployment, const std::string &reason) {
    if (is_frozen() || !deployment.take_out(reason)) {
        return;
    }
    const Implementation &implementation = deployment.implementation();
    log_.warning(fmt::format("Op '{}': '{}' leaves the chain on {}: {}. opdock_reset_health (C++: host.reset_health) "
                             "brings it back.",
                             implementation.op, implementation.impl_id, devices_.text(deployment.device()), reason));
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    publish(book);
}

std::vector<Deployment *> CallHost::waiting_for_retry(Ledger &ledger, const CatalogOp &op, const Decision &decision,
                                                      DLDevice device) const {
    std::vector<Deployment *> waiting;
    for (const Dropped &dropped : decision.dropped) {
        if (dropped.rule == Rule::health && decision.policy.retries_failed()) {
            Deployment &out = deployment(ledger, *op.implementations[dropped.id], device);
            if (out.retry_at()) {
                waiting.push_back(&out);
            }
        }
    }
    return waiting;
}

bool CallHost::retry_failed(const CatalogOp &op, const Decision &decision, DLDevice device) {
    const Deployment::Clock::time_point now = now_();
    std::vector<std::string> again;
    {
        Ledger &book = ledger();
        const std::lock_guard lock(book.mutex);
        for (Deployment *out : waiting_for_retry(book, op, decision, device)) {
            if (out->try_again(now)) {
                again.push_back(out->implementation().impl_id);
            }
        }
        if (again.empty()) {
            return false;
        }
        publish(book);
    }
    log_.info(
        fmt::format("Op '{}': '{}' is tried again on {}", op.name, fmt::join(again, "', '"), devices_.text(device)));
    return true;
}

void CallHost::retry_failed(const Chain &chain) {
    if (chain.retry_at && now_() >= *chain.retry_at) {
        retry_failed(*chain.op, chain.decision, chain.device);
    }
}

void CallHost::lose_device(DLDevice device, const std::string &message) {
    if (!devices_.lose(device, message)) {
        return;
    }
    {
        Ledger &book = ledger();
        const std::lock_guard lock(book.mutex);
        publish(book); // no call may match a memo any more
    }
    log_.error(fmt::format("Device {} is lost and is no longer used. {}", devices_.text(device), message));
}

void CallHost::note_cpu_fallback(const std::string &op, DLDevice device, const std::string &source,
                                 const std::string &why) {
    Ledger &book = ledger();
    {
        const std::lock_guard lock(book.mutex);
        if (!book.told_cpu_fallbacks.emplace(op, device_key(device)).second) {
            return;
        }
    }
    log_.warning(fmt::format("Op '{}' of {} runs on the CPU because of fallback_to_cpu ({}); each call copies its "
                             "tensors to the CPU and back.\n{}",
                             op, devices_.text(device), source, why));
}

const char *CallHost::expect_implementation(const char *op, const char *impl_id) const {
    op = op != nullptr ? this->op(op).name.c_str() : nullptr; // throws for an unknown op
    const auto any_of = [&](auto is_it) {
        return std::any_of(catalog().ops.begin(), catalog().ops.end(), [&](const auto &entry) {
            const auto &all = entry.second->implementations;
            return (op == nullptr || entry.first == op) &&
                   std::any_of(all.begin(), all.end(), [&](const auto &one) { return is_it(one->impl_id); });
        });
    };
    if (impl_id != nullptr && !any_of([&](const std::string &known) { return same_name(known, impl_id); })) {
        std::set<std::string_view> ids;
        any_of([&](const std::string &known) {
            ids.insert(known);
            return false;
        });
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("{} implementation {}{}",
                                op != nullptr ? "op " + quote(op) + " has no" : "no op has an", quote(impl_id),
                                did_you_mean(impl_id, std::vector<std::string_view>(ids.begin(), ids.end()))));
    }
    return op;
}

uint64_t CallHost::served_count(const char *op, const char *impl_id) const {
    op = expect_implementation(op, impl_id);
    uint64_t count = 0;
    for (const CountedImplementation &one : counters()) {
        count += one.op == op && same_name(one.impl_id, impl_id) ? one.of(Count::served) : 0;
    }
    return count;
}

void CallHost::reset_health(const char *op, const char *impl_id) {
    op = expect_implementation(op, impl_id);
    refuse_when_frozen("change which implementation serves");
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    bool changed = false;
    for (const auto &[key, deployment] : book.deployments) {
        const Implementation &implementation = deployment->implementation();
        if ((op == nullptr || implementation.op == op) &&
            (impl_id == nullptr || same_name(implementation.impl_id, impl_id))) {
            changed = deployment->reset_health() || changed;
        }
    }
    if (changed) { // otherwise all decisions stand; published values are kept for long
        publish(book);
    }
}

void CallHost::refresh_availability() {
    refuse_when_frozen("change which implementation serves");
    Ledger &book = ledger();
    std::vector<std::pair<Deployment *, Availability>> answers;
    const Devices::Answers before = devices_.forget();
    {
        const std::lock_guard lock(book.mutex);
        for (const auto &[key, deployment] : book.deployments) {
            if (Availability answer = deployment->forget_availability(); answer.answer != Availability::unknown) {
                answers.emplace_back(deployment.get(), std::move(answer));
            }
        }
    }
    const auto decide_anew = [&] {
        const std::lock_guard lock(book.mutex);
        publish(book);
    };
    // Asks everything again that was asked before: if the answers are the same, every decision stands.
    bool changed = false;
    try {
        changed = devices_.differs_from(before);
        for (const auto &[deployment, answer] : answers) {
            const Availability now = deployment->ask_availability();
            changed = changed || now.answer != answer.answer || now.reason != answer.reason;
        }
    } catch (...) { // no memory to remember the answers
        decide_anew();
        throw;
    }
    if (changed) {
        decide_anew();
    }
}

} // namespace opdock::core
