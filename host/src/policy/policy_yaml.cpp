#include "policy/policy_yaml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>

#include "files/bounded_file.hpp"
#include "text/bounded_yaml.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

// Number of vendors, ops and order tokens that a section lists.
std::size_t weight(const PolicySection &section) {
    std::size_t sum = (section.allow_vendors ? section.allow_vendors->value.size() : 0) +
                      (section.deny_vendors ? section.deny_vendors->value.size() : 0) + section.require_per_op.size();
    for (const auto &[op, order] : section.per_op) {
        sum += 1 + order.value.size();
    }
    return sum;
}

class Reader {
  public:
    Reader(const std::string &name, PolicyFile &file) : name_(name), file_(file) {}

    // Reads a map of items into policy.everywhere, and `devices`. Leaves keys in `extra` to the caller.
    void policy(const YamlNode &map, Policy &policy, Enforce here, Enforce below, std::string_view extra = {}) {
        const std::array others = {std::string_view("devices"), trust_key, digests_key, default_plugins_key, extra};
        is_enforced_ = below == Enforce::accept;
        may_enforce_ = here == Enforce::accept;
        Faults faults;
        faults.attempt([&] { section(map, policy.everywhere, others); });
        may_enforce_ = below == Enforce::accept;
        faults.attempt([&] { of_process(map, policy); });
        if (const YamlNode *devices = find(map, "devices")) {
            const auto &sections = entries(*devices, "a map of sections such as 'cuda' or 'cuda:0'");
            constexpr std::size_t most_sections = 256;
            if (sections.size() > most_sections) {
                reject(place(*devices), 0,
                       "there are " + std::to_string(sections.size()) + " sections for devices; at most " +
                           std::to_string(most_sections) + " are allowed");
            }
            for (const auto &[key, value] : sections) {
                faults.attempt(
                    [&, &key = key, &value = value] { section(value, policy.devices[device_name(key, policy)], {}); });
            }
            bound(policy, *devices);
        }
        faults.raise();
    }

    const YamlNode *find(const YamlNode &map, std::string_view key) const {
        for (const auto &[name, value] : map.entries) {
            if (name.text == key) {
                return &value;
            }
        }
        return nullptr;
    }

    // The host computes the policy in force separately for each section: a small file with thousands of sections, below
    // long lists, would take minutes and gigabytes. Usual files have a thousandth of this limit.
    void bound(const Policy &policy, const YamlNode &devices) const {
        constexpr std::size_t most = 100'000;
        std::set<std::string_view> ops;
        const auto collect = [&](const PolicySection &section) {
            for (const auto &[op, order] : section.per_op) {
                ops.insert(op);
            }
            for (const auto &[op, contracts] : section.require_per_op) {
                ops.insert(op);
            }
        };
        collect(policy.everywhere);
        for (const auto &[device, section] : policy.devices) {
            collect(section);
        }
        std::size_t sum = 0;
        for (const auto &[device, section] : policy.devices) {
            const auto type = policy.devices.find(device.substr(0, device.find(':')));
            sum += weight(policy.everywhere) + weight(section) + ops.size() +
                   (type == policy.devices.end() ? 0 : weight(type->second));
        }
        if (sum > most) {
            reject(place(devices), 0,
                   "the sections for devices list " + std::to_string(sum) +
                       " vendors, ops and tokens, including those that each section inherits; at most " +
                       std::to_string(most) + " are allowed");
        }
    }

    // The entries of a map. A null value (a key with everything below it commented out) is an empty map.
    const std::vector<YamlEntry> &entries(const YamlNode &node, const char *expected) const {
        if (node.type != Type::map && node.type != Type::null) {
            reject(place(node), 0, std::string("expected ") + expected + ", found " + describe(node));
        }
        return node.entries;
    }

    void unknown(const YamlNode &key, const std::string &hint) {
        file_.unknown_keys.push_back(place(key).text() + ": unknown key " + quote(key.text) + hint);
        if (may_enforce_) {
            file_.unknown_enforced.push_back(file_.unknown_keys.back());
        }
    }

  private:
    static constexpr std::string_view op_backends = "op_backends"; // per_op as spelled by plugins of vLLM and SGLang
    static constexpr std::string_view trust_key = "trust";
    static constexpr std::string_view digests_key = "trusted_sha256";
    static constexpr std::string_view default_plugins_key = "default_plugins";

    // Reads items that apply to the whole process.
    void of_process(const YamlNode &map, Policy &policy) const {
        for (const auto &[key, value] : entries(map, "a map of settings")) {
            const std::string source = source_at(key);
            if (key.text == trust_key) {
                policy.trust = Item<Trust>{parse_trust(scalar(value), place(value)), source};
            } else if (key.text == digests_key) {
                policy.trusted_sha256 = Item<Digests>{digests(value), source};
            } else if (key.text == default_plugins_key) {
                policy.default_plugins = Item<Vendors>{vendors(value), source};
            }
        }
    }

