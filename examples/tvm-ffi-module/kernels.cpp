// A tvm-ffi module as its users write it: two functions that receive their outputs as tensors.
#include <cmath>

#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

static const float *row_of(ffi::TensorView tensor, int64_t row) {
    return static_cast<const float *>(tensor.data_ptr()) + row * tensor.size(tensor.ndim() - 1);
}

// output = input / (1 + exp(-input)), elementwise
void silu(ffi::TensorView output, ffi::TensorView input) {
    const auto *x = static_cast<const float *>(input.data_ptr());
    auto *y = static_cast<float *>(output.data_ptr());
    for (int64_t i = 0; i < input.numel(); ++i)
        y[i] = x[i] / (1 + std::exp(-x[i]));
}

// output = input / sqrt(mean(input^2) + eps) * weight, for each row
void rmsnorm(ffi::TensorView output, ffi::TensorView input, ffi::TensorView weight, double eps) {
    if (input.ndim() != 2)
        TVM_FFI_THROW(ValueError) << "rmsnorm takes a matrix, and the input has " << input.ndim() << " dims";
    const int64_t n = input.size(1);
    const float *w = row_of(weight, 0);
    for (int64_t row = 0; row < input.size(0); ++row) {
        const float *x = row_of(input, row);
        float *y = static_cast<float *>(output.data_ptr()) + row * n;
        double sum = 0;
        for (int64_t i = 0; i < n; ++i)
            sum += static_cast<double>(x[i]) * x[i];
        const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
        for (int64_t i = 0; i < n; ++i)
            y[i] = static_cast<float>(x[i] * scale * w[i]);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu, silu)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rmsnorm, rmsnorm)
