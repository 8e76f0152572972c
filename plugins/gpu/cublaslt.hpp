// Matrix products through cuBLASLt, which is opened when it is first asked for: the plugin loads without it. On HIP
// none.
#pragma once

#ifndef __HIP__
#include <cublasLt.h>

#include <cstdint>
#include <memory>

#include "opdock/plugin.hpp"

namespace gpu {

// OPDOCK_UNSUPPORTED with the loader's words where cuBLASLt cannot be opened.
opdock::Status cublaslt_available(DLDevice device);

// cuBLASLt's state of one device; any number of runs use it at once.
class CublasLt {
  public:
    static opdock::Status open(DLDevice device, std::unique_ptr<CublasLt> &made);
    CublasLt(const CublasLt &) = delete;
    CublasLt &operator=(const CublasLt &) = delete;
    ~CublasLt();

    cublasLtHandle_t handle() const { return handle_; }
    static opdock::Status block_scales_available();
    uint64_t most_workspace() const { return most_workspace_; } // bytes that an algorithm may ask for

  private:
    CublasLt(cublasLtHandle_t handle, uint64_t most_workspace) : handle_(handle), most_workspace_(most_workspace) {}

    cublasLtHandle_t handle_;
    uint64_t most_workspace_;
};

// Scales of factors in 8 bits, by which their elements are multiplied; of blocks, `left` has one for 128 elements of
// the depth, in an order of the library's (see ops/linear_fp8.cu), and `right` one for 128 by 128.
enum class Scales { none, of_tensors, of_blocks };

// output[rows, columns] = left[rows, depth] right[depth, columns] + bias[columns], `batches` times, all row-major. The
// bias is the same for all batches.
struct Product {
    DLDataType dtype;
    int64_t rows, columns, depth;
    bool left_transposed;  // stored as [depth, rows]
    bool right_transposed; // stored as [columns, depth]
    bool has_bias;         // of the output's dtype
    int64_t batches;
    DLDataType right_dtype = {}, output_dtype = {}; // dtype where they have no bits; of a single batch
    // Elements from one row to the next as stored, of a single batch; 0 without gaps.
    int64_t left_step = 0, output_step = 0;
    uint64_t most_workspace = ~uint64_t(0); // bytes, and no more than the library's
    Scales scales = Scales::none;

    DLDataType of_right() const { return right_dtype.bits != 0 ? right_dtype : dtype; }
    DLDataType of_output() const { return output_dtype.bits != 0 ? output_dtype : dtype; }
    bool has_output() const { return rows != 0 && columns != 0 && batches != 0; }
};

struct ProductPointers {
    const void *left, *right, *bias; // null without a bias
    void *output;
    bool adds = false; // to what the output holds; without a bias
    const void *left_scale = nullptr, *right_scale = nullptr;
};

// A product with the algorithms for it; constant, so that runs share it.
class ProductPlan {
  public:
    // OPDOCK_UNSUPPORTED where cuBLASLt has no algorithm. A product without output or depth needs none.
    static opdock::Status make(const CublasLt &library, const Product &product, std::unique_ptr<ProductPlan> &made);

    uint64_t workspace_size() const;
    opdock::Status run(const opdock::Call &call, const CublasLt &library, const ProductPointers &pointers) const;

  private:
    struct Algorithm {
        bool exists = false;
        cublasLtMatmulAlgo_t algorithm = {};
        uint64_t workspace = 0;
    };
    // What one call of cuBLASLt computes.
    struct Part {
        int64_t batches = 0;
        cublasLtMatrixLayoutOpaque_t left = {}, right = {}, output = {}, added = {}; // added: see adds_bias()
        Algorithm aligned; // where all pointers are aligned to 16 bytes
        Algorithm loose;   // where they are aligned to their elements only
    };

    explicit ProductPlan(const Product &product) : product_(product) {}
    opdock::Status fill(const CublasLt &library, int64_t batches, Part &part) const;
    opdock::Status choose(const CublasLt &library, Part &part, bool aligned, Algorithm &chosen) const;
    opdock::Status run_part(const opdock::Call &call, const CublasLt &library, const Part &part,
                            const ProductPointers &pointers) const;

    Product product_;
    int64_t whole_parts_ = 0; // runs of whole_, before that of rest_
    Part whole_, rest_;
};

} // namespace gpu
#else
#include "implementation.hpp"

namespace gpu {

inline opdock::Status no_products(DLDevice /*device*/) {
    return opdock::unsupported("no matrix products yet on ROCm");
}
inline opdock::Status no_product(const opdock::Call &call) {
    return no_products(call.device());
}

// An op that is made of products: it is listed, and says why it does not serve.
inline const Implementation without_products = {opdock::kernel<&no_product>, Knobs::none, nullptr, nullptr,
                                                opdock::available<&no_products>};

} // namespace gpu
#endif
