// What the device can do at most, as far as can be measured: before all shapes and after them, since clocks change.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "copy_rate.hpp"
#include "matmul_rate.hpp"

namespace opdock::plugin_bench {

class Ceilings {
  public:
    // `dtypes` of the linear ops that are to be timed, each once.
    Ceilings(const Host &host, const DeviceFacts &facts, const std::vector<std::string> &dtypes);

    // The first time before all shapes, the second time after them.
    void measure();

    // {"copy": {"bytes_per_second", "measured": [before, after], "bytes"}, "matmul": {"bf16": {"flops_per_second",
    // "measured", "op", "impl_id"} or null}}; the larger of the two counts.
    nlohmann::json to_json() const;

  private:
    CopyRate copy_;
    std::vector<double> copied_;
    std::vector<MatmulRate> matmuls_;
    std::vector<std::vector<MatmulRate::Best>> multiplied_; // of each dtype
};

} // namespace opdock::plugin_bench
