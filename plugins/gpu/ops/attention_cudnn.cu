// attention_fwd and attention_bwd through cuDNN, as far as it supports the ops' semantics. The kernels of attention.cu
// and attention_bwd.cu serve the calls that it declines.
#include "ops/ops.hpp"

#ifndef __HIP__
#include <limits>
#include <vector>

#include "attention_cudnn.hpp"
#include "cudnn.hpp"

namespace gpu {
namespace {

using cudnn::DataType;
using cudnn::PointwiseMode;
using cudnn::Reduction;

// The stride of a dim of size 1 is meaningless.
int64_t step_of(const DLTensor &tensor, int dim) {
    return tensor.shape[dim] > 1 ? tensor.strides[dim] : row_size(tensor);
}

// A tensor [batch, position, head, element] in the order that cuDNN requires: [batch, head, position, element].
CudnnTensor heads(CudnnGraph &graph, DataType type, const DLTensor &of) {
    return graph.memory(type, {of.shape[0], of.shape[2], of.shape[1], of.shape[3]},
                        {step_of(of, 0), step_of(of, 2), step_of(of, 1), 1});
}

// The same with the last two dims exchanged.
CudnnTensor transposed_heads(CudnnGraph &graph, DataType type, const DLTensor &of) {
    return graph.memory(type, {of.shape[0], of.shape[2], of.shape[3], of.shape[1]},
                        {step_of(of, 0), step_of(of, 2), 1, step_of(of, 1)});
}

// Sets scores that the row's query does not see to minus infinity. cuDNN has kernels for exactly these operations.
CudnnTensor mask(CudnnGraph &graph, const CudnnAttention &a, CudnnTensor scores) {
    const auto keep = [&](PointwiseMode mode, const CudnnTensor &x, const CudnnTensor &y) {
        const CudnnTensor is_seen = graph.pointwise(mode, x, y, DataType::boolean, DataType::boolean);
        const CudnnTensor outside = graph.constant(-std::numeric_limits<float>::infinity());
        const CudnnTensor masked = graph.between(DataType::f32, scores.dims);
        graph.pointwise(PointwiseMode::select, scores, &outside, &is_seen, masked);
        scores = masked;
    };
    const auto shift = [&](const CudnnTensor &x, PointwiseMode mode, int64_t by) {
        return graph.pointwise(mode, x, graph.constant(static_cast<int32_t>(by)), DataType::i32, DataType::i32);
    };
    if (a.right >= 0) {
        CudnnTensor row = graph.index(scores, 2);
        const CudnnTensor column = graph.index(scores, 3);
        if (a.k != a.s) {
            row = shift(shift(row, PointwiseMode::add, a.k), PointwiseMode::sub, a.s);
        }
        if (a.right > 0) {
            row = shift(row, PointwiseMode::add, a.right);
        }
        keep(PointwiseMode::greater_or_equal, row, column);
    }
    if (a.left >= 0) {
        const CudnnTensor row = graph.index(scores, 2);
        const CudnnTensor column = graph.index(scores, 3);
        const CudnnTensor bound = graph.constant(static_cast<float>(a.left + 1 - (a.k - a.s)));
        keep(PointwiseMode::greater, graph.pointwise(PointwiseMode::add, column, bound), row);
    }
    return scores;
}

// Sums a gradient over the query heads that share a key head.
void matmul_and_share(CudnnGraph &graph, const CudnnAttention &a, const CudnnTensor &left, const CudnnTensor &right,
                      const CudnnTensor &to) {
    if (a.h == a.g) {
        graph.matmul(left, right, to);
        return;
    }
    const CudnnTensor of_heads = graph.between(a.type, {a.b, a.h, to.dims[2], to.dims[3]});
    graph.matmul(left, right, of_heads);
    graph.reduce(Reduction::add, of_heads, to);
}

std::unique_ptr<CudnnGraph> forward_graph(const opdock::Problem &problem) {
    const CudnnAttention a(problem, 0);
    auto made = std::make_unique<CudnnGraph>();
    CudnnGraph &graph = *made;
    const CudnnTensor query = heads(graph, a.type, *problem.input(0));
    const CudnnTensor key = transposed_heads(graph, a.type, *problem.input(1));
    const CudnnTensor value = heads(graph, a.type, *problem.input(2));
    const CudnnTensor output = heads(graph, a.type, *problem.output(0));
    const CudnnTensor products = graph.between(DataType::f32, a.scores());
    graph.matmul(query, key, products);
    const CudnnTensor scores = mask(graph, a, graph.pointwise(PointwiseMode::mul, products, graph.constant(a.scale)));
    const CudnnTensor largest = graph.between(DataType::f32, a.rows());
    graph.reduce(Reduction::max, scores, largest);
    const CudnnTensor powers =
        graph.pointwise(PointwiseMode::exp, graph.pointwise(PointwiseMode::sub, scores, largest));
    const CudnnTensor sum = graph.between(DataType::f32, a.rows());
    graph.reduce(Reduction::add, powers, sum);
    if (problem.has_output(1)) {
        const CudnnTensor lse = graph.memory(DataType::f32, a.rows(), packed_strides(a.rows()));
        const CudnnTensor log = graph.pointwise(PointwiseMode::log, sum);
        graph.pointwise(PointwiseMode::add, largest, &log, nullptr, lse);
    }
    graph.matmul(graph.pointwise(PointwiseMode::div, powers, sum, a.type), value, output);
    return made;
}

// Workspace: the f32 sums for grad_query, and the dot products of grad and output.
struct BackwardWorkspace {
    uint64_t sums, dots;

