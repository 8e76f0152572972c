#include "dispatch/measured_order.hpp"

#include <algorithm>

#include "tune/tune_key.hpp"
#include "tune/variables.hpp"

namespace opdock::core {
namespace {

// The place of `measured`, or of the end.
size_t place_of_measured(const Order &order) {
    const auto found = std::find(order.begin(), order.end(), Token::of_kind(Kind::measured));
    return static_cast<size_t>(found - order.begin());
}

} // namespace

std::optional<CallBucket> bucket_of(const CallHost &host, const CallShape &shape) {
    const opdock_device_properties *properties = host.devices().properties(shape.device);
    if (properties == nullptr) {
        return {};
    }
    const Signature &signature = *shape.signature;
    opdock_problem problem = {};
    problem.struct_size = OPDOCK_STRUCT_SIZE(opdock_problem, host_data);
    problem.n_inputs = static_cast<uint32_t>(signature.inputs.size());
    problem.n_outputs = static_cast<uint32_t>(signature.outputs.size());
    problem.n_tensors = shape.n_tensors;
    problem.n_attributes = static_cast<uint32_t>(signature.attributes.size());
    problem.tensors = shape.pointers.data();
    problem.tensor_offsets = shape.first.data();
    problem.attributes = shape.attributes.data();
    problem.device = shape.device;
    const TuneVariables variables(signature);
    const TuneKey key(variables);
    return CallBucket{key.of(variables, variables.values(problem, shape.dtypes, *properties)), key.text(variables),
                      tuple_text(shape.dtypes)};
}

std::optional<MeasuredMove> measured_move(const CallHost &host, const CatalogOp &op, const Decision &decision,
                                          const CallShape &shape) {
    const Order &order = decision.policy.order;
    const size_t measured = place_of_measured(order);
    if (measured == order.size() || decision.chain.size() < 2 || host.is_frozen()) {
        return {};
    }
    size_t begin = 0; // of those that tokens after it name
    const auto is_before = [&](const Kept &kept) {
        return std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(measured), kept.token) !=
               order.begin() + static_cast<std::ptrdiff_t>(measured);
    };
    while (begin < decision.chain.size() && is_before(decision.chain[begin])) {
        ++begin;
    }
    std::vector<std::string> behind;
    for (size_t i = begin; i < decision.chain.size(); ++i) {
        behind.push_back(decision.chain[i].impl_id);
    }
    const std::optional<CallBucket> bucket = behind.size() < 2 ? std::nullopt : bucket_of(host, shape);
    if (!bucket) {
        return {};
    }
    const std::vector<RaceStanding> standings =
        host.configs().standings(host.catalog(), op, shape.device, bucket->dtypes, bucket->key);
    const std::optional<Lead> lead = lead_of(behind, standings);
    return lead ? std::optional(MeasuredMove{begin + lead->place, begin, *lead}) : std::nullopt;
}

std::vector<const Link *> links_for(const CallHost &host, const Chain &chain, const CallShape &shape) {
    std::vector<const Link *> links;
    links.reserve(chain.links.size());
    for (const Link &link : chain.links) {
        links.push_back(&link);
    }
    if (const std::optional<MeasuredMove> move = measured_move(host, *chain.op, chain.decision, shape)) {
        const auto at = [&](size_t place) { return links.begin() + static_cast<std::ptrdiff_t>(place); };
        std::rotate(at(move->to), at(move->from), at(move->from) + 1);
    }
    return links;
}

} // namespace opdock::core
