#include "op-call/requested.hpp"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::op_call {

using nlohmann::json;

void check_modules(const Host &host, const std::vector<std::string> &modules) {
    const json document = json::parse(host.describe());
    for (const std::string &module : modules) {
        std::error_code unreachable; // opening the host has reported this already
        if (!std::filesystem::is_regular_file(module, unreachable)) {
            continue; // a folder: whatever is sound in it may serve
        }
        for (const json &plugin : document.at("plugins")) {
            std::error_code not_there;
            if (plugin.at("status") != "loaded" &&
                std::filesystem::equivalent(plugin.at("path").get<std::string>(), module, not_there)) {
                throw cli::Failure("--modules " + module + ": " + plugin.at("status").get<std::string>() + " (" +
                                   plugin.at("code").get<std::string>() +
                                   "): " + plugin.at("reason").get<std::string>());
            }
        }
        for (const json &problem : document.at("problems")) {
            const auto message = problem.at("message").get<std::string>();
            if (!problem.at("taken") && message.find(module) != std::string::npos) {
                throw cli::Failure("--modules " + module + " was not taken: " + message);
            }
        }
    }
}

std::vector<Implementation> implementations_of(const Host &host, const std::string &op) {
    std::vector<Implementation> found;
    const json document = json::parse(host.describe());
    for (const json &one : document.at("ops")) {
        if (one.at("op") == op) {
            for (const json &implementation : one.at("implementations")) {
                found.push_back(
                    {implementation.at("impl_id").get<std::string>(), implementation.at("device").get<std::string>()});
            }
        }
    }
    return found;
}

Policy only(const Host &host, const std::string &op, const std::string &impl) {
    std::vector<std::string> ids;
    for (Implementation &one : implementations_of(host, op)) {
        ids.push_back(std::move(one.id));
    }
    if (std::none_of(ids.begin(), ids.end(), [&](const std::string &id) { return cli::same_name(id, impl); })) {
        throw cli::Failure("--impl " + impl + ": op '" + op + "' has no such implementation" +
                           cli::did_you_mean(impl, ids) + "\n'plugin-ls --op " + op + "' lists the available ones.");
    }
    return host.policy({{"per_op", op + "=impl:" + impl}});
}

Policy nothing_but(const Host &host, const std::string &op, const std::string &impl) {
    return host.policy({{"per_op", op + "=impl:" + impl}, {"strict", "1"}});
}

std::string not_served_by(const std::string &impl, const std::string &other) {
    return "'" + other + "' serves it instead of '" + impl +
           "': the machine's policy enforces an order, which overrides the program's choice. 'plugin-ls --why' shows "
           "the order.";
}

Prepared prepare_for(const Host &host, const std::string &op, const std::string &impl, const Args &args) {
    Prepared prepared = host.op(op).prepare(args, nothing_but(host, op, impl));
    if (prepared.impl() != impl) {
        throw Error(OPDOCK_ALL_DROPPED, not_served_by(impl, prepared.impl()));
    }
    return prepared;
}

} // namespace opdock::op_call
