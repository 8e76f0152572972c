// The CPU plugin compared with libtorch, the alternative that a user would choose; it calls oneDNN for products.
//
//     build/release/tests/bench/peers              4096 x 4096, f32 and bf16
//     build/release/tests/bench/peers gelu         ops whose names begin with this
//     build/release/tests/bench/peers gelu bf16    in that dtype only
//
// Prints, for each op, the median time of both over interleaved rounds, and our time as a ratio to libtorch's: below 1
// is faster. Where libtorch has no such op, the equivalent that its users write is timed, marked "composed".
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "prepared_case.hpp"
#include "timing.hpp"

using namespace opdock::bench;

namespace {

struct Peer {
    Case ours;
    std::function<void()> theirs;
    bool composed = false;
};

constexpr int64_t n = 4096;

std::vector<Peer> peers(const DLDataType &dtype, at::ScalarType type) {
    const Operand matrix{{n, n}}, twice{{n, 2 * n}}, row{{n}}, column{{n}, opdock::f32}, classes{{n}, opdock::i64};
    const Operand flat{{n * n}}, state{{n * n}, opdock::f32}, scalar{{1}, opdock::f32}, flags{{n, n}, opdock::u8},
        rng{{2}, opdock::i64};
    const auto options = at::TensorOptions(type);
    const at::Tensor x = at::rand({n, n}, options), y = at::rand({n, n}, options), wide = at::rand({n, 2 * n}, options);
    const at::Tensor w = at::rand({n}, options), b = at::rand({n}, options);
    const at::Tensor target = at::zeros({n}, at::kLong);
    const at::Tensor mean = at::rand({n, 1}, options), rstd = at::rand({n, 1}, options);
    const at::Tensor p = at::rand({n, n}, options), m = at::zeros({n, n}, at::kFloat),
                     v = at::zeros({n, n}, at::kFloat);
    const auto gated = [=](auto activation) {
        return [=] {
            const auto halves = wide.chunk(2, -1);
            activation(halves[0]).mul_(halves[1]);
        };
    };
    const auto rmsnorm = [=](const at::Tensor &input) {
        const at::Tensor wider = input.to(at::kFloat);
        return (wider * at::rsqrt(wider.square().mean(-1, true) + 1e-5)).to(type) * w;
    };
    return {
        {{"add", {matrix, matrix}, {matrix}}, [=] { at::add(x, y); }},
        {{"mul", {matrix, matrix}, {matrix}}, [=] { at::mul(x, y); }},
        {{"relu", {matrix}, {matrix}}, [=] { at::relu(x); }},
        {{"gelu", {matrix}, {matrix}}, [=] { at::gelu(x, "tanh"); }},
        {{"gelu_bwd", {matrix, matrix}, {matrix}}, [=] { at::gelu_backward(y, x, "tanh"); }},
        {{"silu", {matrix}, {matrix}}, [=] { at::silu(x); }},
        {{"silu_bwd", {matrix, matrix}, {matrix}}, [=] { at::silu_backward(y, x); }},
        {{"silu_and_mul", {matrix, matrix}, {matrix}}, [=] { at::silu(x).mul_(y); }, true},
        {{"gelu_and_mul", {matrix, matrix}, {matrix}}, [=] { at::gelu(x, "tanh").mul_(y); }, true},
        {{"swiglu", {twice}, {matrix}}, gated([](const at::Tensor &half) { return at::silu(half); }), true},
        {{"geglu", {twice}, {matrix}}, gated([](const at::Tensor &half) { return at::gelu(half, "tanh"); }), true},
        {{"layernorm_fwd", {matrix, row, row}, {matrix, column, column}},
         [=] { at::native_layer_norm(x, {n}, w, b, 1e-5); }},
        {{"layernorm_bwd", {matrix, matrix, column, column, row}, {matrix, row, row}},
         [=] {
             at::native_layer_norm_backward(y, x, {n}, mean, rstd, w, b, {true, true, true});
         }},
        {{"rmsnorm_fwd", {matrix, row}, {matrix, column}}, [=] { rmsnorm(x); }, true},
        {{"fused_add_rmsnorm_fwd", {matrix, matrix, row}, {matrix, matrix, column}}, [=] { rmsnorm(x + y); }, true},
        {{"scaled_softmax_fwd", {matrix}, {matrix}}, [=] { at::softmax(x, -1); }},
        {{"scaled_softmax_bwd", {matrix, matrix}, {matrix}}, [=] { at::_softmax_backward_data(y, x, -1, type); }},
        {{"cross_entropy_fwd", {matrix, classes}, {column, column}},
         [=] { at::cross_entropy_loss(x, target, {}, at::Reduction::None); }},
        {{"dropout_fwd", {matrix, rng}, {matrix, flags}, {{"p", 0.1}}}, [=] { at::native_dropout(x, 0.1, true); }},
        {{"matmul", {matrix, matrix}, {matrix}}, [=] { at::matmul(x, y); }},
        {{"linear_fwd", {matrix, matrix, row}, {matrix}}, [=] { at::linear(x, y, b); }},
        {{"multi_tensor_adam",
          {flat, flat, state, state, scalar, scalar, {{1}, opdock::i32, true}},
          {},
          {},
          {1, 1, 1, 1}},
         [=] {
             const at::Tensor g = x.to(at::kFloat);
             m.mul_(0.9).add_(g, 0.1);
             v.mul_(0.999).addcmul_(g, g, 0.001);
             p.sub_((m / v.sqrt().add_(1e-8)).mul_(1e-3));
         },
         true},
    };
}

void compare(const Peer &peer, const char *dtype_name, const DLDataType &dtype) {
    constexpr int rounds = 15;
    Subject ours(peer.ours, dtype);
    std::vector<double> of_ours, of_theirs;
    ours.run();
    peer.theirs();
    for (int round = 0; round < rounds; ++round) {
        of_ours.push_back(cost_of([&] { ours.run(); }).wall);
        of_theirs.push_back(cost_of(peer.theirs).wall);
    }
    std::printf("%-26s %-5s %9.2f ms %9.2f ms  %.2f%s\n", peer.ours.op.c_str(), dtype_name, 1e3 * median(of_ours),
                1e3 * median(of_theirs), median(of_ours) / median(of_theirs), peer.composed ? "  composed" : "");
    std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
    const std::string beginning = argc > 1 ? argv[1] : "";
    const std::string only_dtype = argc > 2 ? argv[2] : "";
    const c10::InferenceMode no_gradients;
    at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
    std::printf("%-26s %-5s %12s %12s  %s\n", "op, 4096 x 4096", "dtype", "opdock", "libtorch", "ratio");
    for (const auto &[name, dtype, type] :
         {std::tuple{"f32", opdock::f32, at::kFloat}, std::tuple{"bf16", opdock::bf16, at::kBFloat16}}) {
        if (!only_dtype.empty() && only_dtype != name) {
            continue;
        }
        for (const Peer &peer : peers(dtype, type)) {
            if (peer.ours.op.starts_with(beginning)) {
                compare(peer, name, dtype);
            }
        }
    }
    return 0;
}