    explicit BackwardWorkspace(const CudnnAttention &a) {
        const auto rows = static_cast<uint64_t>(a.b * a.h * a.s) * sizeof(float);
        sums = round_up(rows * static_cast<uint64_t>(a.d));
        dots = round_up(rows);
    }
    static uint64_t round_up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
};

// Tensors in memory: the op's ten, followed by those of BackwardWorkspace.
std::unique_ptr<CudnnGraph> backward_graph(const opdock::Problem &problem) {
    const CudnnAttention a(problem, 1);
    auto made = std::make_unique<CudnnGraph>();
    CudnnGraph &graph = *made;
    const CudnnTensor grad = heads(graph, a.type, *problem.input(0));
    const CudnnTensor query = heads(graph, a.type, *problem.input(1));
    const CudnnTensor key = transposed_heads(graph, a.type, *problem.input(2));
    const CudnnTensor value = transposed_heads(graph, a.type, *problem.input(3));
    const CudnnTensor output = heads(graph, a.type, *problem.input(4));
    const CudnnTensor lse = graph.memory(DataType::f32, a.rows(), packed_strides(a.rows()));
    const CudnnTensor grad_query = heads(graph, a.type, *problem.output(0));
    const CudnnTensor grad_key = heads(graph, a.type, *problem.output(1));
    const CudnnTensor grad_value = heads(graph, a.type, *problem.output(2));
    const CudnnTensor sums = graph.memory(DataType::f32, query.dims, packed_strides(query.dims));
    const CudnnTensor dots = graph.memory(DataType::f32, a.rows(), packed_strides(a.rows()));
    const CudnnTensor scale = graph.constant(a.scale), one = graph.constant(1.0f);

    const CudnnTensor dot = graph.between(DataType::f32, a.rows());
    graph.reduce(Reduction::add, graph.pointwise(PointwiseMode::mul, grad, output), dot);
    graph.pointwise(PointwiseMode::mul, dot, &one, nullptr, dots);

    const CudnnTensor products = graph.between(DataType::f32, a.scores());
    graph.matmul(query, key, products);
    const CudnnTensor scores = graph.pointwise(PointwiseMode::mul, products, scale);
    const CudnnTensor weights =
        graph.pointwise(PointwiseMode::exp, mask(graph, a, graph.pointwise(PointwiseMode::sub, scores, lse)));
    const auto flipped = [&](const CudnnTensor &x) {
        const CudnnTensor y = graph.between(a.type, {a.b, a.h, a.k, a.s}, {a.h * a.s * a.k, a.s * a.k, 1, a.k});
        graph.view(x, y);
        return y;
    };
    matmul_and_share(graph, a, flipped(weights), grad, grad_value);

    const CudnnTensor of_weights = graph.between(DataType::f32, a.scores());
    graph.matmul(grad, value, of_weights);
    const CudnnTensor slopes = graph.pointwise(
        PointwiseMode::mul,
        graph.pointwise(PointwiseMode::mul, graph.pointwise(PointwiseMode::sub, of_weights, dots), weights), scale);
    matmul_and_share(graph, a, flipped(slopes), query, grad_key);

    const CudnnTensor plain_key = graph.between(a.type, {key.dims[0], key.dims[1], key.dims[3], key.dims[2]},
                                                {key.strides[0], key.strides[1], key.strides[3], key.strides[2]});
    graph.view(key, plain_key);
    graph.matmul(slopes, plain_key, sums);
    graph.pointwise(PointwiseMode::identity, sums, nullptr, nullptr, grad_query);
    return made;
}

using GraphOf = std::unique_ptr<CudnnGraph> (*)(const opdock::Problem &);

template<GraphOf graph_of>
opdock::Status make_cudnn_plan(const opdock::Problem &problem, std::unique_ptr<CudnnPlan> &made) {
    made = std::make_unique<CudnnPlan>(*problem.device_state<Cudnn>(), graph_of(problem));
    return {};
}

uint64_t forward_workspace(const opdock::Problem &problem) {
    return problem.plan<CudnnPlan>()->workspace_size();
}

uint64_t backward_workspace(const opdock::Problem &problem) {
    const BackwardWorkspace ours(CudnnAttention(problem, 1));
    return ours.sums + ours.dots + problem.plan<CudnnPlan>()->workspace_size();
}

opdock::Status run_forward(const opdock::Call &call) {
    std::vector<void *> pointers = {input_data(call, 0), input_data(call, 1), input_data(call, 2),
                                    output_data(call, 0)};
    if (call.has_output(1)) {
        pointers.push_back(output_data(call, 1));
    }
    return call.plan<CudnnPlan>()->run(call, *call.device_state<Cudnn>(), pointers, call.workspace());
}

opdock::Status run_backward(const opdock::Call &call) {
    const BackwardWorkspace ours(CudnnAttention(call, 1));
    char *sums = static_cast<char *>(call.workspace());
    char *dots = sums + ours.sums;
    std::vector<void *> pointers;
    for (uint32_t i = 0; i < 6; ++i) {
        pointers.push_back(input_data(call, i));
    }
    for (uint32_t i = 0; i < 3; ++i) {
        pointers.push_back(output_data(call, i));
    }
    pointers.push_back(sums);
    pointers.push_back(dots);
    return call.plan<CudnnPlan>()->run(call, *call.device_state<Cudnn>(), pointers, dots + ours.dots);
}

template<GraphOf graph_of>
Implementation through_cudnn(opdock_kernel kernel, decltype(opdock_impl::supports) supports,
                             decltype(opdock_impl::workspace_size) workspace_size) {
    Implementation attention = {kernel,
                                Knobs::none,
                                supports,
                                workspace_size,
                                opdock::available<&cudnn_available>,
                                opdock::device_state<&Cudnn::open>,
                                opdock::plan<&make_cudnn_plan<graph_of>>};
    attention.library = "cudnn";
    attention.any_strides = true;
    return attention;
}

} // namespace

void add_attention_cudnn(Plugin &plugin) {
    plugin.add(opdock::ops::attention_fwd, "f16|bf16",
               through_cudnn<&forward_graph>(opdock::kernel<&run_forward>, opdock::supports<&cudnn_supports_forward>,
                                             opdock::workspace_size<&forward_workspace>));
    Implementation backward =
        through_cudnn<&backward_graph>(opdock::kernel<&run_backward>, opdock::supports<&cudnn_supports_backward>,
                                       opdock::workspace_size<&backward_workspace>);
    backward.deterministic = false; // the sums for grad_query are added in the order in which blocks arrive
    plugin.add(opdock::ops::attention_bwd, "f16|bf16", backward);
}

} // namespace gpu

#else

namespace gpu {
void add_attention_cudnn(Plugin & /*plugin*/) {}
} // namespace gpu

#endif
