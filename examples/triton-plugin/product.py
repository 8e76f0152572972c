"""The third step: a product, tiled in two dimensions, with configs as @triton.autotune has them."""

import triton
import triton.language as tl


def _config(m, n, k, stages, warps):
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_stages=stages, num_warps=warps)


@triton.autotune(
    [
        _config(128, 128, 64, 3, 8),
        _config(128, 256, 64, 3, 8),
        _config(64, 64, 64, 4, 4),
        _config(32, 64, 64, 4, 4),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul(
    a,
    b,
    output,
    m,
    n,
    k,
    stride_a,
    stride_am,
    stride_ak,
    stride_b,
    stride_bk,
    stride_bn,
    stride_o,
    stride_om,
    stride_on,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    # Tiles are processed in groups of GROUP rows of tiles, so that the L2 cache keeps data for the next tile.
    tile = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = tile // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + tile % (GROUP * tiles_n) % rows
    tile_n = tile % (GROUP * tiles_n) // rows

    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # Rows and columns past the end are read again from the beginning, and not stored.
    row_read = (row % m).to(tl.int64)
    column_read = (column % n).to(tl.int64)
    a += batch * stride_a + row_read[:, None] * stride_am + inner[None, :] * stride_ak
    b += batch * stride_b + inner[:, None] * stride_bk + column_read[None, :] * stride_bn
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(a, (inner < k - start)[None, :], other=0)
        y = tl.load(b, (inner < k - start)[:, None], other=0)
        sums = tl.dot(x, y, sums)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    output += batch * stride_o + row.to(tl.int64)[:, None] * stride_om + column.to(tl.int64)[None, :] * stride_on
    tl.store(output, sums.to(output.dtype.element_ty), (row < m)[:, None] & (column < n)[None, :])
