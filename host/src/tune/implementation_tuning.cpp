#include "tune/implementation_tuning.hpp"

#include <algorithm>
#include <cmath>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "files/digest.hpp"
#include "load/architecture.hpp"
#include "signature/dtype.hpp"
#include "text/spelling.hpp"
#include "tune/reading_order.hpp"

namespace opdock::core {
namespace {

std::vector<std::string_view> names_of(const std::vector<Knob> &knobs) {
    std::vector<std::string_view> names;
    names.reserve(knobs.size());
    for (const Knob &knob : knobs) {
        names.push_back(knob.name);
    }
    return names;
}

// Nothing for a value that does not fit in 64 bits. Integers, because a range may end where doubles skip some.
std::optional<int64_t> rounded_down(double value) {
    const double whole = std::floor(value);
    return whole >= -0x1p63 && whole < 0x1p63 ? std::optional(static_cast<int64_t>(whole)) : std::nullopt;
}

} // namespace

std::string value_text(const Knob &knob, int64_t value) {
    return knob.type == OPDOCK_KNOB_CHOICE ? knob.choices.at(static_cast<size_t>(value)) : std::to_string(value);
}

std::string config_text(const std::vector<Knob> &knobs, const TuneConfig &config) {
    std::string text;
    for (size_t i = 0; i < knobs.size(); ++i) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", knobs[i].name, value_text(knobs[i], config[i]));
    }
    return text;
}

std::optional<TuneConfig> parse_config(const std::vector<Knob> &knobs, std::string_view text) {
    TuneConfig config(knobs.size());
    std::vector<bool> given(knobs.size());
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        const std::string_view part = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const size_t equals = part.rfind('=');
        if (equals == std::string_view::npos) {
            return {};
        }
        const auto knob = std::find_if(knobs.begin(), knobs.end(),
                                       [&](const Knob &one) { return one.name == part.substr(0, equals); });
        const auto i = static_cast<size_t>(knob - knobs.begin());
        if (knob == knobs.end() || given[i]) {
            return {};
        }
        const std::string_view value = part.substr(equals + 1);
        const auto choice = std::find(knob->choices.begin(), knob->choices.end(), value);
        const std::optional<int64_t> number =
            choice != knob->choices.end() ? choice - knob->choices.begin() : whole_number(value);
        const bool is_named = choice != knob->choices.end() || knob->type != OPDOCK_KNOB_CHOICE;
        if (!number || !is_named || *number < knob->minimum || *number > knob->maximum) {
            return {};
        }
        config[i] = *number;
        given[i] = true;
    }
    return std::all_of(given.begin(), given.end(), [](bool one) { return one; }) ? std::optional(config) : std::nullopt;
}

bool ImplementationSection::is_for(std::span<const uint32_t> tuple, const opdock_device_properties &device,
                                   bool ordered_architectures) const {
    const auto none_or_any = [](const auto &list, auto matches) {
        return list.empty() || std::any_of(list.begin(), list.end(), matches);
    };
    return none_or_any(
               dtypes,
               [&](const auto &one) { return std::equal(one.begin(), one.end(), tuple.begin(), tuple.end()); }) &&
           none_or_any(devices, [&](const std::string &one) { return one == device.name; }) &&
           none_or_any(architectures, [&](const std::string &one) {
               return architecture_matches(one, device.architecture, ordered_architectures);
           });
}

