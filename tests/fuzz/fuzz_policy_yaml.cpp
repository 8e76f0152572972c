// A policy file, read both as the system's, which may enforce, and as anybody else's.
#include <set>
#include <string>

#include "message_place.hpp"
#include "policy/policy_yaml.hpp"
#include "text/error.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

const std::string name = "policy.yaml";

void check_vendors(const std::optional<Item<Vendors>> &item) {
    if (item) {
        const std::set<std::string> different(item->value.begin(), item->value.end());
        require(different.size() == item->value.size(), "a vendor is in a list once");
        require(!different.contains(""), "a vendor has a name");
    }
}

void check_op(const std::string &op) {
    require(parse_op_name(op, Place{"op"}) == op, "an op is kept by its standard name");
}

void check_section(const PolicySection &section) {
    check_vendors(section.allow_vendors);
    check_vendors(section.deny_vendors);
    for (const auto &[op, order] : section.per_op) {
        require(!order.value.empty(), "an order has a token");
        require(parse_order(order_text(order.value), Place{"order"}) == order.value, "an order reads back as it was");
        check_op(op);
    }
    for (const auto &[op, contracts] : section.require_per_op) {
        check_op(op);
    }
}

void check_policy(const Policy &policy) {
    check_section(policy.everywhere);
    for (const auto &[device, section] : policy.devices) {
        require(!device.empty() && device.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ \t\n") == std::string::npos,
                "a device's name is folded and has no space");
        check_section(section);
    }
    if (policy.trusted_sha256) {
        for (const std::string &digest : policy.trusted_sha256->value) {
            require(digest.size() == 64, "a digest has 64 digits");
        }
    }
}

void read_as(Enforce enforce, std::string_view text) {
    try {
        const PolicyFile file = parse_policy_file(text, name, enforce);
        require(enforce == Enforce::accept || file.enforce == Policy(), "only the system's file enforces");
        for (const std::string &key : file.unknown_keys) {
            opdock::fuzz::check_place(key, name, text);
        }
        check_policy(file.policy);
        check_policy(file.enforce);
    } catch (const Error &error) {
        require(error.status() == OPDOCK_INVALID_POLICY, "a wrong policy file is a wrong policy");
        opdock::fuzz::check_lines(error.what(),
                                  [&](std::string_view line) { opdock::fuzz::check_place(line, name, text); });
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = opdock::fuzz::text_of(data, size);
    read_as(Enforce::accept, text);
    read_as(Enforce::refuse, text);
    return 0;
}
