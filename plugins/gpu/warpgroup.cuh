// NVIDIA's compute capability 9.0 instructions for products of 16-bit numbers: groups of four warps that
// multiply tiles in shared memory (wgmma), and asynchronous copies of tiles that signal a barrier (TMA).
//
// A tile is a box of 64 x 64 elements: rows of 128 bytes, whose 16-byte chunks are permuted by the row number,
// so that a box is aligned to 1,024 bytes. Rows run along the depth of the product, or, if `down`, across it.
//
// Sources that include this file are also compiled for sm_90a (CMakeLists.txt), with GPU_WARPGROUPS defined;
// for other devices there is no code.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numbers.cuh"

#if defined(GPU_WARPGROUPS) && !defined(__HIP__)

#include <cuda.h>

namespace gpu {

constexpr int box_side = 64;
constexpr int box_bytes = box_side * box_side * 2;

// --- host code -------------------------------------------------------------------------------------------------------

// Describes a contiguous f16 or bf16 tensor of `depth` matrices, from which boxes are copied; 0 outside of each matrix.
// Fails if the device's driver cannot do that: row sizes and the address must be multiples of 16 bytes.
inline cudaError_t describe_boxes(CUtensorMap &map, bool is_bf16, const void *data, int64_t columns, int64_t rows,
                                  int64_t depth) {
    static const auto encode = [] {
        void *found = nullptr;
        cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
        const cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
        const bool is_there = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
        return is_there ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found) : nullptr;
    }();
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows),
                                static_cast<cuuint64_t>(depth)};
    const cuuint64_t steps[] = {sizes[0] * 2, sizes[0] * sizes[1] * 2}; // in bytes
    const cuuint32_t box[] = {box_side, box_side, 1}, every[] = {1, 1, 1};
    if (encode == nullptr ||
        encode(&map, is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
               const_cast<void *>(data), sizes, steps, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
        return cudaErrorNotSupported;
    }
    return cudaSuccess;
}

// --- device code -----------------------------------------------------------------------------------------------------

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ uint32_t address_of(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// A barrier in shared memory. A phase ends after that many arrivals, once all expected bytes have arrived.
__device__ __forceinline__ void make_barrier(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(arrivals) : "memory");
}
// Called by the thread that made the barriers, before other threads use them.
__device__ __forceinline__ void show_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}
__device__ __forceinline__ void arrive_expecting(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)), "r"(bytes)
                 : "memory");
}
// Waits until the phase of the given parity has ended.
__device__ __forceinline__ void wait_for(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n\t.reg .pred done;\n"
                 "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}" ::"r"(address_of(barrier)),
                 "r"(parity)
                 : "memory");
}
// Makes ordinary writes to shared memory visible to wgmma and TMA, once the writers pass a barrier after this call.
__device__ __forceinline__ void show_to_warpgroups() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Starts to copy a box, beginning at the given column, row and matrix.
__device__ __forceinline__ void copy_box(void *shared, const CUtensorMap &from, int column, int row, int matrix,
                                         uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
                 "%4}], [%5];" ::"r"(address_of(shared)),
                 "l"(&from), "r"(column), "r"(row), "r"(matrix), "r"(address_of(barrier))
                 : "memory");
}
__device__ __forceinline__ void fetch_description(const CUtensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Starts to write a box, after show_to_warpgroups(). Elements outside of the matrix are left out.
__device__ __forceinline__ void write_box(const CUtensorMap &to, int column, int row, int matrix, const void *shared) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&to),
                 "r"(column), "r"(row), "r"(matrix), "r"(address_of(shared))
                 : "memory");
}
// Makes a group of the writes that this thread started since the last call.
__device__ __forceinline__ void end_group_of_writes() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all but the `last` most recent groups of this thread have read shared memory.
template<int last>
__device__ __forceinline__ void wait_for_writes_but() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(last) : "memory");
}

// Descriptor of adjacent boxes for wgmma: eight rows take 1,024 bytes; if `down`, the next 64 elements along a row are
// in the next box. `+ depth_step<down>` advances 16 elements along the depth.
template<bool down>
__device__ __forceinline__ uint64_t operand(const void *boxes) {
    const uint64_t next = down ? box_bytes / 16 : 1;
    return (address_of(boxes) & 0x3ffff) >> 4 | next << 16 | uint64_t(1024 / 16) << 32 | uint64_t(1) << 62;
}
template<bool down>
constexpr int depth_step = (down ? 16 * 128 : 32) / 16;

// Between begin_products() and the wait, products are in flight and nothing else may access the sums.
__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_group_of_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template<int last>
__device__ __forceinline__ void wait_for_products_but() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(last) : "memory");
}
// Keeps the compiler from moving accesses to sums across it.
template<int count>
__device__ __forceinline__ void hold(float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(sums[i])::"memory");
    }
}

