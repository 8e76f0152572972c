#include "rates.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "cli/printable.hpp"

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

std::string time_text(double microseconds) {
    if (microseconds < 0.9995) {
        return cli::short_number(1000 * microseconds) + " ns";
    }
    if (microseconds < 999.5) {
        return cli::short_number(microseconds) + " us";
    }
    return microseconds < 999.5e3 ? cli::short_number(microseconds / 1e3) + " ms"
                                  : cli::short_number(microseconds / 1e6) + " s";
}

std::string rate_text(double per_second, const std::string &unit) {
    constexpr std::array<const char *, 6> prefixes = {"", "k", "M", "G", "T", "P"};
    size_t step = 0;
    while (per_second >= 999.5 && step + 1 < prefixes.size()) {
        per_second /= 1000;
        ++step;
    }
    return cli::short_number(per_second) + " " + prefixes[step] + unit;
}

std::string percent_text(double fraction) {
    return cli::short_number(100 * fraction) + " %";
}

} // namespace opdock::plugin_bench
