// What a running host is told by its calls: who served, who failed, which memory is whose.
#include <algorithm>
#include <set>
#include <string_view>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "probe/device_query.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Devices of one type. The bound is there for what is kept of each, also where nobody says how many there are.
constexpr int32_t most_devices = 1024;

// Calls of two shapes in turn, of which an implementation declines one, would write a line each.
constexpr std::chrono::seconds least_between_lines(1);

} // namespace

const DeviceProvider *Host::provider_to_enter(DLDevice device) const {
    return device.device_type == kDLCPU ? nullptr : find_provider(catalog().providers, device.device_type);
}

DeviceCount Host::device_count(const DeviceProvider &provider) const {
    Ledger &book = ledger();
    {
        const std::lock_guard lock(book.mutex);
        const auto known = book.device_counts.find(&provider);
        if (known != book.device_counts.end()) {
            return known->second;
        }
    }
    DeviceCount found;
    const opdock_status status =
        call_plugin([&] { return provider.table.count(&table_->api, provider.table.user_data, &found.count); });
    if (status != OPDOCK_OK) {
        found = {0, take_message(status)};
    } else if (found.count < 0 || found.count > most_devices) {
        found = {0, fmt::format("its provider counts {} devices; expected 0 to {}", found.count, most_devices)};
    }
    const std::lock_guard lock(book.mutex);
    return book.device_counts.try_emplace(&provider, std::move(found)).first->second;
}

bool Host::is_capturing(DLDevice device, void *stream) const {
    const DeviceProvider *provider = provider_to_enter(device);
    if (provider == nullptr) {
        return false;
    }
    int32_t capturing = 0;
    const opdock_status status = call_plugin([&] {
        return provider->table.stream_is_capturing(&table_->api, provider->table.user_data, device.device_id, stream,
                                                   &capturing);
    });
    return status == OPDOCK_OK && capturing != 0;
}

Memo &Host::adopt(std::unique_ptr<Memo> memo) {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    Memo *address = memo.get();
    book.memos.emplace(address, std::move(memo));
    return *address;
}

void Host::release(Memo *memo) {
    Ledger &book = ledger();
    std::unique_ptr<Memo> gone; // destroyed without the lock: its plans are the plugins'
    {
        const std::lock_guard lock(book.mutex);
        const auto found = book.memos.find(memo);
        if (found == book.memos.end()) {
            return;
        }
        gone = std::move(found->second);
        book.memos.erase(found);
        for (const auto &attempt : gone->attempts) {
            attempt->deployment.served_before.fetch_add(attempt->served.load(std::memory_order_relaxed),
                                                        std::memory_order_relaxed);
        }
    }
}

void Host::note_serving(const Chain &chain, const Implementation &implementation, std::span<const Failure> failures) {
    if (chain.serving.load(std::memory_order_relaxed) == &implementation) {
        return;
    }
    const Implementation *const last = chain.served_last.exchange(&implementation, std::memory_order_relaxed);
    const bool is_change = last != nullptr && last != &implementation;
    const Deployment::Clock::time_point now = now_();
    if (now < chain.quiet_until.load(std::memory_order_relaxed)) {
        chain.serving.store(nullptr, std::memory_order_relaxed);
        if (is_change) {
            chain.untold_changes.fetch_add(1, std::memory_order_relaxed);
        }
        return;
    }
    chain.serving.store(&implementation, std::memory_order_relaxed);
    const uint64_t untold = chain.untold_changes.exchange(0, std::memory_order_relaxed);
    std::string before;
    {
        Ledger &book = ledger();
        const std::lock_guard lock(book.mutex);
        std::string &serving = book.serving[{chain.op->name, chain.scoped}];
        before = serving;
        serving = implementation.impl_id;
    }
    if (before == implementation.impl_id && untold == 0) {
        return;
    }
    if (!before.empty()) {
        chain.quiet_until.store(now + least_between_lines, std::memory_order_relaxed);
    }
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

void Host::drop_failed(const Chain &chain, Deployment &deployment) {
    const OpPolicy &policy = chain.decision.policy;
    std::string outlook = "opdock_reset_health (C++: host.reset_health) brings it back.";
    // A failure of an op that writes its inputs is not made good by the next implementation: nobody risks it again.
    if (policy.retries_failed() && !deployment.implementation().form->writes_inputs()) {
        const std::chrono::duration<double> pause = deployment.retry_after(
            now_(),
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(policy.retry_seconds)));
        outlook = fmt::format("It is tried again in {:g} s (retry_failed, {}), or when opdock_reset_health (C++: "
                              "host.reset_health) brings it back.",
                              pause.count(), policy.retry_source);
    }
    log_.warning(fmt::format("Op '{}': '{}' leaves the chain on {}: {}. {}", chain.op->name,
                             deployment.implementation().impl_id, device_text(catalog().providers, chain.device),
                             deployment.out_reason(), outlook));
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    publish(book);
}

