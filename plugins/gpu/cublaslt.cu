#include "cublaslt.hpp"

#ifndef __HIP__
#include <algorithm>
#include <initializer_list>
#include <string>

#include "launch.hpp"
#include "numbers.cuh"
#include "opened_library.hpp"
#include "runtime.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// The functions used, as cublasLt.h declares them. Its inline functions call those named _internal.
struct Functions {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtGetVersion) version;
    decltype(&cublasLtGetStatusString) status_string;
    decltype(&cublasLtMatmulDescInit_internal) description_init;
    decltype(&cublasLtMatmulDescSetAttribute) description_set;
    decltype(&cublasLtMatrixLayoutInit_internal) layout_init;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
    decltype(&cublasLtMatmulPreferenceInit_internal) preference_init;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmul) matmul;
};

struct Library {
    OpenedLibrary file = {"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}};
    Functions functions = {};
};

Library open_library() {
    Library library;
    Functions &f = library.functions;
    library.file.find("cublasLtCreate", f.create);
    library.file.find("cublasLtDestroy", f.destroy);
    library.file.find("cublasLtGetVersion", f.version);
    library.file.find("cublasLtGetStatusString", f.status_string);
    library.file.find("cublasLtMatmulDescInit_internal", f.description_init);
    library.file.find("cublasLtMatmulDescSetAttribute", f.description_set);
    library.file.find("cublasLtMatrixLayoutInit_internal", f.layout_init);
    library.file.find("cublasLtMatrixLayoutSetAttribute", f.layout_set);
    library.file.find("cublasLtMatmulPreferenceInit_internal", f.preference_init);
    library.file.find("cublasLtMatmulPreferenceSetAttribute", f.preference_set);
    library.file.find("cublasLtMatmulAlgoGetHeuristic", f.heuristic);
    library.file.find("cublasLtMatmul", f.matmul);
    return library;
}

const Library &library() {
    static const Library opened = open_library(); // once, by whichever thread comes first
    return opened;
}

const Functions &functions() {
    return library().functions;
}

opdock::Status checked(const char *what, cublasStatus_t status) {
    const auto code = [status] {
        switch (status) {
        case CUBLAS_STATUS_ALLOC_FAILED:
            return OPDOCK_OUT_OF_MEMORY;
        case CUBLAS_STATUS_NOT_SUPPORTED:
        case CUBLAS_STATUS_ARCH_MISMATCH:
            return OPDOCK_UNSUPPORTED;
        default:
            return OPDOCK_FAILED_CLEAN;
        }
    };
    if (status == CUBLAS_STATUS_SUCCESS) {
        return {};
    }
    return {code(), std::string(what) + ": " + functions().status_string(status)};
}

// Returns the first failure. For a sequence of calls in which a later one cannot succeed if an earlier one failed.
cublasStatus_t first_failure(std::initializer_list<cublasStatus_t> statuses) {
    const auto *found =
        std::find_if(statuses.begin(), statuses.end(), [](cublasStatus_t s) { return s != CUBLAS_STATUS_SUCCESS; });
    return found == statuses.end() ? CUBLAS_STATUS_SUCCESS : *found;
}

cudaDataType_t type_of(DLDataType dtype) {
    switch (opdock_dtype_pack(dtype)) {
    case OPDOCK_F16:
        return CUDA_R_16F;
    case OPDOCK_BF16:
        return CUDA_R_16BF;
    case OPDOCK_E4M3:
        return CUDA_R_8F_E4M3;
    case OPDOCK_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_32F;
    }
}

// Describes a row-major matrix to cuBLASLt, which is column-major: it sees the transpose,
// whose columns are the rows here. Rows are `row_step` elements apart; 0 means without gaps.
cublasStatus_t describe_matrix(cudaDataType_t type, int64_t rows, int64_t columns, int64_t row_step, int64_t batches,
                               cublasLtMatrixLayoutOpaque_t *to) {
    const Functions &f = functions();
    const auto count = static_cast<int32_t>(batches);
    const int64_t step = rows * columns;
    return first_failure({
        f.layout_init(to, sizeof *to, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                      row_step != 0 ? row_step : columns),
        f.layout_set(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        f.layout_set(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
    });
}

// With 8-bit factors, the epilogue supports only a bf16 bias. An f32 bias
// is passed as the matrix to add (C) instead, with all rows the same.
bool adds_bias(const Product &product) {
    return product.has_bias && product.scales != Scales::none && product.of_output().bits == 32;
}

#if CUBLAS_VERSION >= 120900
constexpr auto left_scale_mode = CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
               right_scale_mode = CUBLASLT_MATMUL_DESC_A_SCALE_MODE;
constexpr int32_t scale_of_128 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
constexpr int32_t scale_of_128x128 = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
#else // a newer library may be present
const auto left_scale_mode = static_cast<cublasLtMatmulDescAttributes_t>(32);
const auto right_scale_mode = static_cast<cublasLtMatmulDescAttributes_t>(31);
constexpr int32_t scale_of_128 = 4, scale_of_128x128 = 5;
#endif

// Sums of 8-bit products are f32: without CUBLASLT_MATMUL_DESC_FAST_ACCUM, tensor cores pass
// partial sums on before they lose digits.
cublasStatus_t describe_scales(const Product &product, const ProductPointers &pointers,
                               cublasLtMatmulDescOpaque_t *to) {
    const Functions &f = functions();
    if (product.scales == Scales::none) {
        return CUBLAS_STATUS_SUCCESS;
    }
    const cublasStatus_t status = first_failure({
        f.description_set(to, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &pointers.right_scale, sizeof(void *)),
        f.description_set(to, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &pointers.left_scale, sizeof(void *)),
    });
    if (product.scales == Scales::of_tensors || status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return first_failure({
        f.description_set(to, left_scale_mode, &scale_of_128, sizeof scale_of_128),
        f.description_set(to, right_scale_mode, &scale_of_128x128, sizeof scale_of_128x128),
    });
}

// The operation with the given bias and scales. It is made anew for each run, because the pointers are part of it and a
// plan must not change. That takes only a few stores.
//
// CUBLAS_COMPUTE_32F keeps products of f32 in f32: TF32 has its own compute type.
cublasStatus_t describe_operation(const Product &product, const ProductPointers &pointers,
                                  cublasLtMatmulDescOpaque_t *to) {
    const Functions &f = functions();
    // output^T = right^T left^T, and cuBLASLt sees each matrix transposed.
    const cublasOperation_t first = product.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasStatus_t status = first_failure({
        f.description_init(to, sizeof *to, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        f.description_set(to, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
        f.description_set(to, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
        describe_scales(product, pointers, to),
    });
    if (!product.has_bias || adds_bias(product) || status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS; // along the rows of output^T
    const cudaDataType_t type = type_of(product.of_output());
    return first_failure({
        f.description_set(to, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
        f.description_set(to, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type),
        f.description_set(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointers.bias, sizeof(void *)),
    });
}

// Alignment of all matrices of a batch, given that the first one is aligned to `first`; both are powers of two.
uint32_t alignment_of_all(uint32_t first, int64_t batches, int64_t step_bytes) {
    const auto of_step = static_cast<uint32_t>(step_bytes & -step_bytes & 0xff);
    return batches == 1 || of_step == 0 ? first : std::min(first, of_step);
}

std::string text_of(const Product &product) {
    const char *const scales = product.scales == Scales::of_blocks ? " with block scales" : "";
    return opdock::dtype_name(product.dtype) + scales + " of " + std::to_string(product.rows) + " rows, " +
           std::to_string(product.columns) + " columns and depth " + std::to_string(product.depth) +
           (product.batches == 1 ? "" : ", " + std::to_string(product.batches) + " times");
}

template<class T>
__global__ void __launch_bounds__(256) repeat_row_kernel(const T *row, T *output, int64_t n, int64_t count) {
    wait_for_earlier_kernels();
    const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (i < count) {
        output[i] = row[i % n];
    }
}

// The output of a product with depth 0: zeros, plus the bias.
opdock::Status fill_output(const opdock::Call &call, const Product &product, const ProductPointers &pointers) {
    const int64_t count = product.batches * product.rows * product.columns;
    if (!product.has_bias) {
        const auto bytes = static_cast<size_t>(count * (product.of_output().bits / 8));
        return gpu::checked("filling with zeros",
                            cudaMemsetAsync(pointers.output, 0, bytes, static_cast<Stream>(call.stream())));
    }
    return visit_floating(product.of_output(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch(call, {ceil_div(count, 256), 256}, repeat_row_kernel<T>, static_cast<const T *>(pointers.bias),
                      static_cast<T *>(pointers.output), product.columns, count);
    });
}

// Batches become a dimension of the grid, which is limited to 65535 in two of its three dimensions.
constexpr int64_t most_batches = 65535;

} // namespace

opdock::Status cublaslt_available(DLDevice /*device*/) {
    const std::string &why_not = library().file.why_not();
    return why_not.empty() ? opdock::Status() : opdock::unsupported(why_not);
}

opdock::Status CublasLt::open(DLDevice device, std::unique_ptr<CublasLt> &made) {
    if (opdock::Status status = cublaslt_available(device); !status.ok()) {
        return status;
    }
    int major = 0;
    if (opdock::Status status =
            gpu::checked("querying the compute capability",
                         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.device_id));
        !status.ok()) {
        return status;
    }
    cublasLtHandle_t handle = nullptr;
    if (opdock::Status status = checked("starting cuBLASLt", functions().create(&handle)); !status.ok()) {
        return status;
    }
    made.reset(new CublasLt(handle, uint64_t(major >= 9 ? 64 : 32) << 20));
    return {};
}

opdock::Status CublasLt::block_scales_available() {
    const size_t version = functions().version();
    return version >= 120900
               ? opdock::Status()
               : opdock::unsupported("block scales need cuBLASLt 12.9; this is " + std::to_string(version / 10000) +
                                     "." + std::to_string(version / 100 % 100));
}

CublasLt::~CublasLt() {
    static_cast<void>(functions().destroy(handle_));
}

opdock::Status ProductPlan::make(const CublasLt &library, const Product &product, std::unique_ptr<ProductPlan> &made) {
    std::unique_ptr<ProductPlan> plan(new ProductPlan(product));
    if (product.has_output() && product.depth != 0) {
        plan->whole_parts_ = product.batches / most_batches;
        if (plan->whole_parts_ != 0) {
            if (opdock::Status status = plan->fill(library, most_batches, plan->whole_); !status.ok()) {
                return status;
            }
        }
        if (const int64_t rest = product.batches % most_batches; rest != 0) {
            if (opdock::Status status = plan->fill(library, rest, plan->rest_); !status.ok()) {
                return status;
            }
        }
    }
    made = std::move(plan);
    return {};
}

opdock::Status ProductPlan::fill(const CublasLt &library, int64_t batches, Part &part) const {
    const auto describe = [&](DLDataType dtype, int64_t rows, int64_t columns, int64_t step, bool transposed,
                              cublasLtMatrixLayoutOpaque_t *to) {
        const cudaDataType_t type = type_of(dtype);
        return transposed ? describe_matrix(type, columns, rows, step, batches, to)
                          : describe_matrix(type, rows, columns, step, batches, to);
    };
    const Product &p = product_;
    part.batches = batches;
    cublasStatus_t described =
        first_failure({describe(p.dtype, p.rows, p.depth, p.left_step, p.left_transposed, &part.left),
                       describe(p.of_right(), p.depth, p.columns, 0, p.right_transposed, &part.right),
                       describe(p.of_output(), p.rows, p.columns, p.output_step, false, &part.output)});
    part.added = part.output;
    if (described == CUBLAS_STATUS_SUCCESS && adds_bias(p)) {
        const int64_t no_step = 0;
        described = functions().layout_set(&part.added, CUBLASLT_MATRIX_LAYOUT_LD, &no_step, sizeof no_step);
    }
    if (described != CUBLAS_STATUS_SUCCESS) {
        return checked("describing matrices to cuBLASLt", described);
    }
    if (opdock::Status status = choose(library, part, true, part.aligned); !status.ok()) {
        return status;
    }
    if (opdock::Status status = choose(library, part, false, part.loose); !status.ok()) {
        return status;
    }
    if (!part.aligned.exists && !part.loose.exists) {
        return opdock::unsupported("cuBLASLt has no algorithm for a product in " + text_of(product_));
    }
    return {};
}

opdock::Status ProductPlan::choose(const CublasLt &library, Part &part, bool aligned, Algorithm &chosen) const {
    const Functions &f = functions();
    const int64_t bytes = product_.dtype.bits / 8;
    const uint32_t first = aligned ? 16 : static_cast<uint32_t>(bytes);
    const auto alignment = [&](int64_t rows, int64_t columns) {
        return alignment_of_all(first, product_.batches, rows * columns * bytes);
    };
    const uint32_t of_left = alignment(product_.rows, product_.depth);
    const uint32_t of_right = alignment(product_.depth, product_.columns);
    const uint32_t of_output = alignment(product_.rows, product_.columns);
    const uint64_t most_workspace = std::min(library.most_workspace(), product_.most_workspace);
    // Partial sums stay in f32 and are added in order.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    // Only the alignment of the bias matters here, so the pointer is a made-up number.
    ProductPointers pointers = {};
    pointers.bias = reinterpret_cast<const void *>(uintptr_t(1) << 20 | (aligned ? 0 : first));
    pointers.left_scale = pointers.right_scale = reinterpret_cast<const void *>(uintptr_t(1) << 20);
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatmulPreferenceOpaque_t preference;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto &value) {
        return f.preference_set(&preference, attribute, &value, sizeof value);
    };
    const cublasStatus_t described = first_failure({
        describe_operation(product_, pointers, &operation),
        f.preference_init(&preference, sizeof preference),
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace),
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_right),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_left),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_output),
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_output),
    });
    if (described != CUBLAS_STATUS_SUCCESS) {
        return checked("describing a product to cuBLASLt", described);
    }
    constexpr int most = 4;
    cublasLtMatmulHeuristicResult_t results[most] = {};
    int found = 0;
    const cublasStatus_t status = f.heuristic(library.handle(), &operation, &part.right, &part.left, &part.added,
                                              &part.output, &preference, most, results, &found);
    // cuBLASLt reports sizes past its limits as invalid values.
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED &&
        status != CUBLAS_STATUS_INVALID_VALUE) {
        return checked("asking cuBLASLt for an algorithm", status);
    }
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= most_workspace) {
            chosen = {true, results[i].algo, results[i].workspaceSize};
            break;
        }
    }
    return {};
}