ImplementationTuning::ImplementationTuning(const Implementation &implementation, const TuneFile *file,
                                           size_t &values_left)
    : implementation_(implementation), variables_(*implementation.form), where_names_(variables_.names()),
      heuristic_names_(variables_.names()) {
    for (const Knob &knob : implementation.knobs) {
        // A heuristic is about a call: the variable hides the knob.
        heuristic_names_.push_back(variables_.find(knob.name) ? "_hidden_by_variable_" + knob.name : knob.name);
        const auto hidden = std::find(where_names_.begin(), where_names_.end(), knob.name);
        if (hidden != where_names_.end()) {
            *hidden = "_hidden_by_knob_" + knob.name; // a where clause is about configs: the knob hides the variable
        }
        where_names_.push_back(knob.name);
    }
    if (file == nullptr) {
        return;
    }
    for (const bool every_op : {false, true}) { // entries for the op itself come first
        for (const TuneSection &section : file->sections) {
            if (section.is_for_every_op() != every_op || !is_for_this(section)) {
                continue;
            }
            meant_.insert(&section);
            if (has_room_for(section, values_left)) {
                add(section);
                problem_sections_.resize(problems_.size(), &section);
            }
        }
    }
}

// A small file can need much room if a section is for many implementations, or for one with many knobs.
bool ImplementationTuning::has_room_for(const TuneSection &section, size_t &values_left) {
    constexpr size_t values_of_expression = 64; // reading it takes as long as for so many values
    constexpr size_t values_of_text = 8;        // same size in bytes; also the overhead of a list of values
    constexpr size_t values_of_pinned = 32;
    size_t configs = section.product.empty() ? 0 : 1;
    for (const auto &[name, values] : section.product) {
        configs *= values.size(); // bounded by most_configs, see tune_file.cpp
    }
    const size_t listed = section.configs.size() + section.pinned.size();
    const size_t values =
        (configs + listed + 1) * implementation_.knobs.size() +
        expressions_of(section) * (values_of_expression + where_names_.size()) +
        (section.architectures.size() + section.devices.size() + section.dtypes.size() + listed) * values_of_text +
        section.pinned.size() * values_of_pinned;
    if (values > values_left) {
        no_room_ = {
            section.place,
            fmt::format(
                "'{}' does not use this section: over all implementations the file has more than {} knob values",
                implementation_.impl_id, most_values)};
        return false;
    }
    values_left -= values;
    return true;
}

bool ImplementationTuning::is_for_this(const TuneSection &section) const {
    return (section.is_for_every_op() ? has_all_knobs_of(section) : section.op.text == implementation_.op) &&
           (section.implementations.empty() ||
            std::any_of(section.implementations.begin(), section.implementations.end(),
                        [&](const PlacedText &id) { return same_name(id.text, implementation_.impl_id); }));
}

bool ImplementationTuning::has_all_knobs_of(const TuneSection &section) const {
    const auto has = [&](const PlacedText &name) {
        return std::any_of(implementation_.knobs.begin(), implementation_.knobs.end(),
                           [&](const Knob &one) { return one.name == name.text; });
    };
    const auto has_of = [&](const auto &named) { return has(named.first); };
    const auto has_in = [&](const NamedValues &config) {
        return std::all_of(config.begin(), config.end(), [&](const NamedValue &value) { return has(value.name); });
    };
    return std::all_of(section.product.begin(), section.product.end(), has_of) &&
           std::all_of(section.heuristics.begin(), section.heuristics.end(), has_of) &&
           std::all_of(section.configs.begin(), section.configs.end(), has_in) &&
           std::all_of(section.pinned.begin(), section.pinned.end(),
                       [&](const TuneSection::Pinned &pinned) { return has_in(pinned.config); });
}

TuneConfig ImplementationTuning::defaults() const {
    TuneConfig config;
    config.reserve(implementation_.knobs.size());
    for (const Knob &knob : implementation_.knobs) {
        config.push_back(knob.default_value);
    }
    return config;
}

std::optional<size_t> ImplementationTuning::knob(const PlacedText &name) {
    const std::vector<std::string_view> known = names_of(implementation_.knobs);
    const auto found = std::find(known.begin(), known.end(), name.text);
    if (found == known.end()) {
        add_problem(problems_, {name.place, fmt::format("'{}' has no knob {}{}", implementation_.impl_id,
                                                        quote(name.text), hint_for(problems_, name.text, known))});
        return {};
    }
    return static_cast<size_t>(found - known.begin());
}

