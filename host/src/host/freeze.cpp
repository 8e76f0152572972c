// Fixes every choice of a host, and writes the choices as a manifest for comparison with hosts on other machines.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "files/bounded_file.hpp"
#include "files/digest.hpp"
#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

constexpr std::string_view manifest_schema = "opdock.frozen/1";

// Calls of an op with these dtypes on devices of one model.
struct CallsKey {
    std::string op, device, model, dtypes;

    auto operator<=>(const CallsKey &) const = default;
};
struct Chosen {
    std::string impl_id, plugin, build_id, configs;

    auto operator<=>(const Chosen &) const = default;
};
using Choices = std::map<CallsKey, Chosen>;

// {"op", "device", "model", "impl_id", "plugin", "build_id", "configs", "dtypes": ["bf16,f32"]}
json manifest_of(const Choices &choices) {
    std::map<std::pair<std::array<std::string, 3>, Chosen>, std::vector<std::string>> tuples;
    for (const auto &[calls, chosen] : choices) {
        tuples[{{calls.op, calls.device, calls.model}, chosen}].push_back(calls.dtypes);
    }
    json list = json::array();
    for (const auto &[one, dtypes] : tuples) {
        const auto &[calls, chosen] = one;
        list.push_back({{"op", calls[0]},
                        {"device", calls[1]},
                        {"model", calls[2]},
                        {"dtypes", dtypes},
                        {"impl_id", chosen.impl_id},
                        {"plugin", chosen.plugin},
                        {"build_id", chosen.build_id},
                        {"configs", chosen.configs}});
    }
    const std::string digest = "sha256:" + hex(sha256_of(list.dump()));
    return {{"schema", manifest_schema}, {"digest", digest}, {"choices", std::move(list)}};
}

Choices choices_in(std::string_view manifest) {
    const auto refuse = [](const std::string &why) -> Error {
        return {OPDOCK_INVALID_ARGUMENT, fmt::format("this is not a manifest of a frozen host: {}.\nExpected JSON of "
                                                     "schema {}, as opdock_freeze and `plugin-ls --freeze` write it.",
                                                     why, manifest_schema)};
    };
    const json document = json::parse(manifest, nullptr, false);
    if (!document.is_object() || document.value("schema", json()) != manifest_schema) {
        throw refuse(document.is_discarded() ? "it is not JSON" : "its schema is different");
    }
    Choices choices;
    try {
        for (const json &one : document.at("choices")) {
            const auto text = [&](const char *name) { return one.at(name).get<std::string>(); };
            const Chosen chosen{text("impl_id"), text("plugin"), text("build_id"), text("configs")};
            for (const json &dtypes : one.at("dtypes")) {
                choices[{text("op"), text("device"), text("model"), dtypes.get<std::string>()}] = chosen;
            }
        }
    } catch (const json::exception &error) {
        throw refuse(visible_line(error.what()));
    }
    if (manifest_of(choices).at("digest") != document.value("digest", json())) {
        throw refuse("its digest does not match its choices, so the manifest was changed");
    }
    return choices;
}

// The dtypes that calls can have: none for a variable that only absent parameters use.
std::vector<std::vector<uint32_t>> tuples_of_calls(Signature signature) {
    for (size_t i = 0; i < signature.allowed_dtypes.size(); ++i) {
        const auto is_bound_by = [&](const Parameter &one) {
            return !one.optional && one.dtype_variable == static_cast<int>(i);
        };
        if (std::none_of(signature.inputs.begin(), signature.inputs.end(), is_bound_by) &&
            std::none_of(signature.outputs.begin(), signature.outputs.end(), is_bound_by)) {
            signature.allowed_dtypes[i].push_back(0);
        }
    }
    return all_tuples(signature);
}

std::string text_of(const Chosen &chosen) {
    return fmt::format("'{}' of plugin '{}' ({}, {})", visible_line(chosen.impl_id), visible_line(chosen.plugin),
                       chosen.build_id.empty() ? "without a build id" : "build " + visible_line(chosen.build_id),
                       chosen.configs.empty() ? "no configs" : "configs " + visible_line(chosen.configs).substr(0, 12));
}

