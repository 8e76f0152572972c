#include "resolve/resolve_error.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "signature/other_names.hpp"
#include "signature/standard_ops.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

std::string listed(std::span<const std::string> lines) {
    std::string text;
    for (const std::string &line : lines) {
        text += "\n  " + line;
    }
    return text;
}

std::string rejected_text(std::span<const std::string> rejected) {
    return rejected.empty() ? std::string() : "\nThese plugins were rejected:" + listed(rejected);
}

constexpr size_t most_listed = 100;

std::string rest_text(size_t count) {
    return count > most_listed ? "\n  and " + std::to_string(count - most_listed) + " more" : std::string();
}

std::string dropped_text(std::span<const Dropped> all) {
    std::string text;
    for (const Dropped &dropped : all.first(std::min(all.size(), most_listed))) {
        text += "\n  " + dropped.impl_id + ": " + dropped.reason + " (" + std::string(rule_name(dropped.rule)) + ")";
    }
    return text + rest_text(all.size());
}

std::string advice_to(std::string_view what) {
    return fmt::format("\nInstall a plugin that {} it, or name one as a module; plugin-ls lists the available plugins.",
                       what);
}

} // namespace

Error unknown_op_error(std::string_view op, std::span<const std::string_view> known_ops,
                       std::span<const std::string> rejected) {
    if (!standard_signature(op).empty()) {
        return {OPDOCK_UNKNOWN_OP, quote(op) + " is a standard op that no loaded plugin implements" +
                                       rejected_text(rejected) + advice_to("implements")};
    }
    const bool is_called_otherwise = !other_name_hint(op).empty(); // then the hint is the advice
    return {OPDOCK_UNKNOWN_OP, "no plugin declares op " + quote(op) + hint_at_op(op, known_ops) +
                                   rejected_text(rejected) + (is_called_otherwise ? "" : advice_to("declares"))};
}

Error no_implementation_error(std::string_view op, std::span<const std::string> plugins,
                              std::span<const std::string> rejected) {
    std::string declared;
    for (const std::string &plugin : plugins) {
        declared += (declared.empty() ? " by " : ", ") + quote(plugin);
    }
    return {OPDOCK_NO_IMPLEMENTATION,
            "op " + quote(op) + " is declared" + declared + ", but no plugin implements it" + rejected_text(rejected) +
                "\nInstall a plugin that implements it; plugin-ls lists the available plugins."};
}

Error all_dropped_error(std::string_view op, const Key &key, const Decision &decision) {
    const auto for_health = [](const Dropped &dropped) { return dropped.rule == Rule::health; };
    std::string text = "op " + quote(op) + " has no implementation left for " + key_text(key) + ":" +
                       dropped_text(decision.dropped) + "\nThe order is " + shown_order(decision.policy.order) + " (" +
                       decision.policy.order_source + ").";
    if (!std::all_of(decision.dropped.begin(), decision.dropped.end(), for_health)) {
        text += " Change the policy named above, or install a plugin for this device and these dtypes.";
    }
    if (std::any_of(decision.dropped.begin(), decision.dropped.end(), for_health)) {
        text += "\nopdock_reset_health (C++: host.reset_health) brings back what health dropped, once the cause of the "
                "failures is gone.";
    }
    return {OPDOCK_ALL_DROPPED, text};
}

Error all_failed_error(std::string_view op, const Key &key, const Decision &decision,
                       std::span<const Failure> failures) {
    std::string text = "op " + quote(op) + " was not served on " + key_text(key) + ":";
    for (const Failure &failure : failures.first(std::min(failures.size(), most_listed))) {
        text += "\n  " + failure.impl_id + ": " + failure.outcome;
    }
    text += rest_text(failures.size());
    if (decision.policy.value(settings::strict) && failures.size() < decision.chain.size()) {
        text += "\nNothing else was tried because " + decision.policy.source(settings::strict) + " is strict.";
    }
    // Whoever chose an order knows which implementations it excludes.
    std::vector<Dropped> unexpected;
    std::copy_if(decision.dropped.begin(), decision.dropped.end(), std::back_inserter(unexpected),
                 [](const Dropped &dropped) { return dropped.rule != Rule::order; });
    if (!unexpected.empty()) {
        text += "\nNot tried:" + dropped_text(unexpected);
    }
    return {OPDOCK_ALL_FAILED, text};
}

} // namespace opdock::core