std::optional<int64_t> ImplementationTuning::value_of(size_t knob, const PlacedValue &value) {
    const Knob &declared = implementation_.knobs[knob];
    if (declared.type == OPDOCK_KNOB_CHOICE) {
        // Choices within the knob's range, which may exclude some at both ends.
        const std::vector<std::string_view> known(declared.choices.begin() + declared.minimum,
                                                  declared.choices.begin() + declared.maximum + 1);
        const auto choice = std::find(known.begin(), known.end(), value.word.value_or(""));
        if (value.word && choice != known.end()) {
            return declared.minimum + (choice - known.begin());
        }
        const std::string found = value.word.value_or(std::to_string(value.value));
        add_problem(problems_, {value.place, fmt::format("knob '{}' is {}; expected {}{}", declared.name, quote(found),
                                                         one_of(known), hint_for(problems_, found, known))});
        return {};
    }
    if (value.word) {
        add_problem(problems_, {value.place, fmt::format("knob '{}': expected an integer, true or false, found {}",
                                                         declared.name, quote(*value.word))});
        return {};
    }
    if (value.value < declared.minimum || value.value > declared.maximum) {
        add_problem(problems_, {value.place, fmt::format("knob '{}' is {}, outside its range {} to {}", declared.name,
                                                         value.value, declared.minimum, declared.maximum)});
        return {};
    }
    return value.value;
}

TuneConfig ImplementationTuning::base_of(const TuneSection &section) {
    TuneConfig base = defaults();
    const std::vector<std::string_view> known = names_of(implementation_.knobs);
    for (const NamedValue &value : section.assumed) {
        const auto found = std::find(known.begin(), known.end(), value.name.text);
        const auto which = static_cast<size_t>(found - known.begin());
        if (const auto given = found != known.end() ? value_of(which, value.value) : std::nullopt) {
            base[which] = *given;
        }
    }
    return base;
}

std::optional<TuneConfig> ImplementationTuning::config_of(const NamedValues &values, const TuneConfig &base) {
    TuneConfig config = base;
    for (const NamedValue &value : values) {
        const std::optional<size_t> which = knob(value.name);
        const std::optional<int64_t> given = which ? value_of(*which, value.value) : std::nullopt;
        if (!given) {
            return {};
        }
        config[*which] = *given;
    }
    return config;
}

void ImplementationTuning::add(const TuneSection &from) {
    ImplementationSection to(from.has_key ? TuneKey(from, variables_, problems_) : TuneKey(variables_));
    to.line = from.place.line;
    for (const PlacedText &one : from.architectures) {
        if (!is_architecture_pattern(one.text)) {
            add_problem(problems_,
                        {one.place, quote(one.text) + " is not an architecture; expected one like sm_90 or sm_80+"});
            return; // its target is unknown
        }
        to.architectures.push_back(one.text);
    }
    for (const PlacedText &one : from.devices) {
        to.devices.push_back(one.text);
    }
    for (const PlacedText &one : from.dtypes) {
        auto tuple = parse_tuple(one, implementation_.form->dtype_variables.size(), problems_);
        if (!tuple) {
            return;
        }
        to.dtypes.push_back(std::move(*tuple));
    }
    to.base = base_of(from);
    add_space(from, to);
    add_heuristics(from, to);
    for (const TuneSection::Pinned &pinned : from.pinned) {
        const std::optional<std::string> key = to.key.of(variables_, pinned, problems_);
        std::optional<TuneConfig> config = config_of(pinned.config, to.base);
        if (key && config && !to.pinned.try_emplace(*key, PinnedConfig{std::move(*config), pinned.place.line}).second) {
            add_problem(problems_,
                        {pinned.place, fmt::format("the key ({}) is pinned twice; the first entry is used", *key)});
        }
    }
    sections_.push_back(std::move(to));
}