uint64_t ProductPlan::workspace_size() const {
    return std::max({whole_.aligned.workspace, whole_.loose.workspace, rest_.aligned.workspace, rest_.loose.workspace});
}

opdock::Status ProductPlan::run(const opdock::Call &call, const CublasLt &library,
                                const ProductPointers &pointers) const {
    if (!product_.has_output()) {
        return {};
    }
    if (product_.depth == 0) {
        return fill_output(call, product_, pointers);
    }
    const int64_t bytes = product_.dtype.bits / 8; // several parts have the same dtype
    const auto at = [&](const void *first, int64_t rows, int64_t columns, int64_t part) {
        return static_cast<const char *>(first) + part * most_batches * rows * columns * bytes;
    };
    const int64_t parts = whole_parts_ + (rest_.batches != 0 ? 1 : 0);
    for (int64_t i = 0; i < parts; ++i) {
        ProductPointers here = pointers;
        here.left = at(pointers.left, product_.rows, product_.depth, i);
        here.right = at(pointers.right, product_.depth, product_.columns, i);
        here.output = const_cast<char *>(at(pointers.output, product_.rows, product_.columns, i));
        opdock::Status status = run_part(call, library, i < whole_parts_ ? whole_ : rest_, here);
        if (!status.ok()) {
            // Once a part has run, it is too late for "nothing was touched".
            return i == 0 ? std::move(status) : opdock::failed(status.message());
        }
    }
    return {};
}

