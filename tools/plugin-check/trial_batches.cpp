// Runs the same rows in batches of different sizes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "rows.hpp"
#include "trial.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::Parameter;
using op_call::Signature;
using op_call::Tensors;

using Rows = std::vector<size_t>; // indices into the case's rows, in batch order

const Parameter &parameter_called(const Signature &signature, const std::string &name) {
    for (const std::vector<Parameter> *side : {&signature.outputs, &signature.inputs}) {
        for (const Parameter &one : *side) {
            if (one.name == name) {
                return one;
            }
        }
    }
    throw std::logic_error("no parameter is called " + name);
}

// Batches of 1 up to all of `count` rows. In each, three chosen rows take the first, the middle and the last place in
// turn; the others are random.
std::vector<Rows> batches_of(size_t count, Random &random) {
    std::set<size_t> sizes = {count};
    for (const size_t size : {1, 2, 3, 7, 64, 4096}) {
        if (size < count) {
            sizes.insert(size);
        }
    }
    const size_t compared[] = {random.below(count), random.below(count), random.below(count)};
    std::vector<Rows> batches;
    for (const size_t size : sizes) {
        for (size_t turn = 0; turn < 3; ++turn) {
            Rows rows(count);
            std::iota(rows.begin(), rows.end(), size_t{0});
            for (size_t i = 0; i < size; ++i) {
                std::swap(rows[i], rows[i + random.below(count - i)]);
            }
            rows.resize(size);
            rows[size / 2] = compared[(turn + 1) % 3];
            rows.back() = compared[(turn + 2) % 3];
            rows.front() = compared[turn];
            batches.push_back(std::move(rows));
        }
    }
    return batches;
}

// A row at its first appearance.
struct FirstSeen {
    size_t batch; // index in the list of batches
    size_t place;
    std::vector<std::vector<std::byte>> bits; // by output
};

std::vector<std::byte> bits_of(const Output &output, const RowPlaces &places, size_t place) {
    std::vector<std::byte> bits;
    bits.reserve(places.blocks * places.bytes);
    for (size_t block = 0; block < places.blocks; ++block) {
        const auto begin =
            output.elements.begin() + static_cast<std::ptrdiff_t>((block * places.rows + place) * places.bytes);
        bits.insert(bits.end(), begin, begin + static_cast<std::ptrdiff_t>(places.bytes));
    }
    return bits;
}

std::string place_in(size_t place, size_t size) {
    return size == 1 ? "alone" : "as row " + std::to_string(place) + " of " + std::to_string(size);
}

} // namespace

// The values of the row at `place` of a batch, over all outputs that have rows.
// Empty if the reference declines.
std::vector<double> Trial::expected_row(const Case &one, const std::vector<Tensors> &inputs, const Rows &rows,
                                        size_t place) const {
    const std::string dim = row_dim(signature_);
    Case batch = one;
    batch.exercise = Exercise::call;
    batch.shapes = with_rows(one.shapes, dim, static_cast<int64_t>(rows.size()));
    std::string why;
    const std::optional<Results> results =
        reference_.run(batch, pick_rows(inputs, one.shapes, signature_, rows), {}, why);
    std::vector<double> values;
    for (size_t o = 0; results && o < results->size(); ++o) {
        const Result &result = (*results)[o];
        const Parameter &parameter = parameter_called(signature_, result.name);
        const std::optional<RowPlaces> places = row_places(parameter.dims, batch.shapes.front(), dim, OPDOCK_U8);
        for (size_t block = 0; places && block < places->blocks; ++block) {
            const auto begin =
                result.values.begin() + static_cast<std::ptrdiff_t>((block * places->rows + place) * places->bytes);
            values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(places->bytes));
        }
    }
    return values;
}

Outcome Trial::run_batches(const Case &one, const std::vector<Tensors> &inputs) const {
    const std::string dim = row_dim(signature_);
    Random random(one.seed);
    const std::vector<Rows> batches = batches_of(static_cast<size_t>(rows_of(one.shapes.front(), dim)), random);
    Outcome outcome;
    bool was_run = false;
    std::map<size_t, FirstSeen> seen;
    for (size_t b = 0; b < batches.size(); ++b) {
        const Rows &rows = batches[b];
        Case batch = one;
        batch.exercise = Exercise::call;
        batch.shapes = with_rows(one.shapes, dim, static_cast<int64_t>(rows.size()), b);
        calls_.begin(0, batch, pick_rows(inputs, one.shapes, signature_, rows, b), {Turn{}});
        const Answer answer = std::move(calls_.answers(0).front());
        add_new(outcome, answer.findings);
        if (answer.status != OPDOCK_OK) {
            take_status(outcome, answer.status, answer.message, reference_.exists());
            if (!outcome.findings.empty()) {
                return outcome;
            }
            continue;
        }
        was_run = true;
        for (size_t place = 0; place < rows.size(); ++place) {
            FirstSeen now{b, place, {}};
            for (const Output &output : answer.outputs) {
                const std::optional<RowPlaces> places =
                    row_places(parameter_called(signature_, output.name).dims, batch.shapes.front(), dim, output.dtype);
                now.bits.push_back(places ? bits_of(output, *places, place) : std::vector<std::byte>());
            }
            const auto [found, is_new] = seen.emplace(rows[place], now);
            const FirstSeen &before = found->second;
            if (is_new || before.bits == now.bits) {
                continue;
            }
            // If the op itself works like this, such as one that numbers its rows, no implementation can promise more.
            if (reference_.exists() && expected_row(one, inputs, batches[before.batch], before.place) !=
                                           expected_row(one, inputs, rows, place)) {
                return {
                    Outcome::Kind::skipped, "the results of the op's rows depend on other rows", false, {}, {}, 0, 0};
            }
            const auto output = static_cast<size_t>(
                std::mismatch(now.bits.begin(), now.bits.end(), before.bits.begin()).first - now.bits.begin());
            outcome.findings.push_back(
                {"not-batch-invariant", "is declared batch invariant, but '" + answer.outputs[output].name +
                                            "' of one row has different bits " + place_in(place, rows.size()) +
                                            " than " + place_in(before.place, batches[before.batch].size())});
            return outcome;
        }
    }
    if (was_run) {
        outcome.kind = Outcome::Kind::ran;
        outcome.reason.clear();
    }
    return outcome;
}

} // namespace opdock::plugin_check
