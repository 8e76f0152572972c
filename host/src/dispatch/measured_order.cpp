#include "dispatch/measured_order.hpp"

#include <algorithm>

#include "dispatch/chain.hpp"
#include "signature/bind.hpp"
#include "tune/tune_key.hpp"
#include "tune/variables.hpp"

namespace opdock::core {
namespace {

// The index in the chain of the first implementation that a token after `measured` kept; empty without `measured`.
std::optional<size_t> first_measured(const Order &order, const std::vector<Kept> &chain) {
    const auto measured = std::find(order.begin(), order.end(), Token::of_kind(Kind::measured));
    if (measured == order.end()) {
        return {};
    }
    const auto first = std::find_if(chain.begin(), chain.end(), [&](const Kept &kept) {
        return std::find(order.begin(), measured, kept.token) == measured;
    });
    return static_cast<size_t>(first - chain.begin());
}

// Moves the element at `from` forward to `to`, which precedes it.
template<class T>
void move_forward(std::vector<T> &all, size_t from, size_t to) {
    const auto at = [&](size_t place) { return all.begin() + static_cast<std::ptrdiff_t>(place); };
    std::rotate(at(to), at(from), at(from) + 1);
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
    return CallBucket{tuple_text(shape.dtypes), key.of(variables, variables.values(problem, shape.dtypes, *properties)),
                      key.text(variables)};
}

std::optional<Lead> measured_lead(const CallHost &host, const CatalogOp &op, const Decision &decision,
                                  const CallShape &shape) {
    const std::optional<size_t> first = first_measured(decision.policy.order, decision.chain);
    if (!first || *first + 2 > decision.chain.size() || host.is_frozen()) {
        return {};
    }
    const std::optional<CallBucket> bucket = bucket_of(host, shape);
    if (!bucket) {
        return {};
    }
    std::vector<std::string> behind;
    for (size_t i = *first; i < decision.chain.size(); ++i) {
        behind.push_back(decision.chain[i].impl_id);
    }
    std::optional<Lead> lead =
        lead_of(behind, host.configs().standings(host.catalog(), op, shape.device, bucket->dtypes, bucket->key));
    if (lead) {
        lead->from += *first;
        lead->to += *first;
    }
    return lead;
}

std::shared_ptr<const Chain> CallHost::chain_for_call(std::shared_ptr<const Chain> chain, const View &view,
                                                      const Bound &bound) {
    if (!first_measured(chain->decision.policy.order, chain->decision.chain)) {
        return chain;
    }
    const std::optional<Lead> lead =
        measured_lead(*this, *chain->op, chain->decision, CallShape(*chain->op->signature, bound));
    if (!lead || lead->from == lead->to) {
        return chain;
    }
    const std::lock_guard lock(ledger().mutex);
    for (const Chain *known : chain->measured) {
        if (known->links[lead->to].implementation == chain->links[lead->from].implementation) {
            return known->shared_from_this();
        }
    }
    auto made = std::make_shared<Chain>();
    made->op = chain->op;
    made->device = chain->device;
    made->dtypes = chain->dtypes;
    made->scoped = chain->scoped;
    made->decision = chain->decision;
    made->links = chain->links;
    made->retry_at = chain->retry_at;
    move_forward(made->decision.chain, lead->from, lead->to);
    move_forward(made->links, lead->from, lead->to);
    view.kept_chains.push_back(made);
    chain->measured.push_back(made.get());
    return made;
}

} // namespace opdock::core
