/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor and element helpers for kernels in C; C++ has more in opdock/cpp/tensor_view.hpp and floats.hpp. */
#ifndef OPDOCK_TENSOR_H
#define OPDOCK_TENSOR_H

#include <stdint.h>
#include <string.h>

#include <dlpack/dlpack.h>

/* 1 for a scalar, 0 if a dimension has size 0. */
static inline int64_t opdock_n_elements(const DLTensor *tensor) {
    int64_t count = 1;
    int32_t d;
    for (d = 0; d < tensor->ndim; ++d)
        count *= tensor->shape[d];
    return count;
}

/* The offset in elements of the `i`-th element in row-major order: data[opdock_offset(tensor, i)]. `i` is below
 * opdock_n_elements, strides are not null. Divides once per dimension: for a long last dimension call it once per row,
 * and advance by tensor->strides[tensor->ndim - 1]. */
static inline int64_t opdock_offset(const DLTensor *tensor, int64_t i) {
    int64_t offset = 0;
    int32_t d;
    for (d = tensor->ndim - 1; d >= 0; --d) {
        offset += i % tensor->shape[d] * tensor->strides[d];
        i /= tensor->shape[d];
    }
    return offset;
}

/* bf16 is the upper half of an f32. */
static inline float opdock_bf16_to_float(uint16_t bf16) {
    const uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even; values past the range become infinities, NaNs stay NaNs (quiet), with their sign. */
static inline uint16_t opdock_float_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