std::vector<Deployment *> Host::waiting_for_retry(Ledger &ledger, const CatalogOp &op, const Decision &decision,
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

bool Host::retry_failed(const CatalogOp &op, const Decision &decision, DLDevice device) {
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
    log_.info(fmt::format("Op '{}': '{}' is tried again on {}", op.name, fmt::join(again, "', '"),
                          device_text(catalog().providers, device)));
    return true;
}

void Host::retry_failed(const Chain &chain) {
    if (chain.retry_at && now_() >= *chain.retry_at) {
        retry_failed(*chain.op, chain.decision, chain.device);
    }
}

void Host::lose_device(DLDevice device, const std::string &message) {
    Ledger &book = ledger();
    {
        const std::lock_guard lock(book.mutex);
        if (!book.lost_devices.emplace(device_key(device), message).second) {
            return;
        }
        publish(book); // no call may match what it remembers
    }
    log_.error(fmt::format("Device {} is lost; nothing more is tried on it. {}",
                           device_text(catalog().providers, device), message));
}

void Host::note_cpu_fallback(const std::string &op, DLDevice device, const std::string &source,
                             const std::string &why) {
    Ledger &book = ledger();
    {
        const std::lock_guard lock(book.mutex);
        if (!book.told_cpu_fallbacks.emplace(op, device_key(device)).second) {
            return;
        }
    }
    log_.warning(fmt::format("Op '{}' of {} is run on the CPU, as fallback_to_cpu has it ({}); each call copies its "
                             "tensors there and back.\n{}",
                             op, device_text(catalog().providers, device), source, why));
}

std::string Host::missing_device(DLDevice device) const {
    if (device.device_type == kDLCPU && device.device_id == 0) {
        return {}; // what most calls name
    }
    const DeviceProvider *provider = find_provider(catalog().providers, device.device_type);
    const DeviceCount known = provider != nullptr ? device_count(*provider) : DeviceCount{most_devices, ""};
    if (device.device_id >= 0 && device.device_id < known.count) {
        return {};
    }
    const std::string text = device_text(catalog().providers, device);
    if (provider == nullptr) {
        return fmt::format("there is no device {}: no plugin counts devices of this type, and an index is below {}",
                           text, known.count);
    }
    if (provider->plugin.empty()) {
        return fmt::format("there is no device {}: memory of the CPU is that of {}:0", text, provider->type);
    }
    return fmt::format("there is no device {}: plugin '{}' counts {} devices{}", text, provider->plugin, known.count,
                       known.reason.empty() ? "" : " (" + known.reason + ")");
}

std::string Host::query_device(const Implementation &implementation, DLDevice device) const {
    return implementation.device_query.empty() || find_provider(catalog().providers, device.device_type) != nullptr
               ? ""
               : query_device(implementation.device_query);
}

std::string Host::query_device(const std::string &command) const {
    Ledger &book = ledger();
    const std::lock_guard lock(book.querying_devices);
    const auto known = book.device_queries.find(command);
    if (known != book.device_queries.end()) {
        return known->second;
    }
    return book.device_queries.emplace(command, run_device_query(command, probe_, environment_.secure)).first->second;
}

void Host::check_device(DLDevice device) const {
    const std::string missing = missing_device(device);
    if (!missing.empty()) {
        throw Error(OPDOCK_INVALID_ARGUMENT, missing);
    }
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    const auto lost = book.lost_devices.find(device_key(device));
    if (lost != book.lost_devices.end()) {
        throw Error(OPDOCK_DEVICE_LOST, fmt::format("device {} was lost and nothing more is tried on it: {}",
                                                    device_text(catalog().providers, device), lost->second));
    }
}

namespace {

// The op's own name for one of its names, null for null. Throws when the op (any, when null) has no implementation of
// this id (any, when null).
const char *expect_implementation(const Host &host, const char *op, const char *impl_id) {
    op = op != nullptr ? host.op(op).name.c_str() : nullptr; // throws
    std::set<std::string_view> ids;
    for (const auto &[name, declared] : host.catalog().ops) {
        for (const auto &implementation : declared->implementations) {
            if (op == nullptr || name == op) {
                ids.insert(implementation->impl_id);
            }
        }
    }
    if (impl_id != nullptr &&
        std::none_of(ids.begin(), ids.end(), [&](std::string_view known) { return same_name(known, impl_id); })) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("{} implementation {}{}",
                                op != nullptr ? "op " + quote(op) + " has no" : "no op has an", quote(impl_id),
                                did_you_mean(impl_id, std::vector<std::string_view>(ids.begin(), ids.end()))));
    }
    return op;
}

} // namespace

