#include "summary.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "op-call/element.hpp"

using namespace opdock::plugin_run;
using opdock::op_call::store_element;

static HostTensor tensor_of(const std::vector<double> &values) {
    HostTensor tensor(OPDOCK_F32, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) {
        store_element(OPDOCK_F32, tensor.memory.get(), i, values[i]);
    }
    return tensor;
}

TEST_CASE("a summary has the extremes, the mean and the first values") {
    CHECK(to_text(summarize(tensor_of({1, -2, 4, 0, 2, 7}))) == "min -2  max 7  mean 2  first 1 -2 4 0 2");
}

TEST_CASE("values that are not finite are counted and left out") {
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(to_text(summarize(tensor_of({1, infinity, std::nan("")}))) ==
          "min 1  max 1  mean 1  not finite 2  first 1 inf nan");
    CHECK(to_text(summarize(tensor_of({infinity}))) == "not finite 1  first inf");
}

TEST_CASE("a tensor without elements says so") {
    CHECK(to_text(summarize(tensor_of({}))) == "no elements");
}
