#include "trial.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/quantities.hpp"
#include "op-call/element.hpp"
#include "parts.hpp"
#include "placed_run.hpp"
#include "replayed.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::is_integer;
using op_call::Signature;
using op_call::Tensors;

// Half a unit in the last place of 1: the largest relative change of an input by rounding.
double half_unit(uint32_t dtype) {
    return unit_in_last_place(dtype, 1) / 2;
}

// For the least precise dtype among the variables. Sums may be in f32, where not the terms are rounded but as many
// partial sums, which grow: for 8,192 terms that cancel, ten times as much is lost.
double moved_by(const Case &one, size_t terms) {
    double most = half_unit(OPDOCK_F32) * std::clamp(std::sqrt(static_cast<double>(terms)) / 16, 1.0, 8.0);
    for (const auto &[variable, dtype] : one.dtypes) {
        most = std::max(most, is_integer(dtype) ? 0 : half_unit(dtype));
    }
    return most;
}

size_t most_elements(const std::vector<Tensors> &inputs) {
    size_t most = 0;
    for (const Tensors &list : inputs) {
        for (const op_call::HostTensor &tensor : list) {
            most = std::max(most, tensor.values);
        }
    }
    return most;
}

// Among the outputs that are not integers.
double tightest_tolerance(const std::vector<Output> &outputs, size_t terms) {
    double tightest = 1;
    for (const Output &output : outputs) {
        if (!is_integer(output.dtype)) {
            tightest = std::min(tightest, tolerance_for(output.dtype, terms));
        }
    }
    return tightest;
}

// Finds elements that both runs left poisoned.
void find_unwritten(const std::vector<Output> &first, std::byte first_poison, const std::vector<Output> &second,
                    std::byte second_poison, Outcome &outcome) {
    for (size_t o = 0; o < first.size(); ++o) {
        const Output &a = first[o];
        const Output &b = second[o];
        size_t count = 1;
        for (const int64_t dim : a.shape) {
            count *= static_cast<size_t>(dim);
        }
        const size_t size = count == 0 ? 1 : a.elements.size() / count;
        size_t unwritten = 0;
        size_t where = 0;
        for (size_t i = 0; i < count; ++i) {
            const auto is = [&](const std::vector<std::byte> &elements, std::byte poison) {
                const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(i * size);
                return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(size),
                                   [&](std::byte byte) { return byte == poison; });
            };
            if (is(a.elements, first_poison) && is(b.elements, second_poison) && unwritten++ == 0) {
                where = i;
            }
        }
        if (unwritten != 0) {
            outcome.findings.push_back({"unwritten", "leaves " + std::to_string(unwritten) + " of " +
                                                         cli::counted(count, "element") + " of output '" + a.name +
                                                         "' unwritten, the first at " + place_text(where, a.shape)});
        }
    }
}

// Keeps the cause only: an element that is not written is neither right nor the same twice.
void keep_causes(Outcome &outcome) {
    if (has(outcome, "unwritten")) {
        std::erase_if(outcome.findings,
                      [](const Finding &one) { return one.check == "wrong" || one.check == "not-deterministic"; });
    }
}

} // namespace

Trial::Trial(const Subject &subject, const Signature &signature, Settings settings, const Reference &reference,
             Calls &calls)
    : subject_(subject), signature_(signature), settings_(std::move(settings)), reference_(reference), calls_(calls) {}

std::vector<Case> Trial::cases(uint64_t seed) const {
    if (settings_.replayed != nullptr) {
        return cases_of(*settings_.replayed, subject_, signature_, settings_.pinned, seed);
    }
    return cases_for(
        subject_, signature_, seed, [&](const Shapes &shapes) { return reference_.takes(shapes); }, settings_.pinned,
        [&](const Shapes &shapes) { return reference_.takes(shapes, true); });
}

