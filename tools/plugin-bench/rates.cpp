#include "rates.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

json fraction_of(double rate, const json &ceiling) {
    return ceiling.is_number() && ceiling > 0 ? json(rate / ceiling.get<double>()) : json(nullptr);
}

void add_rates(json &one, const json &shape, const json &copy, const json &matmul) {
    const double seconds = 1e-6 * std::max(one.at("microseconds").get<double>(), 1e-6);
    const double bytes_per_second = shape.at("bytes").get<double>() / seconds;
    one["bytes_per_second"] = bytes_per_second;
    one["of_copy"] = fraction_of(bytes_per_second, copy);
    one["roofline"] = one["of_copy"];
    if (shape.at("flops").is_null()) {
        return;
    }
    const double flops_per_second = shape.at("flops").get<double>() / seconds;
    one["flops_per_second"] = flops_per_second;
    one["of_matmul"] = fraction_of(flops_per_second, matmul);
    one["roofline"] = one["of_matmul"].is_null() || one["of_copy"].is_null()
                          ? json(nullptr)
                          : json(std::max(one["of_matmul"].get<double>(), one["of_copy"].get<double>()));
}

} // namespace

void add_rates(json &document) {
    const json &ceilings = document.at("ceilings");
    for (json &shape : document.at("shapes")) {
        json matmul;
        if (const auto found = ceilings.at("matmul").find(shape.value("dtype", ""));
            found != ceilings.at("matmul").end() && !found->is_null()) {
            matmul = found->at("flops_per_second");
        }
        for (json &one : shape.at("implementations")) {
            if (one.at("outcome") == "timed") {
                add_rates(one, shape, ceilings.at("copy").at("bytes_per_second"), matmul);
            }
        }
    }
}

} // namespace opdock::plugin_bench
