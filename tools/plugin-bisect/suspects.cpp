#include "suspects.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"

namespace opdock::plugin_bisect {

using nlohmann::json;
using Texts = std::vector<std::string>;

namespace {

// The limits with which hosts read variables; they ignore the rest.
constexpr size_t longest_value = size_t{64} << 10;
constexpr size_t most_ops = 1024;

bool has(const Texts &texts, const std::string &text) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::string token_of(const std::string &impl_id) {
    return "impl:" + impl_id;
}

void add_new(Texts &texts, const Texts &more) {
    std::copy_if(more.begin(), more.end(), std::back_inserter(texts),
                 [&](const std::string &text) { return !has(texts, text); });
}

// The decision for an op under an order of its own ("": the current one), whatever the dtypes. Null if the device is
// unknown.
json decision_of(const Host &host, const std::string &op, const std::string &device, const std::string &order) {
    std::optional<Policy> policy;
    if (!order.empty()) {
        policy = host.policy({{"per_op", op + "=" + order}});
    }
    char *text = nullptr;
    if (opdock_explain(host.c(), op.c_str(), device.c_str(), nullptr, policy ? policy->c() : nullptr, &text) !=
        OPDOCK_OK) {
        return {};
    }
    const std::unique_ptr<char, void (*)(char *)> owned(text, opdock_string_free);
    return json::parse(text);
}

Texts chain_of(const Host &host, const std::string &op, const std::string &device, const std::string &order) {
    const json decision = decision_of(host, op, device, order);
    return decision.is_null() ? Texts() : decision.at("chain").get<Texts>();
}

// True if the CPU's implementations serve when nothing on the device does (fallback_to_cpu).
bool falls_back(const Host &host, const std::string &op, const std::string &device, const std::string &order) {
    const json decision = decision_of(host, op, device, order);
    return !decision.is_null() && decision.contains("on_cpu") && decision.at("on_cpu").at("follows").get<bool>();
}

// An op as this process knows it.
struct Op {
    std::string name;
    std::map<std::string, Texts> devices; // with their implementations
};

std::map<std::string, Op> known_ops(const Host &host) {
    std::map<std::string, Op> ops;
    const json document = json::parse(host.describe());
    for (const json &one : document.at("ops")) {
        Op op = {one.at("op").get<std::string>(), {}};
        for (const json &implementation : one.at("implementations")) {
            op.devices[implementation.at("device").get<std::string>()].push_back(
                implementation.at("impl_id").get<std::string>());
        }
        ops.emplace(op.name, std::move(op));
    }
    return ops;
}

// For a command whose log shows nothing: the implementations that would serve first.
std::vector<Suspect> heads_of(const Host &host, const std::map<std::string, Op> &ops) {
    std::set<Suspect> heads;
    for (const auto &[name, op] : ops) {
        for (const auto &[device, implementations] : op.devices) {
            if (const Texts chain = chain_of(host, name, device, ""); !chain.empty()) {
                heads.insert({name, chain.front()});
            }
        }
    }
    return {heads.begin(), heads.end()};
}

class Sorting {
  public:
    Sorting(const Host &host, std::string good)
        : host_(host), good_(std::move(good)), first_(good_.substr(0, good_.find('|'))) {}

    // For an op that this process knows: sorts those that served into suspects and others, with the reason why not.
    void add(Suspects &to, const Op &op, const Texts &served) const {
        Texts suspects;
        for (const std::string &impl_id : served) {
            const std::string reason = reason_against(op, impl_id, served);
            if (reason.empty()) {
                suspects.push_back(impl_id);
            } else {
                to.not_suspected.push_back({{op.name, impl_id}, reason});
            }
        }
        Texts before, others;
        for (const auto &[device, implementations] : op.devices) {
            add_new(before, chain_of(host_, op.name, device, ""));
            add_new(others, chain_of(host_, op.name, device, good_));
        }
        add_new(others, served); // those that cannot be replaced and are in no chain of this process
        std::erase_if(others, [&](const std::string &impl_id) { return has(suspects, impl_id); });
        std::stable_sort(suspects.begin(), suspects.end(), [&](const std::string &one, const std::string &other) {
            return std::find(before.begin(), before.end(), one) < std::find(before.begin(), before.end(), other);
        });
        std::transform(others.begin(), others.end(), others.begin(), token_of);
        add(to, op.name, suspects, others);
    }

    // For an op that this process does not know, such as a program's own: only the first token surely names no suspect.
    void add_unknown(Suspects &to, const std::string &op, const Texts &served) const { add(to, op, served, {first_}); }

  private:
    static void add(Suspects &to, const std::string &op, const Texts &suspects, const Texts &others) {
        for (const std::string &impl_id : suspects) {
            to.all.push_back({op, impl_id});
            to.others[op] = others;
        }
    }

