#include "outcome.hpp"

#include <algorithm>

namespace opdock::plugin_check {

std::string status_text(opdock_status status, const std::string &message) {
    return std::string(opdock_status_name(status)) + ": " + message;
}

bool same_bits(const std::vector<Output> &a, const std::vector<Output> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Output &x, const Output &y) { return x.elements == y.elements; });
}

bool is_decline(opdock_status status) {
    return status == OPDOCK_UNSUPPORTED || status == OPDOCK_ALL_DROPPED;
}

void take_status(Outcome &outcome, opdock_status status, const std::string &message, bool is_call) {
    switch (is_call && status == OPDOCK_INVALID_ARGUMENT ? OPDOCK_FAILED : status) {
    case OPDOCK_UNSUPPORTED:
    case OPDOCK_ALL_DROPPED:
        outcome.kind = Outcome::Kind::declined;
        outcome.reason = message;
        return;
    case OPDOCK_INVALID_ARGUMENT:
        outcome.kind = Outcome::Kind::skipped;
        outcome.reason = message;
        return;
    default:
        outcome.findings.push_back({"failed", "returned " + status_text(status, message)});
    }
}

void add_new(Outcome &outcome, std::vector<Finding> findings) {
    for (Finding &finding : findings) {
        const bool is_known = std::any_of(outcome.findings.begin(), outcome.findings.end(), [&](const Finding &old) {
            return old.check == finding.check && old.message == finding.message;
        });
        if (!is_known) {
            outcome.findings.push_back(std::move(finding));
        }
    }
}

bool has(const Outcome &outcome, const char *check) {
    return std::any_of(outcome.findings.begin(), outcome.findings.end(),
                       [&](const Finding &one) { return one.check == check; });
}

} // namespace opdock::plugin_check