void ImplementationTuning::add_space(const TuneSection &from, ImplementationSection &to) {
    for (const NamedValues &values : from.configs) {
        if (std::optional<TuneConfig> config = config_of(values, to.base)) {
            to.configs.push_back(std::move(*config));
        }
    }
    for (const auto &[name, values] : from.product) {
        const std::optional<size_t> which = knob(name);
        if (!which) {
            to.product.clear();
            break;
        }
        std::vector<int64_t> good;
        for (const PlacedValue &value : values) {
            if (const std::optional<int64_t> one = value_of(*which, value)) {
                good.push_back(*one);
            }
        }
        if (good.empty()) {
            to.product.clear();
            break;
        }
        to.product.emplace_back(*which, std::move(good));
    }
    add_where(from, to);
    if (to.configs.empty() && to.product.empty()) {
        return;
    }
    std::string text;
    for (const Knob &knob : implementation_.knobs) {
        text += fmt::format("{}:{}:{}:{}:{};", knob.name, knob.type, knob.minimum, knob.maximum,
                            fmt::join(knob.choices, ","));
    }
    text += "key " + to.key.text(variables_);
    for (const TuneConfig &config : to.configs) {
        text += ";" + config_text(implementation_.knobs, config);
    }
    if (!to.product.empty()) {
        text += ";base " + config_text(implementation_.knobs, to.base);
    }
    for (const auto &[which, values] : to.product) {
        text += fmt::format(";{} {}", which, fmt::join(values, ","));
    }
    for (const TuneExpression &clause : to.where) {
        text += ";where " + clause.text();
    }
    to.space = hex(sha256_of(text)).substr(0, 16);
}

void ImplementationTuning::add_heuristics(const TuneSection &from, ImplementationSection &to) {
    struct Heuristic {
        size_t knob;
        const PlacedText *text;
        TuneExpression expression;
    };
    std::vector<Heuristic> parsed;
    for (const auto &[name, text] : from.heuristics) {
        const std::optional<size_t> which = knob(name);
        auto expression = TuneExpression::parse(text.text, heuristic_names_);
        if (const auto *fault = std::get_if<TuneExpression::Fault>(&expression)) {
            add_problem(problems_, {{text.place.line, text.place.column + fault->at}, fault->message});
        } else if (which) {
            parsed.push_back({*which, &text, std::get<TuneExpression>(std::move(expression))});
        }
    }
    std::unordered_map<size_t, size_t> heuristic_of; // index in `parsed` by knob
    for (size_t i = 0; i < parsed.size(); ++i) {
        heuristic_of.emplace(parsed[i].knob, i);
    }
    std::vector<std::vector<size_t>> reads(parsed.size());
    for (size_t i = 0; i < parsed.size(); ++i) {
        for (const size_t name : parsed[i].expression.reads()) {
            const size_t n_variables = variables_.names().size();
            const auto found = name < n_variables ? heuristic_of.end() : heuristic_of.find(name - n_variables);
            if (found != heuristic_of.end()) {
                reads[i].push_back(found->second);
            }
        }
    }
    const ReadingOrder order = reading_order(reads);
    for (const std::vector<size_t> &circle : order.circles) {
        std::string names;
        for (const size_t i : circle) {
            names += implementation_.knobs[parsed[i].knob].name + " -> ";
        }
        const Heuristic &first = parsed[circle.front()];
        names += implementation_.knobs[first.knob].name;
        add_problem(problems_, {first.text->place, "heuristics refer to each other in a cycle: " + names});
    }
    for (const size_t i : order.order) {
        to.heuristics.emplace_back(parsed[i].knob, std::move(parsed[i].expression));
    }
}

