// FlagGems' tune_configs.yaml: a list of configs for each op, or what they are generated from.
//
//     mm:                                  softmax:
//       - META: {BLOCK_M: 64}                - gen: true
//         num_warps: 4                         param_map: {META: {TILE_N: tile_n}, num_warps: warps}
//                                              tile_n: [1024, 2048]
//                                              warps: [4, 8]
//
// An *_expand.yaml has another list of values, of what FlagGems itself builds configs, and what tells calls apart:
//
//     bmm:
//       - config:
//         param_map: {META: {BLOCK_M: block_m}, num_stages: stages, num_warps: warps}
//         block_m: [16, 32]
//         ...
//       - strategy: {M: align32, N: default, K: log}
//
// They become a product and a key. What an entry does not say of num_stages, num_warps, num_ctas and num_ldmatrixes is
// 2, 4, 1 and 0. The names of META's fields and of the launch options are those of the knobs. In param_map a source is
// the name of a list, a list, or one value; a META that is no map names a list of whole METAs. Triton launches with
// num_stages, num_warps and num_ctas of the entry: in META they do not count.
#pragma once

#include "text/bounded_yaml.hpp"
#include "tune/tune_file.hpp"

namespace opdock::core {

// Of a top-level map without a schema.
void read_flaggems(const YamlNode &root, TuneFile &into);

} // namespace opdock::core
