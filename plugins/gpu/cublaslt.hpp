// Matrix products through cuBLASLt, which is opened at its
// first use: the plugin loads without it. Not available on HIP.
#pragma once

#ifndef __HIP__
#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "opdock/plugin.hpp"

namespace gpu {

// Returns OPDOCK_UNSUPPORTED with the loader's message if cuBLASLt cannot be opened.
opdock::Status cublaslt_available(DLDevice device);

// cuBLASLt's state for one device; any number of runs may use it at once.
class CublasLt {
  public:
    static opdock::Status open(DLDevice device, std::unique_ptr<CublasLt> &made);
    CublasLt(const CublasLt &) = delete;
    CublasLt &operator=(const CublasLt &) = delete;
    ~CublasLt();

    cublasLtHandle_t handle() const { return handle_; }
    static opdock::Status block_scales_available();
    uint64_t most_workspace() const { return most_workspace_; } // limit in bytes for an algorithm

  private:
    CublasLt(cublasLtHandle_t handle, uint64_t most_workspace) : handle_(handle), most_workspace_(most_workspace) {}

    cublasLtHandle_t handle_;
    uint64_t most_workspace_;
};

// Scales of 8-bit factors, multiplied with their elements. With of_blocks, `left` has a scale per 128 elements of the
// depth, in the library's own order (see ops/linear_fp8.cu), and `right` one per 128 x 128 elements.
enum class Scales { none, of_tensors, of_blocks };

// output[rows, columns] = left[rows, depth] right[depth, columns] +
// bias[columns], `batches` times, all row-major. All batches have the same bias.
struct Product {
    DLDataType dtype;
    int64_t rows, columns, depth;
    bool left_transposed;  // stored as [depth, rows]
    bool right_transposed; // stored as [columns, depth]
    bool has_bias;         // with the output's dtype
    int64_t batches;
    DLDataType right_dtype = {}, output_dtype = {}; // if bits is 0: dtype. Only for a single batch
    // Elements from one row to the next as stored, for a single batch; 0 means without gaps.
    int64_t left_step = 0, output_step = 0;
    uint64_t most_workspace = ~uint64_t(0); // in bytes; the library's limit applies too
    Scales scales = Scales::none;

    DLDataType of_right() const { return right_dtype.bits != 0 ? right_dtype : dtype; }
    DLDataType of_output() const { return output_dtype.bits != 0 ? output_dtype : dtype; }
    bool has_output() const { return rows != 0 && columns != 0 && batches != 0; }
};

struct ProductPointers {
    const void *left, *right, *bias; // null without a bias
    void *output;
    bool adds = false; // to the present output; without a bias
    const void *left_scale = nullptr, *right_scale = nullptr;
};

// A product and the algorithms for it; immutable, so that runs can share it.
class ProductPlan {
  public:
    // Returns OPDOCK_UNSUPPORTED if cuBLASLt has no algorithm. A product without output or depth needs none.
    static opdock::Status make(const CublasLt &library, const Product &product, std::unique_ptr<ProductPlan> &made);

    uint64_t workspace_size() const;
    opdock::Status run(const opdock::Call &call, const CublasLt &library, const ProductPointers &pointers) const;

  private:
    struct Algorithm {
        bool exists = false;
        cublasLtMatmulAlgo_t algorithm = {};
        uint64_t workspace = 0;
    };
    // The share of a product that one call of cuBLASLt computes.
    struct Part {
        int64_t batches = 0;
        cublasLtMatrixLayoutOpaque_t left = {}, right = {}, output = {}, added = {}; // added: see adds_bias()
        Algorithm aligned; // if all pointers are aligned to 16 bytes
        Algorithm loose;   // if they are aligned to their elements only
    };

    explicit ProductPlan(const Product &product) : product_(product) {}
    opdock::Status fill(const CublasLt &library, int64_t batches, Part &part) const;
    opdock::Status choose(const CublasLt &library, Part &part, bool aligned, Algorithm &chosen) const;
    opdock::Status run_part(const opdock::Call &call, const CublasLt &library, const Part &part,
                            const ProductPointers &pointers) const;

    Product product_;
    int64_t whole_parts_ = 0; // runs of whole_, before the one of rest_
    Part whole_, rest_;
};

} // namespace gpu
#else
#include "implementation.hpp"

namespace gpu {

inline opdock::Status no_products(DLDevice /*device*/) {
    return opdock::unsupported("matrix products are not supported on ROCm yet");
}
inline opdock::Status no_product(const opdock::Call &call) {
    return no_products(call.device());
}

// An op that needs products: it is registered, and reports why it is not available.
inline const Implementation without_products = {opdock::kernel<&no_product>, Knobs::none, nullptr, nullptr,
                                                opdock::available<&no_products>};

} // namespace gpu
#endif
