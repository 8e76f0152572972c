// Measured peak rates of the device, taken before and after all shapes because clock rates change.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "copy_rate.hpp"
#include "matmul_rate.hpp"

namespace opdock::plugin_bench {

class Ceilings {
  public:
    // `dtypes` are those of the linear ops to be timed, each once.
    Ceilings(const Host &host, const DeviceFacts &facts, const std::vector<std::string> &dtypes);

    // The first call is made before all shapes, the second one after them.
    void measure();

    // {"copy": {"bytes_per_second", "measured": [before, after], "bytes"}, "matmul": {"bf16": {"flops_per_second",
    // "measured", "op", "impl_id"} or null}}; each rate is the larger of its two measurements.
    nlohmann::json to_json() const;

  private:
    CopyRate copy_;
    std::vector<double> copied_;
    std::vector<MatmulRate> matmuls_;
    std::vector<std::vector<MatmulRate::Best>> multiplied_; // by dtype
};

} // namespace opdock::plugin_bench
