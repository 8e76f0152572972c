#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <iostream>

#include "cases.hpp"
#include "difference.hpp"
#include "placed_tensor.hpp"
#include "settings.hpp"
#include "subject.hpp"

using namespace numerics;

namespace {

// The tensors of one case, in memory.
struct Arguments {
    explicit Arguments(const Case &of) {
        for (const std::optional<Input> &input : of.inputs) {
            inputs.push_back(nullptr);
            if (!input)
                continue;
            inputs.back() = &tensors.emplace_back(input->tensor.dtype, input->tensor.shape, input->strides);
            inputs.back()->put(input->tensor.bytes);
        }
        for (const std::optional<Output> &output : of.outputs) {
            outputs.push_back(nullptr);
            if (output)
                outputs.back() = output->in_place_of
                                     ? inputs[*output->in_place_of]
                                     : &tensors.emplace_back(output->dtype, output->shape, output->strides);
        }
        for (const Output &output : of.changed)
            changed.push_back(inputs[*output.in_place_of]);
        for (const PlacedTensor &tensor : tensors)
            before.push_back(tensor.bytes());
    }

    static std::vector<const DLTensor *> descriptors(const std::vector<PlacedTensor *> &placed) {
        std::vector<const DLTensor *> result;
        for (const PlacedTensor *tensor : placed)
            result.push_back(tensor ? tensor->descriptor() : nullptr);
        return result;
    }

    bool is_written(const PlacedTensor &tensor) const {
        return std::find(outputs.begin(), outputs.end(), &tensor) != outputs.end() ||
               std::find(changed.begin(), changed.end(), &tensor) != changed.end();
    }

    std::deque<PlacedTensor> tensors;                     // a deque does not move them
    std::vector<PlacedTensor *> inputs, outputs, changed; // as in the case
    std::vector<std::vector<std::byte>> before;           // of all tensors
};

void check_untouched(const Arguments &arguments, bool outputs_too) {
    for (std::size_t i = 0; i < arguments.tensors.size(); ++i)
        if (outputs_too || !arguments.is_written(arguments.tensors[i]))
            CHECK_MESSAGE(arguments.tensors[i].bytes() == arguments.before[i], "tensor " << i << " was written to");
}

struct Tally {
    int served = 0;
    int declined = 0;
    double worst = 0; // the largest error, relative to its tolerance
};

void check_output(const Output &expected, const PlacedTensor &found, Tally &tally) {
    const Difference difference = compare(expected, found.values());
    CHECK_MESSAGE(difference.message.empty(), difference.message);
    CHECK_MESSAGE(found.guards_intact(), "output '" << expected.name << "': written outside");
    tally.worst = std::max(tally.worst, difference.error / expected.tolerance);
}

void check_outputs(const Case &of, const Arguments &arguments, Tally &tally) {
    for (std::size_t i = 0; i < of.outputs.size(); ++i)
        if (of.outputs[i])
            check_output(*of.outputs[i], *arguments.outputs[i], tally);
    for (std::size_t i = 0; i < of.changed.size(); ++i)
        check_output(of.changed[i], *arguments.changed[i], tally);
}

void run(const Case &of, const Subject &subject, Tally &tally) {
    const Arguments arguments(of);
    const std::uint64_t served = subject.served();
    const auto inputs = Arguments::descriptors(arguments.inputs), outputs = Arguments::descriptors(arguments.outputs);
    const Outcome outcome = subject.call(inputs, outputs, of.attributes, of.list_sizes);
    const std::string status = opdock_status_name(outcome.status);
    INFO("status: ", status, " ", outcome.message);

    // Only the reference has to accept every layout.
    if (outcome.status == OPDOCK_UNSUPPORTED && !of.contiguous && subject.implementation().kind != "reference") {
        CHECK_FALSE(outcome.message.empty());
        check_untouched(arguments, true);
        ++tally.declined;
        return;
    }
    CHECK(status == of.status);
    if (outcome.status != OPDOCK_OK) {
        CHECK(outcome.message.find(of.message) != std::string::npos);
        check_untouched(arguments, true);
        if (of.refused) {
            const std::string refusal = subject.refusal(inputs, outputs, of.attributes);
            CAPTURE(refusal);
            CHECK(refusal.find(of.message) != std::string::npos);
        }
        return;
    }
    CHECK(subject.served() == served + 1);
    check_outputs(of, arguments, tally);
    check_untouched(arguments, false);
    ++tally.served;
}

} // namespace

TEST_CASE("an implementation agrees with float64 on every case of its op") {
    const auto host = open_host(settings().modules);
    int found = 0;
    for (const Implementation &implementation : implementations(*host)) {
        if ((!settings().op.empty() && settings().op != implementation.op) ||
            (!settings().impl_id.empty() && settings().impl_id != implementation.impl_id))
            continue;
        ++found;
        const Cases cases = read_cases(settings().cases, implementation.op);
        const Subject subject(*host, implementation);
        Tally tally;
        for (const Case &of : cases.cases) {
            if (settings().any_values && of.status != "OK" && !of.refused)
                continue;
            INFO(implementation.op, " ", implementation.impl_id, ": ", of.name, ", OPDOCK_NUMERICS_SEED=", cases.seed);
            run(of, subject, tally);
        }
        CHECK(tally.served > 0);
        std::cout << implementation.op << " " << implementation.impl_id << ": " << tally.served << " calls served, "
                  << tally.declined << " declined, largest error " << tally.worst << " of its tolerance, seed "
                  << cases.seed << "\n";
    }
    CHECK_MESSAGE(found > 0, "the host has no such implementation");
}

TEST_CASE("every op with cases is implemented by the reference and by default") {
    const auto host = open_host(settings().modules);
    const std::vector<Implementation> known = implementations(*host);
    const std::vector<std::string> ops = ops_with_cases(settings().cases);
    CHECK_FALSE(ops.empty());
    for (const std::string &op : ops)
        for (const std::string kind : {"reference", "default"}) {
            CAPTURE(op);
            CAPTURE(kind);
            CHECK(std::any_of(known.begin(), known.end(), [&](const Implementation &implementation) {
                return implementation.op == op && implementation.kind == kind;
            }));
        }
}