void ImplementationTuning::add_where(const TuneSection &from, ImplementationSection &to) {
    bool static_only = true; // it reads only knobs: the remaining configs are known now
    for (const PlacedText &clause : from.where) {
        auto parsed = TuneExpression::parse(clause.text, where_names_);
        if (const auto *fault = std::get_if<TuneExpression::Fault>(&parsed)) {
            add_problem(problems_, {{clause.place.line, clause.place.column + fault->at}, fault->message});
            to.configs.clear(); // some may be configs that the clause excludes
            to.product.clear();
            to.has_faulty_where = true;
            return;
        }
        to.where.push_back(std::get<TuneExpression>(std::move(parsed)));
        const std::vector<size_t> &reads = to.where.back().reads();
        static_only = static_only && std::all_of(reads.begin(), reads.end(),
                                                 [&](size_t name) { return name >= variables_.names().size(); });
    }
    if (to.where.empty() || !static_only || (to.configs.empty() && to.product.empty())) {
        return;
    }
    std::vector<double> all(where_names_.size());
    bool is_empty = true;
    each_candidate(to, [&](const TuneConfig &config) { return is_empty = clause_against(to, config, all) != nullptr; });
    if (is_empty) {
        add_problem(problems_, {from.where.front().place, "where leaves no config"});
        to.configs.clear();
        to.product.clear();
    }
}

// Visits candidates until `visit` returns false.
template<class Visit>
void ImplementationTuning::each_candidate(const ImplementationSection &section, Visit visit) const {
    for (const TuneConfig &config : section.configs) {
        if (!visit(config)) {
            return;
        }
    }
    if (section.product.empty()) {
        return;
    }
    std::vector<size_t> at(section.product.size());
    TuneConfig config = section.base;
    for (;;) {
        for (size_t i = 0; i < at.size(); ++i) {
            config[section.product[i].first] = section.product[i].second[at[i]];
        }
        if (!visit(config)) {
            return;
        }
        size_t i = at.size(); // the last one varies fastest
        while (i > 0 && ++at[i - 1] == section.product[i - 1].second.size()) {
            at[--i] = 0;
        }
        if (i == 0) {
            return;
        }
    }
}

// The first clause of `where` that the config fails; null if there is none. `all`: the variables'
// values, followed by room for the knobs' values.
const TuneExpression *ImplementationTuning::clause_against(const ImplementationSection &section,
                                                           const TuneConfig &config, std::vector<double> &all) const {
    std::copy(config.begin(), config.end(), all.end() - static_cast<std::ptrdiff_t>(config.size()));
    const auto failed = std::find_if(section.where.begin(), section.where.end(), [&](const TuneExpression &clause) {
        return clause.evaluate(all).value_or(0) == 0;
    });
    return failed == section.where.end() ? nullptr : &*failed;
}

std::string ImplementationTuning::exclusion(const ImplementationSection &section, const TuneConfig &config,
                                            std::span<const double> values) const {
    if (section.has_faulty_where) {
        return "is excluded because where cannot be read";
    }
    if (section.where.empty()) {
        return {};
    }
    std::vector<double> all(values.begin(), values.end());
    all.resize(where_names_.size());
    const TuneExpression *clause = clause_against(section, config, all);
    return clause == nullptr ? "" : fmt::format("is excluded by where {}", quote(clause->text()));
}

template<class Visit>
void ImplementationTuning::each_allowed(const ImplementationSection &section, std::span<const double> values,
                                        const ImplementationSection *other, Visit visit) const {
    const ImplementationSection &limits = section.has_where() || other == nullptr ? section : *other;
    if (limits.has_faulty_where) {
        return;
    }
    std::vector<double> all(values.begin(), values.end());
    all.resize(where_names_.size());
    each_candidate(section, [&](const TuneConfig &config) {
        return clause_against(limits, config, all) != nullptr || visit(config);
    });
}

std::vector<TuneConfig> ImplementationTuning::candidates(const ImplementationSection &section,
                                                         std::span<const double> values,
                                                         const ImplementationSection *other) const {
    std::vector<TuneConfig> found;
    std::set<TuneConfig> seen;
    each_allowed(section, values, other, [&](const TuneConfig &config) {
        if (seen.insert(config).second) {
            found.push_back(config);
        }
        return true;
    });
    return found;
}

