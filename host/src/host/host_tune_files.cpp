// Converts the contents of a host's tuning database to tune files whose sections pin them, and back.
#include <algorithm>
#include <map>
#include <set>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "files/database.hpp"
#include "host/host.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Parses "n=4096 pipeline=cpasync" into values.
NamedValues named_values(const std::string &text) {
    NamedValues values;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        const size_t equals = text.rfind('=', end);
        const std::string value = text.substr(equals + 1, end - equals - 1);
        const std::optional<int64_t> number = whole_number(value);
        values.push_back({{text.substr(begin, equals - begin), {}},
                          {number.value_or(0), {}, number ? std::nullopt : std::optional(value)}});
        begin = end + 1;
    }
    return values;
}

// True for a row that this build could have written; others are left out, as they are when rows are read for use.
bool is_readable(const TuneEntry &entry, const ImplementationSection &space, const ImplementationTuning &known) {
    std::vector<TuneProblem> problems; // discarded
    const TuneSection::Pinned pinned{{}, named_values(entry.key), {}};
    const auto tuple = parse_tuple({entry.dtypes, {}}, known.implementation().form->dtype_variables.size(), problems);
    return space.key.of(known.variables(), pinned, problems) == entry.key &&
           (entry.dtypes.empty() || (tuple && tuple_text(*tuple) == entry.dtypes));
}

} // namespace

// Calls `visit` with each implementation on each of its devices that can be tuned here.
template<class Visit>
void Host::each_tuning(const char *op, const char *impl_id, Visit visit) const {
    const Catalog &now = catalog();
    for (const auto &[name, declared] : now.ops) {
        for (const auto &implementation : declared->implementations) {
            if (implementation->knobs.empty() || (op != nullptr && name != op) ||
                (impl_id != nullptr && !same_name(implementation->impl_id, impl_id))) {
                continue;
            }
            const std::optional<DLDevice> first = find_device(now.providers, implementation->device);
            const DeviceProvider *provider =
                first ? find_provider(now.providers, static_cast<int32_t>(first->device_type)) : nullptr;
            std::set<std::string> models; // one device per model is enough
            for (int32_t i = 0; provider != nullptr && i < devices_.count(*provider).count; ++i) {
                Deployment &here = deployment_of(*implementation, {first->device_type, i});
                DeploymentTuning *tuning = here.tuning();
                if (tuning != nullptr && models.insert(tuning->identity().device).second) {
                    visit(*tuning);
                }
            }
        }
    }
}

std::string Host::export_tuning(const char *op, const char *impl_id) const {
    TuneFile file;
    each_tuning(op, impl_id, [&](const DeploymentTuning &tuning) {
        const ImplementationTuning &known = tuning.implementation();
        std::set<std::string> exported; // sections for different dtypes may share a space
        for (const ImplementationSection &space : known.sections()) {
            if (!exported.insert(space.space).second) {
                continue;
            }
            std::map<std::string, TuneSection> sections; // by dtypes
            for (const TuneEntry &entry : tuning.entries()) {
                if (entry.space != space.space || !is_readable(entry, space, known)) {
                    continue;
                }
                const auto [place, is_new] = sections.try_emplace(entry.dtypes);
                TuneSection &section = place->second;
                if (is_new) {
                    section.op.text = tuning.identity().op;
                    section.implementations = {{tuning.identity().impl_id, {}}};
                    section.devices = {{tuning.identity().device, {}}};
                    if (!entry.dtypes.empty()) {
                        section.dtypes = {{entry.dtypes, {}}};
                    }
                    section.has_key = true;
                    section.key = space.key.spelled(known.variables());
                }
                section.pinned.push_back({{}, named_values(entry.key), named_values(entry.config)});
            }
            for (auto &[dtypes, section] : sections) {
                std::sort(section.pinned.begin(), section.pinned.end(), [](const auto &a, const auto &b) {
                    return std::lexicographical_compare(
                        a.key.begin(), a.key.end(), b.key.begin(), b.key.end(),
                        [](const NamedValue &x, const NamedValue &y) { return x.value.value < y.value.value; });
                });
                file.sections.push_back(std::move(section));
            }
        }
    });
    return print_readable_tune_file(file);
}