    Digests digests(const YamlNode &node) const {
        if (node.type != Type::sequence) {
            reject(place(node), 0,
                   "expected a list of SHA-256 digests, found " + describe(node) +
                       "; write [] for none, or leave the setting out");
        }
        Digests result;
        for (const YamlNode &item : node.items) {
            result.push_back(parse_sha256(scalar(item), place(item)));
        }
        return result;
    }

    // Reads a section. Keys in `others` are not the section's, but may appear beside its keys.
    void section(const YamlNode &map, PolicySection &section, std::span<const std::string_view> others) {
        const YamlNode *prefer_vendor = nullptr;
        const YamlNode *prefer_vendor_key = nullptr;
        const YamlNode *per_op_key = nullptr;
        Faults faults;
        const auto item = [&](const YamlNode &key, const YamlNode &value) {
            const std::string source = source_at(key);
            if (key.text == prefer_vendor_setting.name) { // applied after prefer, wherever it appears
                prefer_vendor = &value;
                prefer_vendor_key = &key;
            } else if (key.text == per_op_setting.name || key.text == op_backends) {
                if (per_op_key != nullptr) {
                    reject(place(key), 0,
                           quote(key.text) + " is another name of " + quote(per_op_key->text) + "; keep one of them");
                }
                per_op_key = &key;
                per_op(value, section, source);
            } else if (key.text == require_setting.name) {
                require(value, section, source);
            } else if (!set(section, key.text, value, source) &&
                       std::find(others.begin(), others.end(), key.text) == others.end()) {
                unknown(key, hint(key.text, others));
            }
        };
        for (const auto &[key, value] : entries(map, "a map of settings")) {
            faults.attempt([&, &key = key, &value = value] { item(key, value); });
        }
        if (prefer_vendor != nullptr) {
            faults.attempt([&] {
                set_item(section, "prefer_vendor", scalar(*prefer_vendor), place(*prefer_vendor),
                         source_at(*prefer_vendor_key));
            });
        }
        faults.raise();
    }

    // False if no setting has this name.
    bool set(PolicySection &section, const std::string &name, const YamlNode &value, const std::string &source) const {
        bool is_one = false;
        for_each_setting([&]<class T>(const SettingRecord<T> &record) {
            if (record.name == name) {
                is_one = true;
                if constexpr (std::is_same_v<T, Vendors>) { // files may also write it as a YAML list
                    section.*record.member = Item<T>{vendors(value), source};
                } else {
                    section.*record.member = Item<T>{record.read(scalar(value), place(value)), source};
                }
            }
        });
        return is_one;
    }

    std::string source_at(const YamlNode &key) const { return place(key).text() + (is_enforced_ ? " (enforced)" : ""); }

    static std::string hint(std::string_view key, std::span<const std::string_view> others) {
        if (key == "enforce") {
            return "; only the system's policy file enforces, at its top level";
        }
        if (key == "devices") {
            return "; sections for devices do not nest";
        }
        if (key == "flagos_blacklist" || key == "oot_blacklist") {
            return "; a policy has no such list: give these ops an order without " +
                   std::string(key == "oot_blacklist" ? "'vendor'" : "'flagos'") + " in 'per_op'";
        }
        if (key == trust_key || key == digests_key || key == default_plugins_key) {
            return "; it applies to the whole process and belongs beside 'devices'";
        }
        for (const VariableInfo &variable : all_variables) {
            if (same_name(variable.stem, key) && !same_name(key, trust_key) && !same_name(key, default_plugins_key)) {
                return "; policy files cannot set it, only an environment variable that ends in " +
                       std::string(variable.stem) + " can";
            }
        }
        std::vector<std::string_view> known(setting_names().begin(), setting_names().end());
        known.push_back(op_backends);
        for (const std::string_view name : others) {
            if (!name.empty()) {
                known.push_back(name);
            }
        }
        return did_you_mean(key, known);
    }

    Vendors vendors(const YamlNode &node) const {
        if (node.type == Type::scalar) {
            return parse_vendors(node.text, place(node));
        }
        if (node.type != Type::sequence) {
            reject(place(node), 0,
                   "expected a list of names, found " + describe(node) +
                       "; write [] for nobody, or leave the setting out");
        }
        Vendors result;
        for (const YamlNode &item : node.items) {
            std::string vendor = parse_vendor(scalar(item), place(item));
            if (std::find(result.begin(), result.end(), vendor) == result.end()) {
                result.push_back(std::move(vendor));
            }
        }
        return result;
    }

    void per_op(const YamlNode &node, PolicySection &section, const std::string &source) const {
        if (node.type == Type::scalar) {
            set_item(section, "per_op", node.text, place(node), source);
            return;
        }
        Faults faults;
        for (const auto &[op, order] : entries(node, "a map from ops to orders")) {
            faults.attempt([&, &op = op, &order = order] {
                const std::string_view name = parse_op_name(op.text, place(op));
                if (!section.per_op.emplace(name, Item<Order>{this->order(order), source_at(op)}).second) {
                    reject(place(op), 0, "op " + quote(name) + " is given twice; keep one order");
                }
            });
        }
        faults.raise();
    }

