#include "direct_linear.hpp"

#include <cublasLt.h>
#include <dlfcn.h>

#include <stdexcept>

#include "check_cuda.hpp"

namespace gpu_tests {
namespace {

constexpr uint64_t most_workspace = uint64_t(32) << 20;

struct Functions {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtGetVersion) version;
    decltype(&cublasLtGetStatusString) status_string;
    decltype(&cublasLtMatmulDescCreate) operation_create;
    decltype(&cublasLtMatmulDescDestroy) operation_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) operation_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmul) matmul;
};

template<class Function>
void find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
        throw std::runtime_error(std::string("cuBLASLt has no function ") + name);
    }
}

// Opens the same library as the plugin.
void *open_library() {
    std::string why_not;
    for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
        if (void *opened = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
            return opened;
        }
        why_not += (why_not.empty() ? "cuBLASLt cannot be opened: " : "; ") + std::string(dlerror());
    }
    throw std::runtime_error(why_not);
}

const Functions &functions() {
    static const Functions found = [] {
        void *library = open_library();
        Functions f;
        find(library, "cublasLtCreate", f.create);
        find(library, "cublasLtDestroy", f.destroy);
        find(library, "cublasLtGetVersion", f.version);
        find(library, "cublasLtGetStatusString", f.status_string);
        find(library, "cublasLtMatmulDescCreate", f.operation_create);
        find(library, "cublasLtMatmulDescDestroy", f.operation_destroy);
        find(library, "cublasLtMatmulDescSetAttribute", f.operation_set);
        find(library, "cublasLtMatrixLayoutCreate", f.layout_create);
        find(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy);
        find(library, "cublasLtMatmulPreferenceCreate", f.preference_create);
        find(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy);
        find(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set);
        find(library, "cublasLtMatmulAlgoGetHeuristic", f.heuristic);
        find(library, "cublasLtMatmul", f.matmul);
        return f;
    }();
    return found;
}

void check(const char *what, cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        throw std::runtime_error(std::string(what) + ": " + functions().status_string(status));
    }
}

// An object made by the library, and destroyed by a function of its table.
template<class Made, auto destroy>
struct Destroyed {
    Made made = nullptr;

    Destroyed() = default;
    Destroyed(const Destroyed &) = delete;
    Destroyed &operator=(const Destroyed &) = delete;
    ~Destroyed() {
        if (made != nullptr) {
            static_cast<void>((functions().*destroy)(made));
        }
    }
};

using Handle = Destroyed<cublasLtHandle_t, &Functions::destroy>;
using Operation = Destroyed<cublasLtMatmulDesc_t, &Functions::operation_destroy>;
using Layout = Destroyed<cublasLtMatrixLayout_t, &Functions::layout_destroy>;
using Preference = Destroyed<cublasLtMatmulPreference_t, &Functions::preference_destroy>;

template<class Value>
void set(const Operation &operation, cublasLtMatmulDescAttributes_t attribute, const Value &value) {
    check("describing the product", functions().operation_set(operation.made, attribute, &value, sizeof value));
}

// cuBLASLt's matrices are column-major: the transposes of row-major ones.
void describe(Layout &layout, cudaDataType_t type, int64_t rows, int64_t columns) {
    check("describing a matrix", functions().layout_create(&layout.made, type, static_cast<uint64_t>(columns),
                                                           static_cast<uint64_t>(rows), columns));
}

} // namespace

struct DirectLinear::State {
    explicit State(const Linear &of) : linear(of) {
        check("starting cuBLASLt", functions().create(&handle.made));
        // output^T = weight input^T, where cuBLASLt sees weight^T and input^T.
        check("describing the product", functions().operation_create(&operation.made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        set(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
        set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
        set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, linear.bias);
        cudaDataType_t type = CUDA_R_16BF;
        if (linear.input_scale != nullptr) {
            type = CUDA_R_8F_E4M3;
            set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, linear.weight_scale);
            set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, linear.input_scale);
            set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
        }
        describe(weight, type, linear.columns, linear.depth);
        describe(input, type, linear.rows, linear.depth);
        describe(output, CUDA_R_16BF, linear.rows, linear.columns);
        choose();
        check_cuda("allocating the workspace", cudaMalloc(&workspace, most_workspace));
    }
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    ~State() { static_cast<void>(cudaFree(workspace)); }

    void choose() {
        Preference preference;
        check("asking for an algorithm", functions().preference_create(&preference.made));
        check("asking for an algorithm",
              functions().preference_set(preference.made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_workspace,
                                         sizeof most_workspace));
        int found = 0;
        check("asking for an algorithm",
              functions().heuristic(handle.made, operation.made, weight.made, input.made, output.made, output.made,
                                    preference.made, 1, &first, &found));
        if (found == 0) {
            throw std::runtime_error("cuBLASLt has no algorithm for the product");
        }
        check("the first algorithm", first.state);
    }

    Linear linear;
    Handle handle;
    Operation operation;
    Layout weight, input, output;
    cublasLtMatmulHeuristicResult_t first = {};
    void *workspace = nullptr;
};

DirectLinear::DirectLinear(const Linear &linear) : state_(std::make_unique<State>(linear)) {}

DirectLinear::~DirectLinear() = default;

void DirectLinear::run(cudaStream_t stream) const {
    const State &s = *state_;
    const float one = 1, zero = 0;
    check("multiplying",
          functions().matmul(s.handle.made, s.operation.made, &one, s.linear.weight, s.weight.made, s.linear.input,
                             s.input.made, &zero, s.linear.output, s.output.made, s.linear.output, s.output.made,
                             &s.first.algo, s.workspace, most_workspace, stream));
}

size_t DirectLinear::workspace_size() const {
    return state_->first.workspaceSize;
}

std::string DirectLinear::version() {
    const size_t number = functions().version();
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
}

} // namespace gpu_tests
