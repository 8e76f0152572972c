// fused_linear_cross_entropy: some rows at a time, whose logits become their gradients, from which the products for the
// gradients of input and weight are made.
#include "ops/ops.hpp"

#ifndef __HIP__
#include <algorithm>

#include "column_sums.hpp"
#include "cross_entropy.cuh"
#include "cublaslt.hpp"
#include "launch.hpp"
#include "numbers.cuh"
#endif
#include "tensors.hpp"

namespace gpu {
namespace {

// The logits of f16 could be past its range.
constexpr const char *served = "f32|bf16";

#ifdef __HIP__

opdock::Status not_yet(DLDevice /*device*/) {
    return opdock::unsupported("no matrix products yet on ROCm");
}
opdock::Status never_called(const opdock::Call &call) {
    return not_yet(call.device());
}

const Implementation implementation = {opdock::kernel<&never_called>, Knobs::none, nullptr, nullptr,
                                       opdock::available<&not_yet>};

#else

// Chunks of rows, and where things are in the workspace.
//
// The sums of grad_weight over several chunks are f32. Those of the first half of the classes are where grad_weight
// will be, which is as large; the others are in the workspace.
struct Chunks {
    DLDataType dtype;
    int64_t rows, inner, classes, bytes; // bytes of an element
    int64_t step;                        // of the logits' rows, so that each begins aligned
    int64_t chunk, count;                // rows of all chunks but the last, chunks
    bool sums_apart;                     // not in T, as grad_weight is
    int64_t first_classes;               // with their sums in grad_weight; all where sums are not apart

    explicit Chunks(const opdock::Problem &problem) {
        const DLTensor &input = *problem.input(0);
        dtype = input.dtype;
        rows = input.shape[0];
        inner = input.shape[1];
        classes = problem.input(1)->shape[0];
        bytes = element_bytes(input);
        step = round_up(classes, 16 / bytes);
        // More at a time would hardly be faster; fewer spend more on adding to grad_weight.
        const int64_t fitting = (int64_t(448) << 20) / (step * bytes) / 16 * 16;
        chunk = std::min(rows, std::clamp<int64_t>(fitting, 128, 2048));
        count = rows == 0 ? 0 : ceil_div(rows, chunk);
        chunk = count <= 1 ? rows : round_up(ceil_div(rows, count), 16);
        count = rows == 0 ? 0 : ceil_div(rows, chunk);
        sums_apart = problem.has_output(2) && count > 1 && bytes != sizeof(float);
        first_classes = sums_apart ? classes / 16 * 8 : classes;
    }

    static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
    int64_t rows_of(int64_t i) const { return std::min(chunk, rows - i * chunk); }
    ColumnSums bias_sums(const opdock::Problem &problem, int64_t i) const {
        return {problem, dtype, rows_of(i), classes, step};
    }
};

// What is done for each chunk. Null plans are for what nobody asked for.
struct Products {
    std::unique_ptr<ProductPlan> logits, of_input, of_weight[2];

    opdock::Status make(const CublasLt &library, const opdock::Problem &problem, const Chunks &chunks, int64_t n) {
        const int64_t inner = chunks.inner, classes = chunks.classes, first = chunks.first_classes;
        const DLDataType dtype = chunks.dtype;
        Product product = {dtype, n, classes, inner, false, true, problem.has_input(3), 1};
        product.output_step = chunks.step;
        if (opdock::Status status = ProductPlan::make(library, product, logits); !status.ok()) {
            return status;
        }
        if (problem.has_output(1)) {
            product = {dtype, n, inner, classes, false, false, false, 1};
            product.left_step = chunks.step;
            if (opdock::Status status = ProductPlan::make(library, product, of_input); !status.ok()) {
                return status;
            }
        }
        for (int part = 0; problem.has_output(2) && part < 2; ++part) {
            product = {dtype, part == 0 ? first : classes - first, inner, n, true, false, false, 1};
            product.left_step = chunks.step;
            product.wide_output = chunks.sums_apart;
            if (opdock::Status status = ProductPlan::make(library, product, of_weight[part]); !status.ok()) {
                return status;
            }
        }
        return {};
    }

    uint64_t workspace_size() const {
        uint64_t most = 0;
        for (const ProductPlan *plan : {logits.get(), of_input.get(), of_weight[0].get(), of_weight[1].get()}) {
            most = std::max(most, plan == nullptr ? 0 : plan->workspace_size());
        }
        return most;
    }
};

struct LossPlan {
    Products whole, last;                           // of the last chunk, and of those before it
    uint64_t marks, logits, sums, bias_parts, size; // offsets; the products' own comes first