uint64_t Host::served_count(const char *op, const char *impl_id) const {
    op = expect_implementation(*this, op, impl_id);
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    uint64_t count = 0;
    const auto is_meant = [&](const Implementation &implementation) {
        return implementation.op == op && same_name(implementation.impl_id, impl_id);
    };
    for (const auto &[key, deployment] : book.deployments) {
        if (is_meant(deployment->implementation())) {
            count += deployment->served_before.load(std::memory_order_relaxed);
        }
    }
    for (const auto &[address, memo] : book.memos) {
        for (const auto &attempt : memo->attempts) {
            if (is_meant(attempt->implementation)) {
                count += attempt->served.load(std::memory_order_relaxed);
            }
        }
    }
    return count;
}

const void *Host::find_extension(const char *op, const char *impl_id, const char *name) const {
    refuse_while_registering("look for extensions");
    const CatalogOp &declared = catalog().declared(expect_implementation(*this, op, impl_id));
    const auto found = std::find_if(declared.implementations.begin(), declared.implementations.end(),
                                    [&](const auto &one) { return same_name(one->impl_id, impl_id); });
    if (found == declared.implementations.end()) { // another thread has just unregistered its module
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{} of op {}: {}", quote(impl_id), quote(op), Tenancy::gone));
    }
    const Implementation &implementation = **found;
    const std::string what = fmt::format("an extension of '{}' for op '{}'", implementation.impl_id, declared.name);
    const OpPolicy policy = effective_policy().effective(declared.name, implementation.device, 0);
    if (const std::string refusal = refusal_of_vendor(implementation, policy); !refusal.empty()) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{}: {}", what, refusal));
    }
    if (DeferredPlugin *plugin = implementation.deferred) {
        if (const Rejection *rejection = open_plugin(*plugin)) {
            throw Error(OPDOCK_LOAD_FAILED, fmt::format("{}: {}", what, plugin->unavailable(*rejection)));
        }
    }
    const Tenancy::Visit visit(implementation.tenancy.get());
    if (visit.is_refused()) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{}: {}", what, Tenancy::gone));
    }
    const Callbacks &callbacks = implementation.callbacks();
    const void *table = nullptr;
    const opdock_status status = call_plugin([&] {
        table =
            callbacks.get_extension != nullptr ? callbacks.get_extension(&api(), callbacks.user_data, name) : nullptr;
        return OPDOCK_OK;
    });
    if (status != OPDOCK_OK) {
        throw Error(status, fmt::format("{}: get_extension: {}", what, take_message(status)));
    }
    return table;
}

void Host::reset_health(const char *op, const char *impl_id) {
    op = expect_implementation(*this, op, impl_id);
    refuse_when_frozen("change who serves");
    forget_call_deaths(op, impl_id);
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
    if (changed) { // else every decision stands, and what is published is kept for long
        publish(book);
    }
}

void Host::refresh_availability() {
    refuse_when_frozen("change who serves");
    Ledger &book = ledger();
    std::vector<std::pair<Deployment *, Availability>> answers;
    std::map<const DeviceProvider *, DeviceCount> counts;
    std::map<std::pair<int32_t, int32_t>, const opdock_device_properties *> properties;
    {
        const std::lock_guard lock(book.mutex);
        counts.swap(book.device_counts);
        properties.swap(book.properties);
        for (const auto &[key, deployment] : book.deployments) {
            if (Availability answer = deployment->forget_availability(); answer.answer != Availability::unknown) {
                answers.emplace_back(deployment.get(), std::move(answer));
            }
        }
    }
    {
        const std::lock_guard lock(book.querying_devices);
        book.device_queries.clear();
    }
    const auto decide_anew = [&] {
        const std::lock_guard lock(book.mutex);
        publish(book);
    };
    // All that was asked before is asked again at once: where the answers are the same, every decision stands.
    bool changed = false;
    try {
        for (const auto &[provider, before] : counts) {
            const DeviceCount now = device_count(*provider);
            changed = changed || now.count != before.count || now.reason != before.reason;
        }
        for (const auto &[device, before] : properties) {
            changed = device_properties({static_cast<DLDeviceType>(device.first), device.second}) != before || changed;
        }
        for (const auto &[deployment, before] : answers) {
            const Availability now = deployment->ask_availability();
            changed = changed || now.answer != before.answer || now.reason != before.reason;
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