#define GPU_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GPU_NAMES_2                                                                                                    \
    GPU_NAMES_1 ", "                                                                                                   \
                "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GPU_NAMES_3                                                                                                    \
    GPU_NAMES_2 ", "                                                                                                   \
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define GPU_NAMES_4                                                                                                    \
    GPU_NAMES_3 ", "                                                                                                   \
                "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GPU_NAMES_5                                                                                                    \
    GPU_NAMES_4 ", "                                                                                                   \
                "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define GPU_NAMES_6                                                                                                    \
    GPU_NAMES_5 ", "                                                                                                   \
                "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GPU_NAMES_7                                                                                                    \
    GPU_NAMES_6 ", "                                                                                                   \
                "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define GPU_NAMES_8                                                                                                    \
    GPU_NAMES_7 ", "                                                                                                   \
                "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GPU_SIXTEEN(i)                                                                                                 \
    "+f"(sums[i + 0]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]),  \
        "+f"(sums[i + 6]), "+f"(sums[i + 7]), "+f"(sums[i + 8]), "+f"(sums[i + 9]), "+f"(sums[i + 10]),                \
        "+f"(sums[i + 11]), "+f"(sums[i + 12]), "+f"(sums[i + 13]), "+f"(sums[i + 14]), "+f"(sums[i + 15])
#define GPU_SUMS_1 GPU_SIXTEEN(0)
#define GPU_SUMS_2 GPU_SUMS_1, GPU_SIXTEEN(16)
#define GPU_SUMS_3 GPU_SUMS_2, GPU_SIXTEEN(32)
#define GPU_SUMS_4 GPU_SUMS_3, GPU_SIXTEEN(48)
#define GPU_SUMS_5 GPU_SUMS_4, GPU_SIXTEEN(64)
#define GPU_SUMS_6 GPU_SUMS_5, GPU_SIXTEEN(80)
#define GPU_SUMS_7 GPU_SUMS_6, GPU_SIXTEEN(96)
#define GPU_SUMS_8 GPU_SUMS_7, GPU_SIXTEEN(112)
#define GPU_PRODUCT(type, units, columns, downs)                                                                       \
    "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" GPU_NAMES_##units                        \
        "}, a, b, 1, 1, 1, " downs ";\n\t"
#define GPU_FURTHER(a_step, b_step) "add.s64 a, a, " a_step ";\n\tadd.s64 b, b, " b_step ";\n\t"
#define GPU_PRODUCTS_OF(type, units, columns, of_a, of_b, a_step, b_step, downs)                                       \
    asm volatile("{\n\t.reg .b64 a, b;\n\tmov.b64 a, " of_a ";\n\tmov.b64 b, " of_b                                    \
                 ";\n\t" GPU_PRODUCT(type, units, columns, downs) GPU_FURTHER(a_step, b_step)                          \
                     GPU_PRODUCT(type, units, columns, downs) GPU_FURTHER(a_step, b_step)                              \
                         GPU_PRODUCT(type, units, columns, downs) GPU_FURTHER(a_step, b_step)                          \
                             GPU_PRODUCT(type, units, columns, downs) "}"                                              \
                 : GPU_SUMS_##units                                                                                    \
                 : "l"(a), "l"(b), "n"(depth_step<a_down>), "n"(depth_step<b_down>), "n"(a_down ? 1 : 0),              \
                   "n"(b_down ? 1 : 0))
#define GPU_PRODUCTS(...)                                                                                              \
    if constexpr (std::is_same_v<T, bf16>) {                                                                           \
        GPU_PRODUCTS_OF("bf16", __VA_ARGS__);                                                                          \
    } else {                                                                                                           \
        GPU_PRODUCTS_OF("f16", __VA_ARGS__);                                                                           \
    }

// The first 16 `units` of sums += 64 x 64 times 64 x 32 `units`. Of every 8 columns a thread has two adjacent ones, in
// row lane / 4 of its warp's 16 rows and in the row 8 further on.
template<class T, bool a_down, bool b_down, int units>
__device__ __forceinline__ void multiply(float (&sums)[128], uint64_t a, uint64_t b) {
    static_assert(1 <= units && units <= 8);
    if constexpr (units == 1) {
        GPU_PRODUCTS(1, "32", "%16", "%17", "%18", "%19", "%20, %21");
    } else if constexpr (units == 2) {
        GPU_PRODUCTS(2, "64", "%32", "%33", "%34", "%35", "%36, %37");
    } else if constexpr (units == 3) {
        GPU_PRODUCTS(3, "96", "%48", "%49", "%50", "%51", "%52, %53");
    } else if constexpr (units == 4) {
        GPU_PRODUCTS(4, "128", "%64", "%65", "%66", "%67", "%68, %69");
    } else if constexpr (units == 5) {
        GPU_PRODUCTS(5, "160", "%80", "%81", "%82", "%83", "%84, %85");
    } else if constexpr (units == 6) {
        GPU_PRODUCTS(6, "192", "%96", "%97", "%98", "%99", "%100, %101");
    } else if constexpr (units == 7) {
        GPU_PRODUCTS(7, "224", "%112", "%113", "%114", "%115", "%116, %117");
    } else if constexpr (units == 8) {
        GPU_PRODUCTS(8, "256", "%128", "%129", "%130", "%131", "%132, %133");
    }
}
#undef GPU_PRODUCTS
#undef GPU_PRODUCTS_OF
#undef GPU_FURTHER
#undef GPU_PRODUCT
#undef GPU_SIXTEEN
#undef GPU_NAMES_1
#undef GPU_SUMS_1
#undef GPU_NAMES_2
#undef GPU_SUMS_2
#undef GPU_NAMES_3
#undef GPU_SUMS_3
#undef GPU_NAMES_4
#undef GPU_SUMS_4
#undef GPU_NAMES_5
#undef GPU_SUMS_5
#undef GPU_NAMES_6
#undef GPU_SUMS_6
#undef GPU_NAMES_7
#undef GPU_SUMS_7
#undef GPU_NAMES_8
#undef GPU_SUMS_8

#endif

} // namespace gpu

#endif
