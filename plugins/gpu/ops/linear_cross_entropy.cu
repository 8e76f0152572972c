// fused_linear_cross_entropy: processes some rows at a time. Their f32 logits are overwritten
// by the gradients, from which products compute the gradients of input and weight.
#include "ops/ops.hpp"

#include <algorithm>

#include "column_sums.hpp"
#include "cublaslt.hpp"
#include "linear_cross_entropy.cuh"
#include "tensors.hpp"

namespace gpu {
namespace {

#ifdef __HIP__

const Implementation implementation = without_products;

#else

constexpr int64_t most_logits = int64_t(1) << 29;         // in bytes
constexpr uint64_t most_of_products = uint64_t(20) << 20; // bytes of workspace

// Chunks of rows.
//
// With several chunks, the sums of grad_weight are f32. Those of the first half of the classes are stored in the memory
// of grad_weight, which has the same size; the others are in the workspace.
struct Chunks {
    DLDataType dtype;
    int64_t rows, inner, classes, bytes; // bytes: per element
    int64_t step;                        // floats between rows of logits: whole vectors of any type
    int64_t chunk, count;                // rows of each chunk but the last; number of chunks
    bool sums_apart;                     // in f32, unlike grad_weight
    int64_t first_classes;               // classes whose sums are in grad_weight; all unless sums_apart

    explicit Chunks(const opdock::Problem &problem) {
        const DLTensor &input = *problem.input(0);
        dtype = input.dtype;
        rows = input.shape[0];
        inner = input.shape[1];
        classes = problem.input(1)->shape[0];
        bytes = element_bytes(input);
        step = round_up(classes, 8);
        // Larger chunks would hardly be faster; smaller ones spend more time on adding to grad_weight.
        const int64_t fitting = most_logits / (step * static_cast<int64_t>(sizeof(float))) / 128 * 128;
        chunk = std::clamp<int64_t>(fitting, 128, 4096);
        count = ceil_div(rows, chunk);
        chunk = count <= 1 ? rows : round_up(ceil_div(rows, count), 128);
        count = rows == 0 ? 0 : ceil_div(rows, chunk);
        sums_apart = problem.has_output(2) && count > 1 && bytes != sizeof(float);
        first_classes = sums_apart ? classes / 16 * 8 : classes;
    }

    int64_t gradient_step() const { return step * static_cast<int64_t>(sizeof(float)) / bytes; } // in elements
    static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
    int64_t rows_of(int64_t i) const { return std::min(chunk, rows - i * chunk); }
    // For all chunks but the last.
    ColumnSums bias_sums(const opdock::Problem &problem) const {
        return {problem, dtype, chunk, classes, gradient_step()};
    }
};

// The products for each chunk. Plans for outputs that were not requested are null.
struct Products {
    std::unique_ptr<ProductPlan> logits, of_input, of_weight[2];