std::optional<TuneConfig> ImplementationTuning::first_candidate(const ImplementationSection &section,
                                                                std::span<const double> values,
                                                                const ImplementationSection *other) const {
    std::optional<TuneConfig> found;
    each_allowed(section, values, other, [&](const TuneConfig &config) {
        found = config;
        return false;
    });
    return found;
}

std::optional<TuneConfig> ImplementationTuning::heuristic(const ImplementationSection &section,
                                                          std::span<const double> values, std::string *why) const {
    TuneConfig config = defaults();
    std::vector<double> all(values.begin(), values.end());
    all.insert(all.end(), config.begin(), config.end());
    for (const auto &[which, expression] : section.heuristics) {
        const Knob &knob = implementation_.knobs[which];
        const std::optional<double> value = expression.evaluate(all);
        const std::optional<int64_t> whole = value ? rounded_down(*value) : std::nullopt;
        if (!whole || *whole < knob.minimum || *whole > knob.maximum) {
            *why = fmt::format("the expression of knob '{}' is {}, outside its range {} to {}", knob.name,
                               value ? fmt::format("{}", *value) : "not a number", knob.minimum, knob.maximum);
            return {};
        }
        config[which] = *whole;
        all[values.size() + which] = static_cast<double>(*whole);
    }
    return config;
}

std::vector<uint32_t> dtypes_of(const Signature &form, const opdock_problem &problem) {
    std::vector<uint32_t> dtypes(form.dtype_variables.size());
    for (size_t p = 0; p < form.n_params(); ++p) {
        const int variable = form.parameter(p).dtype_variable;
        for (uint32_t t = problem.tensor_offsets[p]; variable >= 0 && t < problem.tensor_offsets[p + 1]; ++t) {
            if (const DLTensor *tensor = problem.tensors[t]; tensor != nullptr && dtypes[variable] == 0) {
                dtypes[variable] = opdock_dtype_pack(tensor->dtype);
            }
        }
    }
    for (size_t a = 0; a < form.attributes.size(); ++a) {
        const int variable = form.attributes[a].dtype_variable;
        if (variable >= 0 && dtypes[variable] == 0) {
            dtypes[variable] = static_cast<uint32_t>(problem.attributes[a].as.i);
        }
    }
    return dtypes;
}

std::optional<std::vector<uint32_t>> parse_tuple(const PlacedText &text, size_t n_variables,
                                                 std::vector<TuneProblem> &problems) {
    std::vector<uint32_t> tuple;
    for (size_t begin = 0; begin <= text.text.size();) {
        const size_t end = std::min(text.text.find(',', begin), text.text.size());
        const std::string_view name = trimmed(std::string_view(text.text).substr(begin, end - begin));
        const std::optional<uint32_t> dtype = name == "-" ? 0 : parse_dtype(name);
        if (!dtype) {
            add_problem(problems, {text.place, quote(name) + " is not a dtype; expected " OPDOCK_DTYPE_NAMES});
            return {};
        }
        tuple.push_back(*dtype);
        begin = end + 1;
    }
    if (tuple.size() == 1 && n_variables > 1) {
        tuple.resize(n_variables, tuple.front()); // one dtype for all
    }
    if (tuple.size() != n_variables) {
        add_problem(problems, {text.place,
                               fmt::format("dtypes {}: the op has {} dtype variables", quote(text.text), n_variables)});
        return {};
    }
    return tuple;
}

std::string tuple_text(std::span<const uint32_t> dtypes) {
    std::string text;
    for (const uint32_t dtype : dtypes) {
        text += (text.empty() ? "" : ",") + (dtype == 0 ? "-" : dtype_name(dtype));
    }
    return text;
}

} // namespace opdock::core