// Joins calls with the same difference in one line: "op 'gelu' on cpu (Xeon), f32 and 2 more: expected ..., found ...".
std::string differences(const Choices &expected, const Choices &found) {
    std::map<std::pair<std::array<std::string, 3>, std::string>, std::vector<std::string>> lines;
    const auto differ = [&](const CallsKey &calls, const std::string &how) {
        lines[{{calls.op, calls.device, calls.model}, how}].push_back(calls.dtypes);
    };
    for (const auto &[calls, chosen] : expected) {
        const auto here = found.find(calls);
        if (here == found.end()) {
            differ(calls, fmt::format("expected {}, found nothing that serves them", text_of(chosen)));
        } else if (here->second != chosen) {
            differ(calls, fmt::format("expected {}, found {}", text_of(chosen), text_of(here->second)));
        }
    }
    for (const auto &[calls, chosen] : found) {
        if (!expected.contains(calls)) {
            differ(calls, fmt::format("found {}, which the manifest lacks", text_of(chosen)));
        }
    }
    constexpr size_t most_lines = 8;
    std::string text;
    size_t told = 0;
    for (const auto &[line, dtypes] : lines) {
        if (told++ == most_lines) {
            text += fmt::format("\n  and {} more", lines.size() - most_lines);
            break;
        }
        const auto &[calls, how] = line;
        text += fmt::format("\n  op '{}' on {} ({}), {}{}: {}", visible_line(calls[0]), visible_line(calls[1]),
                            visible_line(calls[2]), dtypes.front().empty() ? "no dtypes" : visible_line(dtypes.front()),
                            dtypes.size() == 1 ? "" : fmt::format(" and {} more", dtypes.size() - 1), how);
    }
    return text;
}

// Covers everything that determines an implementation's configs on one device: its plugin's tune file and the database.
std::string digest_of_configs(const PluginTuning &plugin, const DeploymentTuning &tuning) {
    std::string text = plugin.has_file() ? read_bounded_file(plugin.path(), OPDOCK_INVALID_TUNE_FILE) : "";
    std::set<std::string> entries;
    for (const TuneEntry &entry : tuning.entries()) {
        entries.insert(fmt::format("{}\n{}\n{}\n{}\n", entry.space, entry.dtypes, entry.key, entry.config));
    }
    for (const std::string &entry : entries) {
        text += '\0' + entry;
    }
    return text.empty() ? "" : hex(sha256_of(text));
}

} // namespace

// Null if nothing can serve such calls.
Deployment *Host::chosen_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes) {
    try {
        return chain_for(target, device, dtypes)->links.front().deployment;
    } catch (const Error &error) {
        if (error.status() == OPDOCK_ALL_DROPPED || error.status() == OPDOCK_NO_IMPLEMENTATION) {
            return nullptr;
        }
        throw;
    }
}

json Host::freeze(const char *expected) {
    refuse_while_registering("freeze a host");
    const std::optional<Choices> demanded = expected != nullptr ? std::optional(choices_in(expected)) : std::nullopt;
    const bool was_frozen = is_frozen();
    publish_frozen(true);
    try {
        Choices choices;
        std::map<const Deployment *, std::string> configs; // digests of their configs
        const Catalog &now = catalog();
        for (const auto &provider : now.providers) {
            for (int32_t index = 0; index < devices_.count(*provider).count; ++index) {
                const DLDevice device{static_cast<DLDeviceType>(provider->table.dl_device_type), index};
                const opdock_device_properties *properties = devices_.properties(device);
                const std::string model = properties != nullptr ? properties->name : "";
                for (const auto &[name, op] : now.ops) {
                    if (std::none_of(op->implementations.begin(), op->implementations.end(),
                                     [&](const auto &one) { return same_name(one->device, provider->type); })) {
                        continue; // nothing can serve it there
                    }
                    const Target &target = target_of(*find_op(name), call_thread());
                    const std::shared_ptr<const View> kept = target.view->shared_from_this();
                    for (const std::vector<uint32_t> &dtypes : tuples_of_calls(*op->signature)) {
                        Deployment *const chosen = chosen_for(target, device, dtypes);
                        if (chosen == nullptr) {
                            continue;
                        }
                        const Implementation &implementation = chosen->implementation();
                        const PluginRecord *record = now.find_plugin(implementation.plugin);
                        const auto [digest, is_new] = configs.try_emplace(chosen);
                        if (const DeploymentTuning *tuning = is_new ? chosen->tuning() : nullptr) {
                            digest->second =
                                digest_of_configs(configs_.of_plugin(catalog(), implementation.plugin), *tuning);
                        }
                        choices[{name, provider->type, model, tuple_text(dtypes)}] = {
                            implementation.impl_id, implementation.plugin, record != nullptr ? record->build_id : "",
                            digest->second};
                    }
                }
            }
        }
        if (demanded) {
            if (const std::string text = differences(*demanded, choices); !text.empty()) {
                throw Error(OPDOCK_INVALID_POLICY,
                            "the implementations that serve calls here differ from the manifest:" + text);
            }
        }
        return manifest_of(choices);
    } catch (...) {
        if (!was_frozen) {
            publish_frozen(false);
        }
        throw;
    }
}

} // namespace opdock::core