    // Reads a list of contracts and of maps from ops to further contracts.
    void require(const YamlNode &node, PolicySection &section, const std::string &source) const {
        if (node.type == Type::scalar) {
            set_item(section, "require", node.text, place(node), source);
        } else if (node.type == Type::map) {
            require_per_op(node, section);
        } else if (node.type == Type::sequence) {
            const Contracts of_all = contracts(node, &section);
            if (of_all.flags != 0 || node.items.empty()) { // it does not apply to single ops only
                section.require = Item<Contracts>{of_all, source};
            }
        } else {
            reject(place(node), 0,
                   "expected a list of contracts, found nothing; write [] for none, or leave the setting out");
        }
    }

    void require_per_op(const YamlNode &map, PolicySection &section) const {
        for (const auto &[op, value] : map.entries) {
            const std::string_view name = parse_op_name(op.text, place(op));
            if (!section.require_per_op.emplace(name, Item<Contracts>{contracts(value), source_at(op)}).second) {
                reject(place(op), 0, "op " + quote(name) + " is given twice; keep one list");
            }
        }
    }

    // Reads contracts. Maps in the list are added to `section`, if there is one.
    Contracts contracts(const YamlNode &node, PolicySection *section = nullptr) const {
        if (node.type == Type::scalar) {
            return parse_contracts(node.text, place(node));
        }
        if (node.type != Type::sequence) {
            reject(place(node), 0,
                   "expected a list of contracts such as [deterministic, batch_invariant], found " + describe(node));
        }
        Contracts result;
        for (const YamlNode &item : node.items) {
            if (item.type == Type::map && section != nullptr) {
                require_per_op(item, *section);
            } else {
                result.flags |= parse_contract(scalar(item), place(item)).flags;
            }
        }
        return result;
    }

    Order order(const YamlNode &node) const {
        if (node.type == Type::scalar) {
            return parse_order(node.text, place(node));
        }
        if (node.type != Type::sequence || node.items.empty()) {
            reject(place(node), 0, "expected a list of tokens such as [vendor:acme, default], found " + describe(node));
        }
        Order result;
        Faults faults;
        for (const YamlNode &item : node.items) {
            faults.attempt([&] {
                if (item.type == Type::map && item.entries.size() == 1) {
                    const auto &[key, value] = item.entries.front();
                    reject(place(item), 0,
                           "found a map; a token has no space after ':', write " + quote(key.text + ":" + value.text));
                }
                result.push_back(parse_token(scalar(item), place(item)));
            });
        }
        faults.raise();
        check_order(result, place(node));
        return result;
    }

    // Returns "cuda" or "cuda:0", folded.
    std::string device_name(const YamlNode &key, const Policy &policy) const {
        const std::string text = folded(key.text);
        const std::size_t colon = std::min(text.find(':'), text.size());
        const std::string type = text.substr(0, colon);
        constexpr const char *expected =
            "expected a device type, or type and index, such as 'cuda' or 'cuda:0', found ";
        if (type.empty() || type.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") != std::string::npos) {
            reject(place(key), 0, expected + quote(key.text));
        }
        std::string name = type;
        if (colon < text.size()) {
            std::uint16_t index = 0;
            const char *end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, index);
            if (error != std::errc() || stop != end) {
                reject(place(key), colon + 1, expected + quote(key.text));
            }
            name += ":" + std::to_string(index);
        }
        if (policy.devices.contains(name)) {
            reject(place(key), 0, "device " + quote(name) + " is given twice; keep one section");
        }
        return name;
    }

    const std::string &scalar(const YamlNode &node) const {
        if (node.type != Type::scalar) {
            reject(place(node), 0, "expected one value, found " + describe(node));
        }
        return node.text;
    }

    static std::string describe(const YamlNode &node) {
        switch (node.type) {
        case Type::null:
            return "nothing";
        case Type::sequence:
            return node.items.empty() ? "an empty list" : "a list";
        case Type::map:
            return "a map";
        case Type::scalar:
            break;
        }
        return quote(node.text);
    }

    Place place(const YamlNode &node) const { return {name_, node.line, node.column + (node.is_quoted ? 1 : 0)}; }

    const std::string &name_;
    PolicyFile &file_;
    bool may_enforce_ = false; // in the file being read
    bool is_enforced_ = false; // inside `enforce`
};

} // namespace

PolicyFile parse_policy_file(std::string_view text, const std::string &name, Enforce enforce) {
    const YamlNode root = parse_bounded_yaml(text, name, OPDOCK_INVALID_POLICY);
    PolicyFile file;
    Reader reader(name, file);
    reader.policy(root, file.policy, enforce, Enforce::refuse, enforce == Enforce::accept ? "enforce" : "");
    if (enforce == Enforce::accept) {
        if (const YamlNode *enforced = reader.find(root, "enforce")) {
            reader.policy(*enforced, file.enforce, Enforce::accept, Enforce::accept);
        }
    }
    return file;
}

PolicyFile read_policy_file(const std::string &path, Enforce enforce) {
    return parse_policy_file(read_bounded_file(path, OPDOCK_INVALID_POLICY, most_yaml_bytes), path, enforce);
}

} // namespace opdock::core
