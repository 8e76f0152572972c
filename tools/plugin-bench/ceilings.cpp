#include "ceilings.hpp"

#include <algorithm>

namespace opdock::plugin_bench {

using nlohmann::json;

Ceilings::Ceilings(const Host &host, const DeviceFacts &facts, const std::vector<std::string> &dtypes)
    : copy_(host, facts), multiplied_(dtypes.size()) {
    for (const std::string &dtype : dtypes) {
        matmuls_.emplace_back(host, facts, dtype);
    }
}

void Ceilings::measure() {
    copied_.push_back(copy_.measure());
    for (size_t i = 0; i < matmuls_.size(); ++i) {
        if (const auto best = matmuls_[i].measure()) {
            multiplied_[i].push_back(*best);
        }
    }
}

json Ceilings::to_json() const {
    json matmul = json::object();
    for (size_t i = 0; i < matmuls_.size(); ++i) {
        json &one = matmul[matmuls_[i].dtype()];
        for (const MatmulRate::Best &best : multiplied_[i]) {
            const bool is_better = one.is_null() || one.at("flops_per_second") < best.flops_per_second;
            json measured = one.is_null() ? json::array() : one.at("measured");
            measured.push_back(best.flops_per_second);
            if (is_better) {
                one = {{"flops_per_second", best.flops_per_second}, {"op", best.op}, {"impl_id", best.impl_id}};
            }
            one["measured"] = std::move(measured);
        }
    }
    return {{"copy",
             {{"bytes_per_second", *std::max_element(copied_.begin(), copied_.end())},
              {"measured", copied_},
              {"bytes", copy_.bytes()}}},
            {"matmul", std::move(matmul)}};
}

} // namespace opdock::plugin_bench