    static opdock::Status make(const opdock::Problem &problem, std::unique_ptr<LossPlan> &made) {
        const Chunks chunks(problem);
        const CublasLt &library = *problem.device_state<CublasLt>();
        auto plan = std::make_unique<LossPlan>();
        const int64_t last_rows = chunks.count == 0 ? 0 : chunks.rows_of(chunks.count - 1);
        if (opdock::Status status = plan->last.make(library, problem, chunks, last_rows); !status.ok()) {
            return status;
        }
        if (chunks.count > 1) {
            if (opdock::Status status = plan->whole.make(library, problem, chunks, chunks.chunk); !status.ok()) {
                return status;
            }
        }
        plan->place(problem, chunks);
        made = std::move(plan);
        return {};
    }

    void place(const opdock::Problem &problem, const Chunks &chunks) {
        uint64_t end = 0;
        const auto reserve = [&](uint64_t wanted) {
            const uint64_t begin = end;
            end += (wanted + 255) / 256 * 256;
            return begin;
        };
        reserve(std::max(whole.workspace_size(), last.workspace_size()));
        marks = reserve(fused_marks(chunks.chunk));
        logits = reserve(static_cast<uint64_t>(chunks.chunk * chunks.step * chunks.bytes));
        sums =
            reserve(chunks.sums_apart
                        ? static_cast<uint64_t>((chunks.classes - chunks.first_classes) * chunks.inner) * sizeof(float)
                        : 0);
        bias_parts = end;
        for (int64_t i = 0; problem.has_output(3) && i < chunks.count; ++i) {
            end += chunks.bias_sums(problem, i).bytes();
        }
        size = end;
    }
};

// Four elements of each thread; both pointers are aligned to an element.
template<class T>
__global__ void __launch_bounds__(256) round_kernel(const float *from, T *to, int64_t count) {
    wait_for_earlier_kernels();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * 1024 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (first + k * 256 < count) {
            to[first + k * 256] = from_f32<T>(from[first + k * 256]);
        }
    }
}

class Run {
  public:
    explicit Run(const opdock::Call &call)
        : call_(call), chunks_(call), plan_(*call.plan<LossPlan>()), workspace_(static_cast<char *>(call.workspace())),
          bias_parts_(reinterpret_cast<float *>(workspace_ + plan_.bias_parts)) {
        cross_entropy_.classes = chunks_.classes;
        cross_entropy_.step = chunks_.step;
        cross_entropy_.ignore_index = call.get_int(0);
        const double smoothing = call.get_float(1);
        cross_entropy_.smoothing = static_cast<float>(smoothing);
        cross_entropy_.hit = static_cast<float>(1 - smoothing);
        cross_entropy_.spread = static_cast<float>(smoothing / static_cast<double>(chunks_.classes));
        cross_entropy_.scale = 1;
        cross_entropy_.scale_there = static_cast<const float *>(input_data(call, 4));
    }

    opdock::Status all() {
        if (chunks_.sums_apart && !aligned(output_data(call_, 2), sizeof(float))) {
            return opdock::unsupported("grad_weight is not aligned to 4 bytes, as sums in f32 would be there");
        }
        if (chunks_.count == 0) {
            return clear();
        }
        for (int64_t i = 0; i < chunks_.count; ++i) {
            if (opdock::Status status = one(i); !status.ok()) {
                return status;
            }
        }
        if (chunks_.sums_apart) {
            if (opdock::Status status = round_sums(); !status.ok()) {
                return status;
            }
        }
        return call_.has_output(3)
                   ? add_parts(call_, chunks_.bias_sums(call_, 0), parts_, bias_parts_, output_data(call_, 3))
                   : opdock::Status();
    }

  private:
    char *at(void *tensor, int64_t element) const { return static_cast<char *>(tensor) + element * chunks_.bytes; }

    // Sums over no rows.
    opdock::Status clear() const {
        const auto stream = static_cast<Stream>(call_.stream());
        for (const uint32_t output : {2U, 3U}) {
            if (void *sums = output_data(call_, output); sums != nullptr) {
                const auto size = static_cast<size_t>(element_count(*call_.output(output)) * chunks_.bytes);
                opdock::Status status = checked("clearing a gradient", GPU(MemsetAsync)(sums, 0, size, stream));
                if (!status.ok()) {
                    return status;
                }
            }
        }
        return {};
    }

