/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: DLPack's DLDataType, with the codes that DLPack 0.6 lacks, at the values of later DLPack versions.
 *
 * Signatures name them as below. e4m3 is OCP's FN form (no infinities, the largest value is 448). e8m0 is OCP's block
 * scale, 2^(byte - 127), where 255 is NaN. e2m1x2, i4x2 and u4x2 are pairs: DLPack's 4-bit types with two lanes, like
 * torch's float4_e2m1fn_x2. A pair is one element of one byte, with its first value in the low four bits, so dims and
 * strides count pairs and a kernel reads them as uint8_t. e2m1 is OCP's (no infinities or NaNs, the largest value is
 * 6).
 *
 * Since ABI 1.0. */
#ifndef OPDOCK_ABI_DTYPE_H
#define OPDOCK_ABI_DTYPE_H

#include <stdint.h>

#include <dlpack/dlpack.h>

/* Their names, as listed in messages. */
#define OPDOCK_DTYPE_NAMES                                                                                             \
    "f64, f32, f16, bf16, e4m3, e5m2, e8m0, e2m1x2, i64, i32, i16, i8, i4x2, u64, u32, "                               \
    "u16, u8, u4x2 or bool"

#define OPDOCK_DL_BOOL 6
#define OPDOCK_DL_FLOAT8_E4M3FN 10
#define OPDOCK_DL_FLOAT8_E5M2 12
#define OPDOCK_DL_FLOAT8_E8M0FNU 14
#define OPDOCK_DL_FLOAT4_E2M1FN 17

/* A DLDataType packed into one number for `dtype` attributes: code, bits and lanes in the order of their bytes in
 * memory on a little-endian machine. The macros pack a type with one lane, and a pair of 4 bits each. */
#define OPDOCK_DTYPE(code, bits) ((uint32_t)(code) | ((uint32_t)(bits) << 8) | (1u << 16))
#define OPDOCK_DTYPE_4X2(code) ((uint32_t)(code) | (4u << 8) | (2u << 16))

#define OPDOCK_F64 OPDOCK_DTYPE(kDLFloat, 64)
#define OPDOCK_F32 OPDOCK_DTYPE(kDLFloat, 32)
#define OPDOCK_F16 OPDOCK_DTYPE(kDLFloat, 16)
#define OPDOCK_BF16 OPDOCK_DTYPE(kDLBfloat, 16)
#define OPDOCK_E4M3 OPDOCK_DTYPE(OPDOCK_DL_FLOAT8_E4M3FN, 8)
#define OPDOCK_E5M2 OPDOCK_DTYPE(OPDOCK_DL_FLOAT8_E5M2, 8)
#define OPDOCK_E8M0 OPDOCK_DTYPE(OPDOCK_DL_FLOAT8_E8M0FNU, 8)
#define OPDOCK_E2M1X2 OPDOCK_DTYPE_4X2(OPDOCK_DL_FLOAT4_E2M1FN)
#define OPDOCK_I64 OPDOCK_DTYPE(kDLInt, 64)
#define OPDOCK_I32 OPDOCK_DTYPE(kDLInt, 32)
#define OPDOCK_I16 OPDOCK_DTYPE(kDLInt, 16)
#define OPDOCK_I8 OPDOCK_DTYPE(kDLInt, 8)
#define OPDOCK_I4X2 OPDOCK_DTYPE_4X2(kDLInt)
#define OPDOCK_U64 OPDOCK_DTYPE(kDLUInt, 64)
#define OPDOCK_U32 OPDOCK_DTYPE(kDLUInt, 32)
#define OPDOCK_U16 OPDOCK_DTYPE(kDLUInt, 16)
#define OPDOCK_U8 OPDOCK_DTYPE(kDLUInt, 8)
#define OPDOCK_U4X2 OPDOCK_DTYPE_4X2(kDLUInt)
#define OPDOCK_BOOL OPDOCK_DTYPE(OPDOCK_DL_BOOL, 8)

static inline uint32_t opdock_dtype_pack(DLDataType type) {
    return (uint32_t)type.code | ((uint32_t)type.bits << 8) | ((uint32_t)type.lanes << 16);
}

static inline DLDataType opdock_dtype_unpack(uint32_t packed) {
    DLDataType type;
    type.code = (uint8_t)(packed & 0xffu);
    type.bits = (uint8_t)((packed >> 8) & 0xffu);
    type.lanes = (uint16_t)(packed >> 16);
    return type;
}

#endif
