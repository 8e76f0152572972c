// The policy of a host: set by the program, scoped by a thread, or reloaded.
#include <algorithm>

#include "host/host.hpp"
#include "policy/policy_names.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

KnownNames names_in(const Catalog &of) {
    KnownNames known;
    for (const auto &[name, op] : of.ops) {
        auto &impl_ids = known.impl_ids[name];
        for (const auto &implementation : op->implementations) {
            impl_ids.insert(implementation->impl_id);
            known.vendors.insert(folded(implementation->vendor));
            known.device_types.insert(folded(implementation->device));
        }
    }
    for (const auto &provider : of.providers) {
        known.device_types.insert(folded(provider->type));
    }
    for (const Vendor &vendor : of.vendors) {
        known.vendors.insert(folded(vendor.name));
    }
    for (const PluginRecord &plugin : of.plugins) {
        if (!plugin.vendor.empty() && !known.vendors.contains(folded(plugin.vendor))) {
            known.other_vendors.insert(folded(plugin.vendor));
        }
    }
    return known;
}

// A rule about a misspelt name would have no effect.
void refuse_misspelt(const Policy &enforced, const KnownNames &known) {
    std::string errors;
    for (const UnknownName &name : unknown_names(enforced, known)) {
        errors += name.misspelt ? name.problem + "\n" : "";
    }
    if (!errors.empty()) {
        throw Error(OPDOCK_INVALID_POLICY, errors + "Expected only known names below 'enforce' in the machine's policy "
                                                    "file: a misspelt name would not be enforced.");
    }
}

} // namespace

void Host::complain(const std::vector<UnknownName> &names, bool strict) const {
    std::string errors;
    for (const UnknownName &name : names) {
        if (strict && !name.fulfilled) {
            errors += (errors.empty() ? "" : "\n") + name.problem;
        }
    }
    if (!errors.empty()) {
        throw Error(OPDOCK_INVALID_POLICY, errors);
    }
    for (const UnknownName &name : names) {
        log_.warning(name.problem);
    }
}

void Host::check_names(const PolicyStack &policy, const Catalog &of) const {
    const KnownNames known = names_in(of);
    if (policy.enforce) {
        refuse_misspelt(*policy.enforce, known);
    }
    complain(unknown_names(policy.flattened(), known), policy.strict());
}

Policy Host::make_policy(std::span<const Setting> settings) const {
    Policy policy = policy_from_settings(settings);
    // Only its own settings: the policies below it were checked before.
    const bool strict = policy.everywhere.strict ? policy.everywhere.strict->value : process_policy().strict();
    complain(unknown_names(policy, names_in(catalog())), strict);
    return policy;
}

void Host::set_program_policy(PolicyPtr policy) {
    refuse_when_frozen("change its policy");
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    auto next = std::make_unique<PolicyStack>(process_policy());
    next->program = std::move(policy);
    if (next->strict()) { // otherwise whoever made the policy was warned then
        check_names(*next, catalog());
    }
    publish(book, book.policies.emplace_back(std::move(next)).get());
}

void Host::reload_policy() {
    refuse_when_frozen("change its policy");
    const Environment environment = environment_given_ ? environment_ : capture_environment(environment_.prefix);
    LoadedPolicy loaded = load_policy(environment, system_policy_file_);
    for (const std::string &warning : loaded.warnings) {
        log_.warning(warning);
    }
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    auto next = std::make_unique<PolicyStack>(std::move(loaded.stack));
    next->program = process_policy().program;
    check_names(*next, catalog());
    publish(book, book.policies.emplace_back(std::move(next)).get());
}

void Host::push_scope(PolicyPtr policy) {
    refuse_when_frozen("change its policy");
    CallThread &thread = call_thread();
    thread.scopes.push_back({this, id(), std::move(policy), nullptr, 0});
    thread.flags |= ThreadState::scoped;
}

void Host::pop_scope() {
    CallThread &thread = call_thread();
    const auto scope = std::find_if(thread.scopes.rbegin(), thread.scopes.rend(),
                                    [&](const Scope &candidate) { return candidate.host_id == id(); });
    if (scope == thread.scopes.rend()) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "no policy of this host is pushed on this thread");
    }
    thread.scopes.erase(std::next(scope).base());
    if (thread.scopes.empty()) {
        thread.flags &= ~ThreadState::scoped;
    }
}

} // namespace opdock::core