    opdock::Status one(int64_t i) {
        const Products &products = i + 1 < chunks_.count ? plan_.whole : plan_.last;
        const CublasLt &library = *call_.device_state<CublasLt>();
        const int64_t first = i * chunks_.chunk, n = chunks_.rows_of(i);
        void *const logits = workspace_ + plan_.logits, *const weight = input_data(call_, 1);
        void *const input = at(input_data(call_, 0), first * chunks_.inner);
        if (opdock::Status status = products.logits->run(call_, library, {input, weight, input_data(call_, 3), logits});
            !status.ok()) {
            return status;
        }
        if (opdock::Status status = lose(first, n, logits); !status.ok()) {
            return status;
        }
        if (products.of_input != nullptr) {
            void *const to = at(output_data(call_, 1), first * chunks_.inner);
            if (opdock::Status status = products.of_input->run(call_, library, {logits, weight, nullptr, to});
                !status.ok()) {
                return status;
            }
        }
        void *const sums[2] = {output_data(call_, 2), workspace_ + plan_.sums};
        for (int part = 0; part < 2; ++part) {
            const bool has_classes = part == 0 ? chunks_.first_classes != 0 : chunks_.first_classes != chunks_.classes;
            if (products.of_weight[part] != nullptr && has_classes) {
                const void *const left = at(logits, part * chunks_.first_classes);
                if (opdock::Status status =
                        products.of_weight[part]->run(call_, library, {left, input, nullptr, sums[part], i != 0});
                    !status.ok()) {
                    return status;
                }
            }
        }
        if (!call_.has_output(3)) {
            return {};
        }
        const ColumnSums shape = chunks_.bias_sums(call_, i);
        float *const parts = bias_parts_ + parts_ * chunks_.classes;
        parts_ += shape.parts;
        return sum_columns(call_, shape, logits, parts);
    }

    opdock::Status lose(int64_t first, int64_t n, void *logits) {
        cross_entropy_.rows = n;
        const int64_t vectors = std::max<int64_t>(1, chunks_.classes * chunks_.bytes / 16);
        const auto threads = static_cast<int>(default_row_threads(n, vectors, compute_units(call_)));
        return fused_cross_entropy(call_, cross_entropy_, {threads, std::max(64, threads)}, chunks_.dtype,
                                   {logits, static_cast<const int64_t *>(input_data(call_, 2)) + first,
                                    static_cast<float *>(output_data(call_, 0)) + first,
                                    reinterpret_cast<uint8_t *>(workspace_ + plan_.marks)});
    }

    // The sums that are in grad_weight go through the memory of the logits: what is written of them is behind what was
    // read, as they get smaller.
    opdock::Status round_sums() const {
        void *const to = output_data(call_, 2), *const logits = workspace_ + plan_.logits;
        const int64_t in_place = chunks_.first_classes * chunks_.inner, most = chunks_.chunk * chunks_.step;
        for (int64_t begin = 0; begin < in_place; begin += most) {
            const int64_t count = std::min(most, in_place - begin);
            if (opdock::Status status = round(static_cast<const float *>(to) + begin, logits, count); !status.ok()) {
                return status;
            }
            const cudaError_t moved = cudaMemcpyAsync(at(to, begin), logits, static_cast<size_t>(count * chunks_.bytes),
                                                      cudaMemcpyDeviceToDevice, static_cast<Stream>(call_.stream()));
            if (moved != cudaSuccess) {
                return checked("moving a gradient", moved);
            }
        }
        const int64_t others = chunks_.classes * chunks_.inner - in_place;
        return round(reinterpret_cast<const float *>(workspace_ + plan_.sums), at(to, in_place), others);
    }

    opdock::Status round(const float *from, void *to, int64_t count) const {
        return launch(call_, {ceil_div(count, 1024), 256}, round_kernel<bf16>, from, static_cast<bf16 *>(to), count);
    }

    const opdock::Call &call_;
    const Chunks chunks_;
    const LossPlan &plan_;
    char *const workspace_;
    float *const bias_parts_;
    int64_t parts_ = 0; // of them so far
    CrossEntropy cross_entropy_ = {};
};

opdock::Status supports(const opdock::Problem &problem) {
    const DLTensor &weight = *problem.input(1);
    return weight.shape[0] != 0 && weight.shape[1] != 0 ? opdock::Status()
                                                        : opdock::unsupported("it needs a weight with elements");
}

uint64_t workspace(const opdock::Problem &problem) {
    return problem.plan<LossPlan>()->size;
}

opdock::Status run(const opdock::Call &call) {
    return Run(call).all();
}

const Implementation implementation = {opdock::kernel<&run>,
                                       Knobs::none,
                                       opdock::supports<&supports>,
                                       opdock::workspace_size<&workspace>,
                                       opdock::available<&cublaslt_available>,
                                       opdock::device_state<&CublasLt::open>,
                                       opdock::plan<&LossPlan::make>};

#endif

} // namespace

void add_linear_loss(Plugin &plugin) {
    plugin.add(opdock::ops::fused_linear_cross_entropy, served, implementation);
}

} // namespace gpu
