#include "traffic.hpp"

#include <doctest/doctest.h>

#include "op-call/tests/signatures.hpp"

using namespace opdock;
using namespace opdock::plugin_bench;
using op_call::Operands;

namespace {

op_call::Operand tensor(uint32_t dtype, std::vector<int64_t> shape) {
    return {nullptr, dtype, std::move(shape), cpu};
}

} // namespace

TEST_CASE("each input is read once and each output written once") {
    const Operands inputs = {{tensor(OPDOCK_BF16, {4, 8})}, {tensor(OPDOCK_F32, {8})}};
    const Operands outputs = {{tensor(OPDOCK_BF16, {4, 8})}, {}}; // rsigma is not requested
    CHECK(compulsory_bytes(rmsnorm(), inputs, outputs) == 64 + 32 + 64);
}

TEST_CASE("inputs that are written count twice, and lists with all their tensors") {
    const Operands inputs = {
        {tensor(OPDOCK_F32, {10}), tensor(OPDOCK_F32, {20})}, {tensor(OPDOCK_F32, {10}), tensor(OPDOCK_F32, {20})}, {}};
    CHECK(compulsory_bytes(sgd(), inputs, {}) == 120 + 2 * 120);
}

TEST_CASE("linear ops compute two operations for each m, n and k") {
    const Operands matrices = {{tensor(OPDOCK_F32, {3, 4, 5})}, {tensor(OPDOCK_F32, {3, 5, 6})}};
    CHECK(flops_of(parsed("matmul(a: T[..., m, k], b: T[..., k, n]) -> (c: T[..., m, n])"), matrices) ==
          2.0 * 3 * 4 * 5 * 6);
    const Operands linear = {{tensor(OPDOCK_F32, {2, 3, 5})}, {tensor(OPDOCK_F32, {7, 5})}, {tensor(OPDOCK_F32, {7})}};
    CHECK(flops_of(parsed("linear_fwd(input: T[..., k], weight: T[n, k], bias: T[n]) -> (output: T[..., n])"),
                   linear) == 2.0 * 2 * 3 * 5 * 7);
    const Operands grads = {{tensor(OPDOCK_F32, {6, 7})}, {tensor(OPDOCK_F32, {6, 5})}};
    CHECK(flops_of(parsed("linear_wgrad(grad: T[..., n], input: T[..., k]) -> (dw: T[n, k])"), grads) ==
          2.0 * 6 * 7 * 5);
}

TEST_CASE("other ops have no number of operations") {
    CHECK_FALSE(flops_of(rmsnorm(), {{tensor(OPDOCK_F32, {4, 8})}, {tensor(OPDOCK_F32, {8})}}));
}
