// What a tune file says of one implementation, looked up and checked: knob names became positions, expressions were
// parsed, pinned keys bucketed.
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

// A number or, of a choice, its name.
std::string value_text(const Knob &knob, int64_t value);
// "block=256 pipeline=cpasync"
std::string config_text(const std::vector<Knob> &knobs, const TuneConfig &config);
// The same back; nothing unless each knob is there once with a value in its range.
std::optional<TuneConfig> parse_config(const std::vector<Knob> &knobs, std::string_view text);

struct PinnedConfig {
    TuneConfig config;
    size_t line;
};

// One section, for one implementation.
struct ImplementationSection {
    ImplementationSection(TuneKey of) : key(std::move(of)) {}

    size_t line = 0;
    std::vector<std::string> architectures;
    std::vector<std::string> devices;
    std::vector<std::vector<uint32_t>> dtypes;
    TuneKey key;

    TuneConfig base; // for knobs that a config leaves out
    // Candidates: the configs, then the product; of both, what passes `where`.
    std::vector<TuneConfig> configs;
    std::vector<std::pair<size_t, std::vector<int64_t>>> product; // knob, values
    std::vector<TuneExpression> where;                            // of variables, then knobs
    bool has_faulty_where = false;                                // one of them could not be read: nothing is allowed
    std::string space;                                            // names the candidates and the key; empty: none
    // Knob, expression of variables and knobs; those of knobs that others name come first.
    std::vector<std::pair<size_t, TuneExpression>> heuristics;
    std::unordered_map<std::string, PinnedConfig> pinned; // by key

    bool is_for(std::span<const uint32_t> tuple, const opdock_device_properties &device,
                bool ordered_architectures) const;
    bool has_where() const { return !where.empty() || has_faulty_where; }
};

class ImplementationTuning {
  public:
    // Takes the file's sections that are for it; null: no file. `implementation` must outlive this. Each section takes
    // its values of knobs from `values_left`, which several implementations share; a section that finds too few is left
    // out.
    ImplementationTuning(const Implementation &implementation, const TuneFile *file, size_t &values_left);

    const Implementation &implementation() const { return implementation_; }
    const TuneVariables &variables() const { return variables_; }
    const std::vector<ImplementationSection> &sections() const { return sections_; }
    // What is wrong with the sections as far as this implementation goes; the places of all sections that are for it.
    const std::vector<TuneProblem> &problems() const { return problems_; }
    // Whose the problem of that number is: aliases let sections share places.
    const TuneSection *section_of_problem(size_t problem) const { return problem_sections_[problem]; }
    // The last section that was left out for want of room, whatever becomes of it for other implementations.
    const std::optional<TuneProblem> &no_room() const { return no_room_; }
    bool is_meant_by(const TuneSection &section) const { return meant_.contains(&section); }

    TuneConfig defaults() const;
    // In the order of the file, each once: what `where` allows, the section's or, if it has none, `other`'s (null: no
    // other). `values` are those of variables().
    std::vector<TuneConfig> candidates(const ImplementationSection &section, std::span<const double> values,
                                       const ImplementationSection *other = nullptr) const;
    // The first of them.
    std::optional<TuneConfig> first_candidate(const ImplementationSection &section, std::span<const double> values,
                                              const ImplementationSection *other) const;
    // Why the section's `where` excludes it: "is excluded by where 'block <= n'"; empty: it does not.
    std::string exclusion(const ImplementationSection &section, const TuneConfig &config,
                          std::span<const double> values) const;
    // By the file's expressions; nothing when one has no value, or one outside the knob's range: *why.
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
    std::vector<std::string> where_names_;     // the variables, then the knobs, which hide variables
    std::vector<std::string> heuristic_names_; // likewise, but the variables hide knobs
    std::set<const TuneSection *> meant_;      // those for it, also without room
    std::vector<ImplementationSection> sections_;
    std::vector<TuneProblem> problems_;
    std::vector<const TuneSection *> problem_sections_; // for each of them, in the file
    std::optional<TuneProblem> no_room_;
};

// The dtypes that a call binds the variables of the plugin's form to; 0 where it binds none.
std::vector<uint32_t> dtypes_of(const Signature &form, const opdock_problem &problem);

// "bf16,f32"
std::string tuple_text(std::span<const uint32_t> dtypes);
// The same back: one dtype for each variable, or one for all. Nothing, with a problem, for what is none.
std::optional<std::vector<uint32_t>> parse_tuple(const PlacedText &text, size_t n_variables,
                                                 std::vector<TuneProblem> &problems);

} // namespace opdock::core
