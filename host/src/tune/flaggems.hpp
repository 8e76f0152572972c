// FlagGems' tune_configs.yaml: a list of configs for each op, or lists that generate them.
//
//     mm:                                  softmax:
//       - META: {BLOCK_M: 64}                - gen: true
//         num_warps: 4                         param_map: {META: {TILE_N: tile_n}, num_warps: warps}
//                                              tile_n: [1024, 2048]
//                                              warps: [4, 8]
//
// An *_expand.yaml has another list of values, from which FlagGems itself builds configs, and a strategy for keys:
//
//     bmm:
//       - config:
//         param_map: {META: {BLOCK_M: block_m}, num_stages: stages, num_warps: warps}
//         block_m: [16, 32]
//         ...
//       - strategy: {M: align32, N: default, K: log}
//
// They become a product and a key. In an entry, num_stages, num_warps, num_ctas and num_ldmatrixes default
// to 2, 4, 1 and 0. Knobs have the names of META's fields and of the launch options. In param_map a source
// is the name of a list, a list, or one value; a META that is not a map names a list of whole METAs.
// Triton launches with num_stages, num_warps and num_ctas of the entry itself; those in META are ignored.
#pragma once

#include "text/bounded_yaml.hpp"
#include "tune/tune_file.hpp"

namespace opdock::core {

// Reads a top-level map without a schema.
void read_flaggems(const YamlNode &root, TuneFile &into);

} // namespace opdock::core