opdock::Status ProductPlan::run_part(const opdock::Call &call, const CublasLt &library, const Part &part,
                                     const ProductPointers &pointers) const {
    // An algorithm for unaligned pointers also takes aligned ones.
    const bool aligned = all_aligned(pointers.left, pointers.right, pointers.bias, pointers.output);
    const Algorithm &algorithm = aligned && part.aligned.exists ? part.aligned : part.loose;
    if (!algorithm.exists) {
        return opdock::unsupported("cuBLASLt has no algorithm for a product in " + text_of(product_) +
                                   " if pointers are not aligned to 16 bytes");
    }
    cublasLtMatmulDescOpaque_t operation;
    if (const cublasStatus_t status = describe_operation(product_, pointers, &operation);
        status != CUBLAS_STATUS_SUCCESS) {
        return checked("describing a product to cuBLASLt", status);
    }
    const bool adds_the_bias = adds_bias(product_);
    const float one = 1, kept = pointers.adds || adds_the_bias ? 1 : 0;
    const void *const added = adds_the_bias ? pointers.bias : pointers.output;
    // Layouts are only read, even though the parameters are not const.
    const auto layout = [](const cublasLtMatrixLayoutOpaque_t &of) {
        return const_cast<cublasLtMatrixLayoutOpaque_t *>(&of);
    };
    if (opdock::Status status = make_current(call.device()); !status.ok()) {
        return status;
    }
    return checked("multiplying with cuBLASLt",
                   functions().matmul(library.handle(), &operation, &one, pointers.right, layout(part.right),
                                      pointers.left, layout(part.left), &kept, added, layout(part.added),
                                      pointers.output, layout(part.output), &algorithm.algorithm, call.workspace(),
                                      algorithm.workspace, static_cast<cudaStream_t>(call.stream())));
}

} // namespace gpu
#endif
