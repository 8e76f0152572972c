// A tune file's sections for one implementation, resolved and checked: knob names have become
// positions, expressions are parsed, pinned keys bucketed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "load/registration.hpp"
#include "tune/expression.hpp"
#include "tune/tune_file.hpp"
#include "tune/tune_key.hpp"
#include "tune/variables.hpp"

namespace opdock::core {

// One value for each knob of an implementation, in its order.
using TuneConfig = std::vector<int64_t>;

// A number, or the name of a choice.
std::string value_text(const Knob &knob, int64_t value);
// "block=256 pipeline=cpasync"
std::string config_text(const std::vector<Knob> &knobs, const TuneConfig &config);
// The inverse; nothing unless each knob occurs once with a value in its range.
std::optional<TuneConfig> parse_config(const std::vector<Knob> &knobs, std::string_view text);

struct PinnedConfig {
    TuneConfig config;
    size_t line;
};

// One section, resolved for one implementation.
struct ImplementationSection {
    ImplementationSection(TuneKey of) : key(std::move(of)) {}

    size_t line = 0;
    std::vector<std::string> architectures;
    std::vector<std::string> devices;
    std::vector<std::vector<uint32_t>> dtypes;
    TuneKey key;

    TuneConfig base; // values for knobs that a config omits
    // Candidates: first the configs, then the product, both filtered by `where`.
    std::vector<TuneConfig> configs;
    std::vector<std::pair<size_t, std::vector<int64_t>>> product; // knob, values
    std::vector<TuneExpression> where;                            // names: variables, then knobs
    bool has_faulty_where = false;                                // one could not be read: no config is allowed
    std::string space;                                            // identifies candidates and key; empty: none
    // (knob, expression of variables and knobs); a knob that others read precedes them.
    std::vector<std::pair<size_t, TuneExpression>> heuristics;
    std::unordered_map<std::string, PinnedConfig> pinned; // by key

    bool is_for(std::span<const uint32_t> tuple, const opdock_device_properties &device,
                bool ordered_architectures) const;
    bool has_where() const { return !where.empty() || has_faulty_where; }
};

class ImplementationTuning {
  public:
    // Takes the file's sections for this implementation; null: no file. `implementation` must outlive
    // this. Each section takes its knob values from `values_left`, a budget shared by several
    // implementations; a section that exceeds it is left out.
    ImplementationTuning(const Implementation &implementation, const TuneFile *file, size_t &values_left);

    const Implementation &implementation() const { return implementation_; }
    const TuneVariables &variables() const { return variables_; }
    const std::vector<ImplementationSection> &sections() const { return sections_; }
    // Problems of the sections that are for this implementation, as far as they concern it.
    const std::vector<TuneProblem> &problems() const { return problems_; }
    // The section of a problem by index: aliases let sections share places.
    const TuneSection *section_of_problem(size_t problem) const { return problem_sections_[problem]; }
    // The last section that was left out for lack of room, whatever happens to it for other implementations.
    const std::optional<TuneProblem> &no_room() const { return no_room_; }
    bool is_meant_by(const TuneSection &section) const { return meant_.contains(&section); }

    TuneConfig defaults() const;
    // Unique candidates in the order of the file that pass the section's `where` or, if it has none,
    // that of `other` (null: no other). `values`: values of variables().
    std::vector<TuneConfig> candidates(const ImplementationSection &section, std::span<const double> values,
                                       const ImplementationSection *other = nullptr) const;
    // The first of them.
    std::optional<TuneConfig> first_candidate(const ImplementationSection &section, std::span<const double> values,
                                              const ImplementationSection *other) const;
    // Why the section's `where` excludes a config: "is excluded by where 'block <= n'"; empty if it does not.
    std::string exclusion(const ImplementationSection &section, const TuneConfig &config,
                          std::span<const double> values) const;
    // By the file's expressions; nothing and *why if one has no value or a value outside the knob's range.
    std::optional<TuneConfig> heuristic(const ImplementationSection &section, std::span<const double> values,
                                        std::string *why) const;

  private:
    bool is_for_this(const TuneSection &section) const;
    bool has_all_knobs_of(const TuneSection &section) const;
    void add(const TuneSection &section);
    bool has_room_for(const TuneSection &section, size_t &values_left);
    TuneConfig base_of(const TuneSection &section);
    std::optional<TuneConfig> config_of(const NamedValues &values, const TuneConfig &base);
    std::optional<size_t> knob(const PlacedText &name);
    std::optional<int64_t> value_of(size_t knob, const PlacedValue &value);
    void add_space(const TuneSection &from, ImplementationSection &to);
    void add_heuristics(const TuneSection &from, ImplementationSection &to);
    void add_where(const TuneSection &from, ImplementationSection &to);
    const TuneExpression *clause_against(const ImplementationSection &section, const TuneConfig &config,
                                         std::vector<double> &all) const;
    template<class Visit>
    void each_candidate(const ImplementationSection &section, Visit visit) const;
    template<class Visit>
    void each_allowed(const ImplementationSection &section, std::span<const double> values,
                      const ImplementationSection *other, Visit visit) const;

    const Implementation &implementation_;
    TuneVariables variables_;
    std::vector<std::string> where_names_;     // variables, then knobs, which hide variables
    std::vector<std::string> heuristic_names_; // the same, but variables hide knobs
    std::set<const TuneSection *> meant_;      // sections for it, including those without room
    std::vector<ImplementationSection> sections_;
    std::vector<TuneProblem> problems_;
    std::vector<const TuneSection *> problem_sections_; // section of each problem
    std::optional<TuneProblem> no_room_;
};

// The dtypes of a call for the dtype variables of the plugin's form; 0 for an unbound variable.
std::vector<uint32_t> dtypes_of(const Signature &form, const opdock_problem &problem);

// "bf16,f32"
std::string tuple_text(std::span<const uint32_t> dtypes);
// The inverse: one dtype for each variable, or one for all. For anything else, nothing and a problem.
std::optional<std::vector<uint32_t>> parse_tuple(const PlacedText &text, size_t n_variables,
                                                 std::vector<TuneProblem> &problems);

} // namespace opdock::core
