/* Element types: DLPack's DLDataType, and the codes that DLPack 0.6 lacks, with the values later DLPack gives them.
 *
 * Signatures name them f32 f16 bf16 e4m3 e5m2 i64 i32 u8 bool. e4m3 is OCP's FN form (no infinities, 448 is the largest
 * value).
 *
 * Since ABI 0.1. */
#ifndef OPDOCK_ABI_DTYPE_H
#define OPDOCK_ABI_DTYPE_H

#include <stdint.h>

#include <dlpack/dlpack.h>

/* Their names as messages list them. */
#define OPDOCK_DTYPE_NAMES "f32, f16, bf16, e4m3, e5m2, i64, i32, u8 or bool"

#define OPDOCK_DL_BOOL 6
#define OPDOCK_DL_FLOAT8_E4M3FN 10
#define OPDOCK_DL_FLOAT8_E5M2 12

/* A DLDataType of one lane as one number, as `dtype` attributes carry it: code, bits and lanes in the order of their
 * bytes in memory on a little-endian machine. */
#define OPDOCK_DTYPE(code, bits) ((uint32_t)(code) | ((uint32_t)(bits) << 8) | (1u << 16))

#define OPDOCK_F32 OPDOCK_DTYPE(kDLFloat, 32)
#define OPDOCK_F16 OPDOCK_DTYPE(kDLFloat, 16)
#define OPDOCK_BF16 OPDOCK_DTYPE(kDLBfloat, 16)
#define OPDOCK_E4M3 OPDOCK_DTYPE(OPDOCK_DL_FLOAT8_E4M3FN, 8)
#define OPDOCK_E5M2 OPDOCK_DTYPE(OPDOCK_DL_FLOAT8_E5M2, 8)
#define OPDOCK_I64 OPDOCK_DTYPE(kDLInt, 64)
#define OPDOCK_I32 OPDOCK_DTYPE(kDLInt, 32)
#define OPDOCK_U8 OPDOCK_DTYPE(kDLUInt, 8)
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