namespace {

// Models and architectures of the devices that can be tuned here.
struct DevicesHere {
    std::set<std::string> models;
    std::set<std::string> architectures;
};

template<class Names>
std::string quoted(const Names &names) {
    std::vector<std::string> texts;
    for (const auto &name : names) {
        if constexpr (requires { name.text; }) {
            texts.push_back(quote(name.text));
        } else {
            texts.push_back(quote(name));
        }
    }
    return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string why_not_imported(const CatalogOp *op, const std::string &name, const TuneSection &section,
                             const DevicesHere &here) {
    if (op == nullptr) {
        return fmt::format("not imported: there is no op {}", quote(name));
    }
    std::vector<std::string_view> known;
    for (const auto &implementation : op->implementations) {
        known.push_back(implementation->impl_id);
    }
    for (const PlacedText &id : section.implementations) {
        const bool is_known =
            std::any_of(known.begin(), known.end(), [&](std::string_view one) { return same_name(one, id.text); });
        if (!is_known) {
            return fmt::format("not imported: op {} has no implementation {}{}", quote(name), quote(id.text),
                               did_you_mean(id.text, known));
        }
    }
    const auto is_here = [&](const PlacedText &model) { return here.models.contains(model.text); };
    if (!section.devices.empty() && std::none_of(section.devices.begin(), section.devices.end(), is_here)) {
        return fmt::format("not imported: the entries are for device {}; here: {}", quoted(section.devices),
                           quoted(here.models));
    }
    const std::string of =
        section.architectures.empty()
            ? ""
            : fmt::format(" or architecture ({}; here: {})", quoted(section.architectures), quoted(here.architectures));
    return fmt::format("not imported: the dtypes ({}){} do not match what is here",
                       section.dtypes.empty() ? "all" : quoted(section.dtypes), of);
}

// Explains why entries of these dtypes would never be found, and what to do.
std::string why_without_configs(const PluginTuning &plugin, const std::string &impl_id,
                                const std::set<std::string> &dtypes) {
    if (!plugin.has_file()) {
        const std::string where = plugin.path().empty() ? "" : ": " + quote(plugin.path());
        return fmt::format("not imported: the plugin of {} has no tune file, so these entries would never be found; "
                           "put a tune file beside the plugin{}",
                           quote(impl_id), where);
    }
    const bool has_dtypes = !dtypes.contains(""); // otherwise the signature has no dtype variables
    return fmt::format("not imported: the tune file of the plugin of {} has no configs for {}, so these entries would "
                       "never be found; add configs to {}",
                       quote(impl_id), has_dtypes ? "the dtypes " + quoted(dtypes) : "this op", quote(plugin.path()));
}

// Parts of a file that are not imported, by reason: the first place and the ops.
class LeftOut {
  public:
    void add(const TuneSection &section, const std::string &why) {
        reasons_.try_emplace(why, section.place, std::set<std::string>{}).first->second.second.insert(section.op.text);
    }
    void tell(const Log &log, const TuneFile &file) const {
        for (const auto &[why, sections] : reasons_) {
            const auto &[first, ops] = sections;
            log.warning(text_of(file, {first, ops.size() == 1 ? why : fmt::format("{} (ops {})", why, quoted(ops))}));
        }
    }

  private:
    std::map<std::string, std::pair<TunePlace, std::set<std::string>>> reasons_;
};

// Adds problems of the file that it was read from.
void add_problems(const TuneFile &file, const ImplementationTuning &given, std::vector<std::string> &problems) {
    for (const TuneProblem &problem : given.problems()) {
        problems.push_back(text_of(file, problem));
    }
    if (given.no_room()) {
        problems.push_back(text_of(file, *given.no_room()));
    }
}

} // namespace

uint64_t Host::import_tuning(std::string_view yaml, const std::string &name) {
    refuse_when_frozen("change its configs");
    const TuneFile file = parse_tune_file(yaml, name);
    std::vector<std::string> problems;
    for (const TuneProblem &problem : file.problems) {
        problems.push_back(text_of(file, problem));
    }
    std::vector<std::pair<DeploymentTuning *, std::vector<TuneEntry>>> found;
    LeftOut left_out;
    uint64_t count = 0;
    size_t values_left = most_values;
    for (const TuneSection &section : file.sections) {
        const TuneFile alone{file.name, {section}, {}};
        uint64_t adopted = 0;
        bool is_told = false; // the reason why some of it is left out is logged
        each_tuning(nullptr, nullptr, [&](DeploymentTuning &tuning) {
            const ImplementationTuning given(tuning.implementation().implementation(), &alone, values_left);
            add_problems(file, given, problems);
            std::set<std::string> without_configs;
            std::vector<TuneEntry> entries = tuning.adopt(given, problems, without_configs);
            if (!without_configs.empty()) {
                const Implementation &implementation = tuning.implementation().implementation();
                left_out.add(section, why_without_configs(configs_.of_plugin(catalog(), implementation.plugin),
                                                          implementation.impl_id, without_configs));
                is_told = true;
            }
            adopted += entries.size();
            if (!entries.empty()) {
                found.emplace_back(&tuning, std::move(entries));
            }
        });
        count += adopted;
        if (adopted == 0 && !is_told && problems.empty() && !section.pinned.empty()) {
            DevicesHere here;
            each_tuning(section.op.text.c_str(), nullptr, [&](const DeploymentTuning &tuning) {
                here.models.insert(tuning.identity().device);
                here.architectures.insert(tuning.identity().architecture);
            });
            left_out.add(section, why_not_imported(catalog().find(section.op.text), section.op.text, section, here));
        }
    }
    if (!problems.empty()) {
        throw Error(OPDOCK_INVALID_TUNE_FILE, fmt::format("{}", fmt::join(problems, "\n")));
    }
    left_out.tell(log_, file);
    try {
        for (const auto &[tuning, entries] : found) {
            configs_.database().write(tuning->identity(), entries);
        }
    } catch (const DatabaseError &error) {
        throw Error(OPDOCK_FAILED, error.what());
    }
    return count;
}

} // namespace opdock::core
