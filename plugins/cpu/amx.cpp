#include "amx.hpp"

#if defined(__x86_64__)

#include <atomic>
#include <new>
#include <utility>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// gcc 12 reports the values that these intrinsics leave undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "hwy/aligned_allocator.h"

// Functions that may run only where amx_available() is true.
#define CPU_AMX [[gnu::target("amx-tile,amx-bf16,avx512f,avx512bw")]]

namespace cpu {
namespace {

using Bits = uint16_t; // of a bf16

// A tile holds 16 rows of 64 bytes: 32 elements of a factor, or 16 sums.
constexpr int64_t tile_rows = 16;
constexpr int64_t tile_depth = 32;
constexpr int64_t tile_elements = tile_rows * tile_depth;
// Two tiles of one factor and two of the other make four tiles of sums; together they fill the eight registers. A strip
// is the part of a factor that two tiles cover: 32 rows of x or of w.
constexpr int64_t strip_rows = 2 * tile_rows;

// At this depth a strip of w takes 32 KiB and stays in L1 while the strips of x go by.
constexpr int64_t chunk_depth = 512;
// The sums of this many rows, and a chunk of x, stay in L2.
constexpr int64_t panel_rows = 256;
// While a strip of w meets the strips of x of a panel, the next strip is prefetched: this many elements at each step.
constexpr int64_t fetched = 2 * tile_elements * strip_rows / panel_rows;
// w is laid out for at most this much of the depth at a time: 8 MiB at most.
constexpr int64_t most_depth = 4096;

constexpr int64_t divide_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

constexpr int64_t round_up(int64_t n, int64_t to) {
    return divide_up(n, to) * to;
}

// --- layout -------------------------------------------------------------------------------------------------------
//
// The tiles of a strip follow each other: the one or two tiles of the first 32 elements of the depth, then those of the
// next 32. A row of an x tile has 32 elements of the depth; the tile covers 16 rows of x. Row i of a w tile has
// elements 2 i and 2 i + 1 of the depth, for 16 rows of w. Missing elements at either end are 0.

// Returns zeros if there is no such row.
CPU_AMX inline __m512i load(const Bits *row, __mmask32 mask) {
    return row == nullptr ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(mask, row);
}

CPU_AMX inline __mmask32 first_elements(int64_t count) {
    return count >= 32 ? ~__mmask32(0) : (__mmask32(1) << count) - 1;
}

CPU_AMX inline void store(const __m512i (&rows)[16], Bits *to) {
    for (int i = 0; i < 16; ++i)
        _mm512_store_si512(to + i * tile_depth, rows[i]);
}

// Transposes 16 rows of 16 pairs.
CPU_AMX inline void transpose(__m512i (&rows)[16]) {
    __m512i other[16];
    for (int i = 0; i < 16; i += 2) {
        other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    // Within each group of four rows, rows[i] now gets pair i of each of the four lanes.
    for (int i = 0; i < 16; i += 4) {
        rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        other[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
        other[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
        other[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
        other[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        rows[i] = _mm512_shuffle_i32x4(other[i], other[i + 8], 0x88);
        rows[i + 8] = _mm512_shuffle_i32x4(other[i], other[i + 8], 0xdd);
        rows[i + 4] = _mm512_shuffle_i32x4(other[i + 4], other[i + 12], 0x88);
        rows[i + 12] = _mm512_shuffle_i32x4(other[i + 4], other[i + 12], 0xdd);
    }
}

// The rows of a factor from `begin` on: 16 or 32 pointers, null from `end` on.
template<size_t count>
void find_rows(const Rows &rows, int64_t begin, int64_t end, const Bits *(&found)[count]) {
    for (size_t i = 0; i < count; ++i) {
        const int64_t row = begin + static_cast<int64_t>(i);
        found[i] = row < end ? rows.row<const Bits>(row) : nullptr;
    }
}

// The part of a factor that is laid out: rows (columns if the sums run down) and a range of the depth.
struct Part {
    int64_t begin, end;
    int64_t first_depth, last_depth;

    int64_t rows() const { return end - begin; }
    int64_t tiles_deep() const { return divide_up(last_depth - first_depth, tile_depth); }
    int64_t strips() const { return divide_up(rows(), strip_rows); }
    // The last strip may need only one tile.
    int64_t tiles_of(int64_t strip) const { return rows() - strip * strip_rows > tile_rows ? 2 : 1; }
    int64_t strip_elements() const { return tiles_deep() * 2 * tile_elements; }
};

// Lays out rows whose elements run along the depth.
CPU_AMX void lay_out_along(const Rows &from, const Part &part, bool pairs, Bits *to) {
    for (int64_t strip = 0; strip < part.strips(); ++strip) {
        const int64_t tiles = part.tiles_of(strip);
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const Bits *source[tile_rows];
            find_rows(from, part.begin + strip * strip_rows + tile * tile_rows, part.end, source);
            Bits *target = to + strip * part.strip_elements() + tile * tile_elements;
            for (int64_t depth = part.first_depth; depth < part.last_depth; depth += tile_depth) {
                __m512i rows[tile_rows];
                for (int i = 0; i < tile_rows; ++i)
                    rows[i] = load(source[i] == nullptr ? nullptr : source[i] + depth,
                                   first_elements(part.last_depth - depth));
                if (pairs)
                    transpose(rows);
                store(rows, target);
                target += tiles * tile_elements;
            }
        }
    }
}

// Lays out rows that follow each other down the depth.
CPU_AMX void lay_out_down(const Rows &from, const Part &part, bool pairs, Bits *to) {
    // Interleaves elements 0 to 15, and 16 to 31, of two rows.
    const __m512i in_turn =
        _mm512_set_epi32(0x2f000f, 0x2e000e, 0x2d000d, 0x2c000c, 0x2b000b, 0x2a000a, 0x290009, 0x280008, 0x270007,
                         0x260006, 0x250005, 0x240004, 0x230003, 0x220002, 0x210001, 0x200000);
    const __m512i upper_in_turn = _mm512_add_epi16(in_turn, _mm512_set1_epi16(16));
    for (int64_t depth = part.first_depth; depth < part.last_depth; depth += tile_depth) {
        const Bits *source[tile_depth];
        find_rows(from, depth, part.last_depth, source);
        Bits *target = to + (depth - part.first_depth) * strip_rows;
        for (int64_t strip = 0; strip < part.strips(); ++strip) {
            const int64_t begin = part.begin + strip * strip_rows, tiles = part.tiles_of(strip);
            __m512i lower[16], upper[16];
            for (int i = 0; i < 16; ++i) {
                const Bits *even = source[size_t{2} * i], *odd = source[size_t{2} * i + 1];
                const __mmask32 mask = first_elements(part.end - begin);
                const __m512i a = load(even == nullptr ? nullptr : even + begin, mask);
                const __m512i b = load(odd == nullptr ? nullptr : odd + begin, mask);
                lower[i] = _mm512_permutex2var_epi16(a, in_turn, b);
                upper[i] = _mm512_permutex2var_epi16(a, upper_in_turn, b);
            }
            if (!pairs) {
                transpose(lower);
                transpose(upper);
            }
            Bits *tile = target;
            if (tiles == 1)
                tile = to + strip * part.strip_elements() + (depth - part.first_depth) * tile_rows;
            store(lower, tile);
            if (tiles == 2)
                store(upper, tile + tile_elements);
            target += part.strip_elements();
        }
    }
}

// Lays out a part as tiles of w, in pairs, or as tiles of x.
void lay_out(const Factor &factor, const Part &part, bool pairs, Bits *to) {
    if (factor.down)
        lay_out_down(factor.rows, part, pairs, to);
    else
        lay_out_along(factor.rows, part, pairs, to);
}

// --- multiplication -----------------------------------------------------------------------------------------------

struct alignas(64) TileConfiguration {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Configures the tiles and releases them: for a thread that holds them, each context switch costs another 8 KiB.
class Tiles {
  public:
    CPU_AMX Tiles() {
        static constexpr TileConfiguration configuration;
        _tile_loadconfig(&configuration);
    }
    CPU_AMX ~Tiles() { _tile_release(); }
    Tiles(const Tiles &) = delete;
    Tiles &operator=(const Tiles &) = delete;
};

// Computes x_tiles x w_tiles tiles of sums, adding to them if `add`, and prefetches the memory at `ahead`.
template<int x_tiles, int w_tiles>
CPU_AMX void multiply_strips(const Bits *x, const Bits *w, int64_t tiles_deep, bool add, float *sums, int64_t step,
                             const Bits *ahead) {
    const int64_t step_bytes = step * int64_t(sizeof(float));
    float *lower_sums = sums + tile_rows * step;
    // gcc does not know which memory a tile load reads.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (add) {
        _tile_loadd(0, sums, step_bytes);
        if constexpr (w_tiles == 2)
            _tile_loadd(1, sums + tile_rows, step_bytes);
        if constexpr (x_tiles == 2)
            _tile_loadd(2, lower_sums, step_bytes);
        if constexpr (x_tiles == 2 && w_tiles == 2)
            _tile_loadd(3, lower_sums + tile_rows, step_bytes);
    }
    for (int64_t i = 0; i < tiles_deep; ++i) {
        _tile_loadd(4, x, 64);
        _tile_loadd(6, w, 64);
        for (int64_t line = 0; line < fetched; line += tile_depth)
            _mm_prefetch(reinterpret_cast<const char *>(ahead + line), _MM_HINT_T1);
        if constexpr (w_tiles == 2)
            _tile_loadd(7, w + tile_elements, 64);
        if constexpr (x_tiles == 2)
            _tile_loadd(5, x + tile_elements, 64);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (w_tiles == 2)
            _tile_dpbf16ps(1, 4, 7);
        if constexpr (x_tiles == 2)
            _tile_dpbf16ps(2, 5, 6);
        if constexpr (x_tiles == 2 && w_tiles == 2)
            _tile_dpbf16ps(3, 5, 7);
        x += x_tiles * tile_elements;
        w += w_tiles * tile_elements;
        ahead += fetched;
    }
    _tile_stored(0, sums, step_bytes);
    if constexpr (w_tiles == 2)
        _tile_stored(1, sums + tile_rows, step_bytes);
    if constexpr (x_tiles == 2)
        _tile_stored(2, lower_sums, step_bytes);
    if constexpr (x_tiles == 2 && w_tiles == 2)
        _tile_stored(3, lower_sums + tile_rows, step_bytes);
}

// Multiplies all strips of x with all strips of w.
CPU_AMX void multiply_parts(const Part &x_part, const Bits *x, const Part &w_part, const Bits *w, bool add, float *sums,
                            int64_t step) {
    static constexpr decltype(&multiply_strips<1, 1>) multiply[2][2] = {{multiply_strips<1, 1>, multiply_strips<1, 2>},
                                                                        {multiply_strips<2, 1>, multiply_strips<2, 2>}};
    const Tiles tiles;
    const int64_t tiles_deep = x_part.tiles_deep();
    for (int64_t j = 0; j < w_part.strips(); ++j) {
        const Bits *strip_of_w = w + j * w_part.strip_elements();
        const Bits *next_of_w = j + 1 < w_part.strips() ? strip_of_w + w_part.strip_elements() : strip_of_w;
        for (int64_t i = 0; i < x_part.strips(); ++i) {
            const Bits *strip_of_x = x + i * x_part.strip_elements();
            const Bits *ahead = next_of_w + i * tiles_deep * fetched;
            multiply[x_part.tiles_of(i) - 1][w_part.tiles_of(j) - 1](
                strip_of_x, strip_of_w, tiles_deep, add, sums + i * strip_rows * step + j * strip_rows, step, ahead);
        }
    }
}

template<class T>
hwy::AlignedFreeUniquePtr<T[]> allocate(int64_t count) {
    auto memory = hwy::AllocateAligned<T>(static_cast<size_t>(count));
    return memory ? std::move(memory) : throw std::bad_alloc();
}

bool ask_for_tiles() {
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    constexpr unsigned bf16_tiles = 1u << 22, tiles = 1u << 24;
    if ((d & bf16_tiles) == 0 || (d & tiles) == 0)
        return false;
    // A process has to request the tiles before it uses them. Linux refuses if a thread's signal stack is too small.
    constexpr int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

} // namespace

bool amx_available() {
    static const bool available = ask_for_tiles();
    return available;
}

void multiply_in_tiles(const Product &a, const Block &block, FinishRow finish) {
    const int64_t rows = block.last_row - block.first_row, columns = block.last_column - block.first_column;
    const int64_t panel = std::min(panel_rows, round_up(rows, strip_rows));
    // All chunks have the same length, except for the last one. If the depth is 0, there is one empty chunk.
    const int64_t fewest = std::max<int64_t>(1, divide_up(a.depth, chunk_depth));
    const int64_t chunk = std::max(tile_depth, round_up(divide_up(a.depth, fewest), tile_depth));
    const int64_t chunks = std::max<int64_t>(1, divide_up(a.depth, chunk));
    const int64_t chunks_at_a_time = std::min(chunks, most_depth / chunk_depth);
    const bool at_once = chunks == chunks_at_a_time;
    // The padding keeps rows of sums from all starting in the same few lines of L1.
    const int64_t step = round_up(columns, strip_rows) + tile_rows;
    const auto sums = allocate<float>((at_once ? panel : round_up(rows, strip_rows)) * step);
    const auto x = allocate<Bits>(panel * chunk);
    const int64_t w_chunk = round_up(columns, strip_rows) * chunk;
    const auto w = allocate<Bits>(chunks_at_a_time * w_chunk);

    for (int64_t first_chunk = 0; first_chunk < chunks; first_chunk += chunks_at_a_time) {
        const int64_t last_chunk = std::min(chunks, first_chunk + chunks_at_a_time);
        for (int64_t row = 0; row < rows; row += panel) {
            const int64_t count = std::min(panel, rows - row);
            float *sums_of_panel = sums.get() + (at_once ? 0 : row * step);
            for (int64_t i = first_chunk; i < last_chunk; ++i) {
                const int64_t begin = i * chunk, end = std::min(a.depth, begin + chunk);
                const Part x_part = {block.first_row + row, block.first_row + row + count, begin, end};
                const Part w_part = {block.first_column, block.last_column, begin, end};
                Bits *w_here = w.get() + (i - first_chunk) * w_chunk;
                if (row == 0)
                    lay_out(a.w, w_part, true, w_here);
                lay_out(a.x, x_part, false, x.get());
                multiply_parts(x_part, x.get(), w_part, w_here, i > 0, sums_of_panel, step);
            }
            if (last_chunk == chunks) {
                for (int64_t m = 0; m < count; ++m)
                    finish(a, block.first_row + row + m, block.first_column, static_cast<size_t>(columns),
                           sums_of_panel + m * step);
            }
        }
    }
}

} // namespace cpu

#else

namespace cpu {

bool amx_available() {
    return false;
}

void multiply_in_tiles(const Product &, const Block &, FinishRow) {}

} // namespace cpu

#endif