Outcome Trial::run(const Case &one) const {
    const std::vector<Tensors> inputs = draw(one);
    const bool is_called =
        one.exercise == Exercise::call || one.exercise == Exercise::in_place || one.exercise == Exercise::same;
    std::optional<Error> no_call;
    const auto begin = [&] {
        try {
            calls_.begin(0, one, inputs, turns_of(one));
        } catch (const Error &error) {
            no_call = error;
        }
    };
    if (is_called && !one.is_doubtful) { // it runs while the reference computes
        begin();
    }
    std::optional<Results> expected;
    std::string why;
    if (reference_.exists() && one.exercise != Exercise::batches) {
        expected = reference_.run(one, inputs, {}, why);
        if (!expected) {
            return {Outcome::Kind::skipped, "the reference: " + why, false, {}, {}, 0, 0};
        }
    }
    if (is_called && one.is_doubtful) {
        begin();
    }
    try {
        if (no_call) {
            throw Error(*no_call);
        }
        if (one.exercise == Exercise::threads) {
            return run_threads(one);
        }
        if (one.exercise == Exercise::configs) {
            return run_configs(one, inputs);
        }
        if (one.exercise == Exercise::batches) {
            return run_batches(one, inputs);
        }
        Outcome outcome = judge_calls(one, inputs, expected ? &*expected : nullptr);
        if (one.exercise == Exercise::call && one.values == Values::rows) {
            judge_rows(one, inputs, expected ? &*expected : nullptr, outcome);
        }
        return outcome;
    } catch (const Error &error) {
        if (one.layout == Layout::distant && error.status() == OPDOCK_OUT_OF_MEMORY) { // not every device has 8 GiB
            return {Outcome::Kind::skipped, error.what(), false, {}, {}, 0, 0};
        }
        Outcome outcome;
        take_status(outcome, error.status(), error.what(), expected.has_value());
        return outcome;
    }
}

// First at the end of pages, once more if it has to be deterministic, then at the beginning of pages: there, half of
// the cases find zeros in outputs, and the others find memory that was used with other numbers.
std::vector<Turn> Trial::turns_of(const Case &one) const {
    std::vector<Turn> turns = {{false, true, one.layout, 0}};
    if (subject_.deterministic) {
        turns.push_back({true, true, one.layout, 1});
    }
    const bool is_odd = one.seed % 2 != 0;
    turns.push_back({false, false, one.layout, is_odd ? size_t{1} : size_t{2}, is_odd});
    return turns;
}

std::vector<Tensors> Trial::draw(const Case &one) const {
    if (settings_.replayed != nullptr) {
        return op_call::inputs_of(*settings_.replayed, signature_);
    }
    return draw_inputs(one, signature_, [&](const Forward &of, const Case &of_case, const auto &known) {
        return reference_.forward(of, of_case, known);
    });
}

Outcome Trial::judge_calls(const Case &one, const std::vector<Tensors> &inputs, const Results *expected) const {
    Outcome outcome;
    std::vector<Answer> answers = calls_.answers(0);
    const std::vector<Turn> turns = turns_of(one);
    std::vector<Output> first;
    for (size_t i = 0; i < answers.size(); ++i) {
        Answer &answer = answers[i];
        if (turns[i].again) {
            if (answer.status != OPDOCK_OK) {
                outcome.findings.push_back(
                    {"failed", "the repeated call returned " + status_text(answer.status, answer.message)});
            } else if (!same_bits(first, answer.outputs)) {
                outcome.findings.push_back(
                    {"not-deterministic",
                     "is declared deterministic, but the same call made twice gave different bits"});
            }
            continue;
        }
        if (!turns[i].at_end && expected != nullptr) {
            judge(one, inputs, first, *expected, outcome);
        }
        add_new(outcome, std::move(answer.findings));
        if (answer.status != OPDOCK_OK) {
            take_status(outcome, answer.status, answer.message, expected != nullptr);
            if (answer.prepared == OPDOCK_OK && is_decline(answer.status)) {
                find_late_decline(one, outcome);
            }
            return outcome;
        }
        if (turns[i].at_end) {
            first = std::move(answer.outputs);
            continue;
        }
        if (one.exercise != Exercise::in_place) {
            find_unwritten(first, PlacedRun::poisons[0], answer.outputs, PlacedRun::poisons[turns[i].poison], outcome);
        }
        if (subject_.deterministic && !same_bits(first, answer.outputs)) {
            outcome.findings.push_back({"not-deterministic", "is declared deterministic, but the same call with its "
                                                             "tensors elsewhere in memory gave different bits"});
        }
        // Elsewhere in memory it may take a different code path.
        if (expected != nullptr && !same_bits(first, answer.outputs) && !has(outcome, "wrong")) {
            judge(one, inputs, answer.outputs, *expected, outcome);
        }
        keep_causes(outcome);
    }
    if (answers.size() != turns.size()) {
        calls_.refuse("it does not have one answer per call");
    }
    return outcome;
}

