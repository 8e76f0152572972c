#include "cublaslt.hpp"

#ifndef __HIP__
#include <algorithm>
#include <initializer_list>
#include <string>

#include "opened_library.hpp"
#include "runtime.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// The functions used, as cublasLt.h declares them. The names with _internal are what its inline functions call.
struct Functions {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
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
    static const Library opened = open_library(); // once, whichever thread comes first
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

// For calls in a row of which a later one cannot succeed when an earlier one did not.
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
    default:
        return CUDA_R_32F;
    }
}

// A row-major matrix as cuBLASLt, which thinks in columns, sees it: transposed, and its row is a column there.
cublasStatus_t describe_matrix(DLDataType dtype, int64_t rows, int64_t columns, int64_t batches,
                               cublasLtMatrixLayoutOpaque_t *to) {
    const Functions &f = functions();
    const auto count = static_cast<int32_t>(batches);
    const int64_t step = rows * columns;
    return first_failure({
        f.layout_init(to, sizeof *to, type_of(dtype), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                      columns),
        f.layout_set(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        f.layout_set(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
    });
}

// The operation with this bias. It is made anew for each run, since the bias is part of it and a plan must not change;
// that takes a few stores.
//
// CUBLAS_COMPUTE_32F keeps products of f32 in f32: TF32 has a compute type of its own.
cublasStatus_t describe_operation(const Product &product, const void *bias, cublasLtMatmulDescOpaque_t *to) {
    const Functions &f = functions();
    // output^T = right^T left^T, and cuBLASLt sees the transposed matrix of each.
    const cublasOperation_t first = product.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasStatus_t status = first_failure({
        f.description_init(to, sizeof *to, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        f.description_set(to, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
        f.description_set(to, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
    });
    if (!product.has_bias || status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS; // along the rows of output^T
    return first_failure({
        f.description_set(to, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
        f.description_set(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
    });
}

// What all matrices of a batch are aligned to when the first one is aligned to `first`; both powers of two.
uint32_t alignment_of_all(uint32_t first, int64_t batches, int64_t step_bytes) {
    const auto of_step = static_cast<uint32_t>(step_bytes & -step_bytes & 0xff);
    return batches == 1 || of_step == 0 ? first : std::min(first, of_step);
}

std::string text_of(const Product &product) {
    return opdock::dtype_name(product.dtype) + " of " + std::to_string(product.rows) + " rows, " +
           std::to_string(product.columns) + " columns and depth " + std::to_string(product.depth) +
           (product.batches == 1 ? "" : ", " + std::to_string(product.batches) + " times");
}

// Batches become a dimension of the grid, which ends at 65535 in two of three directions.
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
            gpu::checked("asking for the compute capability",
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
    const auto describe = [&](int64_t rows, int64_t columns, bool transposed, cublasLtMatrixLayoutOpaque_t *to) {
        return transposed ? describe_matrix(product_.dtype, columns, rows, batches, to)
                          : describe_matrix(product_.dtype, rows, columns, batches, to);
    };
    part.batches = batches;
    const cublasStatus_t described =
        first_failure({describe(product_.rows, product_.depth, product_.left_transposed, &part.left),
                       describe(product_.depth, product_.columns, product_.right_transposed, &part.right),
                       describe(product_.rows, product_.columns, false, &part.output)});
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
    const uint64_t most_workspace = library.most_workspace();
    // Partial sums stay in f32 and are added up in order.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    // Here the bias is a number that says how it is aligned.
    const auto *bias = reinterpret_cast<const void *>(uintptr_t(1) << 20 | (aligned ? 0 : first));
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatmulPreferenceOpaque_t preference;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto &value) {
        return f.preference_set(&preference, attribute, &value, sizeof value);
    };
    const cublasStatus_t described = first_failure({
        describe_operation(product_, bias, &operation),
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
    const cublasStatus_t status = f.heuristic(library.handle(), &operation, &part.right, &part.left, &part.output,
                                              &part.output, &preference, most, results, &found);
    // It calls sizes past its limits invalid.
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
    const int64_t bytes = product_.dtype.bits / 8;
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
            // Once a part runs it is too late for "nothing was touched".
            return i == 0 ? std::move(status) : opdock::failed(status.message());
        }
    }
    return {};
}

opdock::Status ProductPlan::run_part(const opdock::Call &call, const CublasLt &library, const Part &part,
                                     const ProductPointers &pointers) const {
    // An algorithm for loose pointers takes aligned ones, too.
    const bool aligned = all_aligned(pointers.left, pointers.right, pointers.bias, pointers.output);
    const Algorithm &algorithm = aligned && part.aligned.exists ? part.aligned : part.loose;
    if (!algorithm.exists) {
        return opdock::unsupported("cuBLASLt has no algorithm for a product in " + text_of(product_) +
                                   ", when pointers are not aligned to 16 bytes");
    }
    cublasLtMatmulDescOpaque_t operation;
    if (const cublasStatus_t status = describe_operation(product_, pointers.bias, &operation);
        status != CUBLAS_STATUS_SUCCESS) {
        return checked("describing a product to cuBLASLt", status);
    }
    const float one = 1, zero = 0;
    // Layouts are only read, whatever the types of the parameters say.
    const auto layout = [](const cublasLtMatrixLayoutOpaque_t &of) {
        return const_cast<cublasLtMatrixLayoutOpaque_t *>(&of);
    };
    if (opdock::Status status = make_current(call.device()); !status.ok()) {
        return status;
    }
    return checked("multiplying with cuBLASLt",
                   functions().matmul(library.handle(), &operation, &one, pointers.right, layout(part.right),
                                      pointers.left, layout(part.left), &zero, pointers.output, layout(part.output),
                                      pointers.output, layout(part.output), &algorithm.algorithm, call.workspace(),
                                      algorithm.workspace, static_cast<cudaStream_t>(call.stream())));
}

} // namespace gpu
#endif
