// Judges rows of different magnitudes next to each other.
#include <algorithm>
#include <cmath>

#include "op-call/element.hpp"
#include "parts.hpp"
#include "trial.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::is_integer;
using op_call::Tensors;

// Even a result that the definition leaves open must not depend on where in memory the tensors are.
void find_other_kind(const Output &aligned, const Output &elsewhere, Outcome &outcome) {
    if (is_integer(aligned.dtype)) {
        return;
    }
    const size_t count = values_in(aligned);
    const std::vector<double> a = op_call::load_elements(aligned.dtype, aligned.elements.data(), count);
    const std::vector<double> b = op_call::load_elements(elsewhere.dtype, elsewhere.elements.data(), count);
    for (size_t i = 0; i < count; ++i) {
        if (std::isnan(a[i]) != std::isnan(b[i])) {
            outcome.findings.push_back(
                {"wrong", "'" + aligned.name +
                              "': " + place_text(i / op_call::values_in_element(aligned.dtype), aligned.shape) +
                              " is " + std::to_string(a[i]) + " if data is aligned to pages, but " +
                              std::to_string(b[i]) + " if it is aligned to its dtype only"});
            return;
        }
    }
}

} // namespace

std::optional<std::vector<Output>> Trial::run_once(const Case &one, const std::vector<Tensors> &inputs,
                                                   Outcome &outcome) const {
    calls_.begin(0, one, inputs, {{false, false, one.layout, 0}});
    Answer answer = std::move(calls_.answers(0).front());
    if (answer.status != OPDOCK_OK) {
        Outcome of_this;
        take_status(of_this, answer.status, answer.message, reference_.exists());
        add_new(outcome, std::move(of_this.findings));
        return std::nullopt;
    }
    return std::move(answer.outputs);
}

void Trial::judge_rows(const Case &one, const std::vector<Tensors> &inputs, const Results *expected,
                       Outcome &outcome) const {
    if (outcome.kind != Outcome::Kind::ran || !outcome.findings.empty()) {
        return;
    }
    const std::optional<std::vector<Output>> found = run_once(one, inputs, outcome);
    if (!found) {
        return;
    }
    if (subject_.alignment <= 1) {
        Case elsewhere = one;
        elsewhere.layout = Layout::misaligned;
        const std::optional<std::vector<Output>> other = run_once(elsewhere, inputs, outcome);
        if (other && !same_bits(*found, *other)) {
            if (expected != nullptr) {
                judge(one, inputs, *other, *expected, outcome);
            }
            for (size_t o = 0; o < found->size() && outcome.findings.empty(); ++o) {
                find_other_kind((*found)[o], (*other)[o], outcome);
            }
        }
    }
    if (expected != nullptr && outcome.findings.empty()) {
        find_neighbours(one, *found, *expected, outcome);
    }
}

// If the unusual rows are replaced, the results of the others must stay the same wherever the reference's do.
void Trial::find_neighbours(const Case &one, const std::vector<Output> &found, const Results &expected,
                            Outcome &outcome) const {
    Case usual = one;
    usual.only_usual = true;
    const std::vector<Tensors> inputs = draw(usual);
    std::string why;
    const std::optional<Results> expected_now = reference_.run(usual, inputs, {}, why);
    const std::optional<std::vector<Output>> now =
        expected_now ? run_once(usual, inputs, outcome) : std::optional<std::vector<Output>>();
    if (!now) {
        return;
    }
    const std::vector<Magnitude> magnitudes = magnitudes_of(one, signature_);
    for (size_t o = 0; o < found.size() && o < expected.size(); ++o) {
        const std::vector<double> &before = expected[o].values;
        const std::vector<double> &after = (*expected_now)[o].values;
        const std::vector<double> values =
            op_call::load_elements(found[o].dtype, found[o].elements.data(), before.size());
        for (Part &row : usual_rows(magnitudes, before.size())) {
            std::erase_if(row.elements, [&](size_t i) { return before[i] != after[i] || !std::isfinite(values[i]); });
            if (row.elements.empty()) {
                continue;
            }
            const Agreement agreement = compare((*now)[o], values, tolerance_for(found[o].dtype, before.size()),
                                                [&] { return std::vector<double>(before.size()); }, row);
            if (!agreement.problem.empty()) {
                outcome.findings.push_back(
                    {"neighbours", "'" + found[o].name + "' changes when other rows of '" + one.values_of +
                                       "' change, on which it does not depend: " + agreement.problem});
                return;
            }
        }
    }
}

} // namespace opdock::plugin_check