    opdock::Status make(const CublasLt &library, const opdock::Problem &problem, const Chunks &chunks, int64_t n) {
        const int64_t inner = chunks.inner, classes = chunks.classes, first = chunks.first_classes;
        const DLDataType dtype = chunks.dtype;
        const DLDataType wide = {kDLFloat, 32, 1};
        const auto add = [&](Product product, std::unique_ptr<ProductPlan> &plan) {
            product.most_workspace = most_of_products;
            return ProductPlan::make(library, product, plan);
        };
        Product product = {dtype, n, classes, inner, false, true, false, 1};
        product.output_dtype = wide;
        product.output_step = chunks.step;
        if (opdock::Status status = add(product, logits); !status.ok()) {
            return status;
        }
        product = {dtype, n, inner, classes, false, false, false, 1};
        product.left_step = chunks.gradient_step();
        if (problem.has_output(1)) {
            if (opdock::Status status = add(product, of_input); !status.ok()) {
                return status;
            }
        }
        for (int part = 0; problem.has_output(2) && part < 2; ++part) {
            product = {dtype, part == 0 ? first : classes - first, inner, n, true, false, false, 1};
            product.left_step = chunks.gradient_step();
            product.output_dtype = chunks.sums_apart ? wide : dtype;
            if (opdock::Status status = add(product, of_weight[part]); !status.ok()) {
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
    Products whole, last;                    // for the chunks before the last one, and for the last one
    uint64_t logits, sums, bias_parts, size; // offsets; the products' own workspace comes first

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
        logits = reserve(static_cast<uint64_t>(chunks.chunk * chunks.step) * sizeof(float));
        sums =
            reserve(chunks.sums_apart
                        ? static_cast<uint64_t>((chunks.classes - chunks.first_classes) * chunks.inner) * sizeof(float)
                        : 0);
        bias_parts = reserve(problem.has_output(3) && chunks.count != 0 ? chunks.bias_sums(problem).bytes() : 0);
        size = end;
    }
};

// Four elements per thread; both pointers are only aligned to an element.
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
          bias_parts_(reinterpret_cast<float *>(workspace_ + plan_.bias_parts)) {}

    opdock::Status all() const {
        if (chunks_.sums_apart && !aligned(output_data(call_, 2), sizeof(float))) {
            return opdock::unsupported("grad_weight is not aligned to 4 bytes, as its sums in f32 require");
        }
        if (chunks_.count == 0) {
            return clear();
        }
        for (int64_t i = 0; i < chunks_.count; ++i) {
            if (opdock::Status status = make_logits(i); !status.ok()) {
                return i == 0 ? std::move(status) : after_the_first(std::move(status));
            }
            if (opdock::Status status = use_logits(i); !status.ok()) {
                return after_the_first(std::move(status));
            }
        }
        return after_the_first(round_sums());
    }

  private:
    char *at(void *tensor, int64_t element) const { return static_cast<char *>(tensor) + element * chunks_.bytes; }
    void *logits() const { return workspace_ + plan_.logits; }
    void *input_of(int64_t i) const { return at(input_data(call_, 0), i * chunks_.chunk * chunks_.inner); }
    const Products &products(int64_t i) const { return i + 1 < chunks_.count ? plan_.whole : plan_.last; }
    opdock::Status multiply(const ProductPlan &plan, const ProductPointers &pointers) const {
        return plan.run(call_, *call_.device_state<CublasLt>(), pointers);
    }

    // Sums over zero rows.
    opdock::Status clear() const {
        for (const uint32_t output : {2U, 3U}) {
            if (void *sums = output_data(call_, output); sums != nullptr) {
                const auto size = static_cast<size_t>(element_count(*call_.output(output)) * chunks_.bytes);
                opdock::Status status = checked("clearing a gradient", GPU(MemsetAsync)(sums, 0, size, stream()));
                if (!status.ok()) {
                    return status;
                }
            }
        }
        return {};
    }

    opdock::Status make_logits(int64_t i) const {
        return multiply(*products(i).logits, {input_of(i), input_data(call_, 1), nullptr, logits()});
    }

    opdock::Status use_logits(int64_t i) const {
        if (opdock::Status status = lose(i); !status.ok()) {
            return status;
        }
        if (const ProductPlan *plan = products(i).of_input.get()) {
            void *const to = at(output_data(call_, 1), i * chunks_.chunk * chunks_.inner);
            if (opdock::Status status = multiply(*plan, {logits(), input_data(call_, 1), nullptr, to}); !status.ok()) {
                return status;
            }
        }
        void *const sums[2] = {output_data(call_, 2), workspace_ + plan_.sums};
        for (int part = 0; part < 2; ++part) {
            if (const ProductPlan *plan = products(i).of_weight[part].get()) {
                const void *const left = at(logits(), part * chunks_.first_classes);
                if (opdock::Status status = multiply(*plan, {left, input_of(i), nullptr, sums[part], i != 0});
                    !status.ok()) {
                    return status;
                }
            }
        }
        if (!call_.has_output(3)) {
            return {};
        }
        ColumnSums shape = chunks_.bias_sums(call_);
        shape.rows = chunks_.rows_of(i); // in as many parts as those of the other chunks
        return sum_columns(call_, shape, logits(), bias_parts_, i != 0);
    }

    opdock::Status lose(int64_t i) const {
        return visit_floating(chunks_.dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            const double smoothing = call_.get_float(1);
            LogitRows<T> rows = {};
            rows.shape.rows = chunks_.rows_of(i);
            rows.shape.classes = chunks_.classes;
            rows.shape.ignore_index = call_.get_int(0);
            rows.shape.smoothing = static_cast<float>(smoothing);
            rows.shape.hit = static_cast<float>(1 - smoothing);
            rows.shape.spread = static_cast<float>(smoothing / static_cast<double>(chunks_.classes));
            rows.step = chunks_.step;
            rows.logits = static_cast<float *>(logits());
            rows.bias = static_cast<const T *>(input_data(call_, 3));
            rows.target = static_cast<const int64_t *>(input_data(call_, 2)) + i * chunks_.chunk;
            rows.scale = static_cast<const float *>(input_data(call_, 4));
            rows.loss = static_cast<float *>(output_data(call_, 0)) + i * chunks_.chunk;
            return replace_logits(call_, rows);
        });
    }

    opdock::Status round_sums() const {
        if (chunks_.sums_apart) {
            if (opdock::Status status = round_weight(); !status.ok()) {
                return status;
            }
        }
        return call_.has_output(3) ? add_parts(call_, chunks_.bias_sums(call_), bias_parts_, output_data(call_, 3))
                                   : opdock::Status();
    }

    // The sums stored in grad_weight are converted through the memory of the logits. The results
    // are smaller than the sums, so that they only overwrite sums that were already read.
    opdock::Status round_weight() const {
        void *const to = output_data(call_, 2);
        const int64_t in_place = chunks_.first_classes * chunks_.inner, most = chunks_.chunk * chunks_.step;
        for (int64_t begin = 0; begin < in_place; begin += most) {
            const int64_t count = std::min(most, in_place - begin);
            if (opdock::Status status = round(static_cast<const float *>(to) + begin, logits(), count); !status.ok()) {
                return status;
            }
            const cudaError_t moved =
                cudaMemcpyAsync(at(to, begin), logits(), static_cast<size_t>(count * chunks_.bytes),
                                cudaMemcpyDeviceToDevice, stream());
            if (moved != cudaSuccess) {
                return checked("moving a gradient", moved);
            }
        }
        const int64_t others = chunks_.classes * chunks_.inner - in_place;
        return round(reinterpret_cast<const float *>(workspace_ + plan_.sums), at(to, in_place), others);
    }

    opdock::Status round(const float *from, void *to, int64_t count) const {
        return visit_floating(chunks_.dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            return launch(call_, {ceil_div(count, 1024), 256}, round_kernel<T>, from, static_cast<T *>(to), count);
        });
    }

    Stream stream() const { return static_cast<Stream>(call_.stream()); }

    const opdock::Call &call_;
    const Chunks chunks_;
    const LossPlan &plan_;
    char *const workspace_;
    float *const bias_parts_;
};

opdock::Status supports(const opdock::Problem &problem) {
    const DLTensor &weight = *problem.input(1);
    return weight.shape[0] != 0 && weight.shape[1] != 0 ? opdock::Status()
                                                        : opdock::unsupported("it needs a weight that is not empty");
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
    plugin.add(opdock::ops::fused_linear_cross_entropy, any_float, implementation);
}

} // namespace gpu