    // The reason why it is not a suspect; "" if it is one.
    std::string reason_against(const Op &op, const std::string &impl_id, const Texts &served) const {
        std::string reason;
        for (const auto &[device, implementations] : op.devices) {
            if (!has(implementations, impl_id)) {
                continue;
            }
            if (has(chain_of(host_, op.name, device, first_), impl_id)) {
                return "it replaces the suspects (" + first_ + ")";
            }
            const Texts chain = chain_of(host_, op.name, device, good_);
            if (std::all_of(chain.begin(), chain.end(), [&](const std::string &one) { return has(served, one); }) &&
                !falls_back(host_, op.name, device, first_)) {
                reason = "nothing else on " + device + " can serve in its place";
            }
        }
        return reason;
    }

    const Host &host_;
    std::string good_;
    std::string first_;
};

// The entries of a PER_OP value that are for none of these ops.
std::string entries_but(const std::string &value, const std::set<std::string> &ops) {
    std::string kept;
    std::istringstream entries(value);
    for (std::string entry; std::getline(entries, entry, ';');) {
        std::string op = entry.substr(0, entry.find('='));
        std::erase(op, ' ');
        if (!op.empty() && !ops.contains(cli::op_called(op))) {
            kept += (kept.empty() ? "" : ";") + entry;
        }
    }
    return kept;
}

} // namespace

std::vector<Suspect> served_in(const std::string &log) {
    std::set<Suspect> served;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        constexpr std::string_view begin = "Op '";
        constexpr std::string_view kind = "' (kind=";
        const size_t op = line.find(begin);
        const size_t end = line.find(kind);
        if (line.find("[opdock]") > op || op == std::string::npos || end == std::string::npos || end < op) {
            continue;
        }
        const size_t name = op + begin.size();
        const size_t behind = line.find('\'', name);
        const size_t impl_id = line.rfind('\'', end - 1) + 1;
        const std::string_view said = std::string_view(line).substr(behind + 1);
        if (impl_id > behind + 1 && (said.starts_with(" using ") || said.starts_with(" switched "))) {
            served.insert({line.substr(name, behind - name), line.substr(impl_id, end - impl_id)});
        }
    }
    return {served.begin(), served.end()};
}

std::string Suspects::per_op(const Members &active, const std::string &before) const {
    std::map<std::string, std::pair<Texts, size_t>> orders; // per op: active suspects, and the number of others
    for (size_t i = 0; i < all.size(); ++i) {
        auto &[order, replaced] = orders[all[i].op];
        if (std::find(active.begin(), active.end(), i) != active.end()) {
            order.push_back(token_of(all[i].impl_id));
        } else {
            ++replaced;
        }
    }
    std::erase_if(orders, [](const auto &one) { return one.second.second == 0; });
    std::set<std::string> ops;
    std::string text;
    for (auto &[op, one] : orders) {
        ops.insert(op);
        add_new(one.first, others.at(op));
        std::string order;
        for (const std::string &token : one.first) {
            order += (order.empty() ? "" : "|") + token;
        }
        text += (text.empty() ? "" : ";") + op + "=" + order;
    }
    const std::string kept = entries_but(before, ops);
    text = kept + (kept.empty() || text.empty() ? "" : ";") + text;
    if (text.size() > longest_value || ops.size() > most_ops) {
        throw cli::Failure("the orders of " + std::to_string(ops.size()) + " ops are " + std::to_string(text.size()) +
                           " bytes, but a host reads at most 64 KiB; name the possible suspects with --op");
    }
    return text;
}

void check_order(const Host &host, const std::string &order) {
    for (const auto &[name, op] : known_ops(host)) { // any existing op will do: policies warn of others
        if (!op.devices.empty()) {
            (void)host.policy({{"per_op", name + "=" + order}});
            return;
        }
    }
}

Suspects suspects_of(const Host &host, const std::optional<std::vector<Suspect>> &served, const std::string &good,
                     const std::vector<std::string> &ops) {
    const std::map<std::string, Op> known = known_ops(host);
    std::map<std::string, Texts> of_op;
    for (const Suspect &one : served ? *served : heads_of(host, known)) {
        of_op[one.op].push_back(one.impl_id);
    }
    const Sorting sorting(host, good);
    Suspects suspects;
    for (const auto &[op, impl_ids] : of_op) {
        if (!ops.empty() && !has(ops, op)) {
            continue;
        }
        if (const auto found = known.find(op); found != known.end()) {
            sorting.add(suspects, found->second, impl_ids);
        } else {
            sorting.add_unknown(suspects, op, impl_ids);
        }
    }
    return suspects;
}

} // namespace opdock::plugin_bisect