void Trial::find_late_decline(const Case &one, Outcome &outcome) const {
    // The pointers are known to the kernel alone.
    if (one.exercise != Exercise::call || one.layout == Layout::misaligned) {
        return;
    }
    const Answer answer = calls_.call(0, {false, false, one.layout, 0});
    if (answer.prepared != OPDOCK_OK || !is_decline(answer.status)) {
        return;
    }
    if (answer.has_workspace) {
        outcome.findings.push_back(
            {"declines-late",
             "asked for a workspace for the call, and then declined the call on aligned data: " + answer.message});
        return;
    }
    outcome.findings.push_back(
        {"declines-prepared",
         "its kernel declined a call on aligned data after letting the host prepare the call: " + answer.message +
             ". No other implementation is tried for a prepared call, so each run fails. Decline the call in a "
             "`supports` function, which is asked first"});
}

// A sum may leave out 0 times NaN, for a hidden key or a slope of 0: the result is the same whichever number replaces
// the NaN.
std::vector<std::vector<bool>> Trial::depending_on_nan(const Case &one) const {
    std::vector<std::vector<bool>> depending;
    if (one.values != Values::not_a_number) {
        return depending;
    }
    const auto results_with = [&](double nan_as) {
        Case other = one;
        other.nan_as = nan_as;
        std::string why;
        return reference_.run(other, draw(other), {}, why).value_or(Results());
    };
    const Results once = results_with(1);
    const Results twice = results_with(2);
    for (size_t o = 0; o < once.size() && o < twice.size(); ++o) {
        std::vector<bool> &of_result = depending.emplace_back();
        for (size_t i = 0; i < once[o].values.size(); ++i) {
            of_result.push_back(once[o].values[i] != twice[o].values[i]);
        }
    }
    return depending;
}

void Trial::judge(const Case &one, const std::vector<Tensors> &inputs, const std::vector<Output> &found,
                  const Results &expected, Outcome &outcome) const {
    outcome.compared = true;
    std::optional<std::vector<Results>> moved; // computed when first needed
    const size_t terms = most_elements(inputs);
    const auto noise_of = [&](size_t o) {
        if (!moved) {
            moved.emplace();
            const auto add = [&](uint64_t round, const Moved &moves) {
                Case again = one;
                again.seed += 1 + round;
                std::string why;
                if (std::optional<Results> results = reference_.run(again, inputs, moves, why)) {
                    moved->push_back(std::move(*results));
                }
            };
            // A result may be a single number, and a few rounds may leave it unchanged by chance.
            constexpr uint64_t rounds = 8;
            for (uint64_t round = 0; round < rounds; ++round) {
                add(round, {moved_by(one, terms), false});
            }
            // Equal values, or terms of one sign, are rounded alike, and the losses add up: their sum may be as far off
            // as any result, and a difference from it may consist of nothing else.
            const double by = std::max(moved_by(one, terms), tightest_tolerance(found, terms) / 8);
            for (uint64_t round = 0; round < rounds; ++round) {
                add(rounds + round, {by, true});
            }
        }
        std::vector<double> noise(expected[o].values.size());
        for (const Results &results : *moved) {
            for (size_t i = 0; i < noise.size(); ++i) {
                noise[i] = std::max(noise[i], std::fabs(results[o].values[i] - expected[o].values[i]));
            }
        }
        return noise;
    };
    const std::vector<Magnitude> magnitudes = magnitudes_of(one, signature_);
    const std::vector<std::vector<bool>> depending = depending_on_nan(one);
    for (size_t o = 0; o < found.size() && o < expected.size(); ++o) {
        for (Part &part : parts_of(magnitudes, expected[o].values.size())) {
            // A mean may be computed from differences to the first element, and infinity minus infinity is NaN.
            part.infinite_inputs = one.values == Values::infinite;
            part.nan_for_infinite = one.values == Values::infinite && !one.values_of.empty();
            part.keeps_nan = o < depending.size() ? depending[o] : std::vector<bool>();
            const Agreement agreement = compare(
                found[o], expected[o].values, tolerance_for(found[o].dtype, terms), [&] { return noise_of(o); }, part);
            double &error = outcome.errors[found[o].name];
            error = std::max(error, agreement.error);
            if (!agreement.problem.empty()) {
                outcome.findings.push_back({"wrong", "'" + found[o].name + "': " + agreement.problem});
                break;
            }
        }
    }
}

Outcome Trial::run_configs(const Case &one, const std::vector<Tensors> &inputs) const {
    Outcome outcome;
    Tuned tuned = calls_.tune(one, inputs, settings_.config_seconds);
    outcome.configs = tuned.configs;
    outcome.configs_left_out = tuned.left_out;
    add_new(outcome, std::move(tuned.findings));
    return outcome;
}

} // namespace opdock::plugin_check
