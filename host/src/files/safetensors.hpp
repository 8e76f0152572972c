// Writer of .safetensors: a 64-bit header size, a JSON header {name: {"dtype", "shape", "data_offsets": [begin, end]}},
// and contiguous data, to which these offsets refer (https://github.com/huggingface/safetensors).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/abi/dtype.h"

namespace opdock::core {

struct SafetensorsType {
    std::string_view text;
    uint32_t dtype; // packed
};
inline constexpr std::array<SafetensorsType, 16> safetensors_types = {{{"F64", OPDOCK_F64},
                                                                       {"F32", OPDOCK_F32},
                                                                       {"F16", OPDOCK_F16},
                                                                       {"BF16", OPDOCK_BF16},
                                                                       {"F8_E4M3", OPDOCK_E4M3},
                                                                       {"F8_E5M2", OPDOCK_E5M2},
                                                                       {"F8_E8M0", OPDOCK_E8M0},
                                                                       {"I64", OPDOCK_I64},
                                                                       {"I32", OPDOCK_I32},
                                                                       {"I16", OPDOCK_I16},
                                                                       {"I8", OPDOCK_I8},
                                                                       {"U64", OPDOCK_U64},
                                                                       {"U32", OPDOCK_U32},
                                                                       {"U16", OPDOCK_U16},
                                                                       {"U8", OPDOCK_U8},
                                                                       {"BOOL", OPDOCK_BOOL}}};

// The header key that is not a tensor: it maps names to texts.
inline constexpr std::string_view safetensors_metadata = "__metadata__";

// A tensor to be written. Borrows its elements: row-major contiguous, little-endian, with the number of bytes that the
// shape requires.
struct SafetensorsTensor {
    std::string name;
    uint32_t dtype; // packed
    std::vector<int64_t> shape;
    std::string_view bytes;
};

// A file consists of the header followed by the pieces, which are the bytes of the tensors.
struct SafetensorsFile {
    std::string header;
    std::vector<std::string_view> pieces;
};

// Throws Error(OPDOCK_INVALID_ARGUMENT) for a dtype that the format lacks, and for a name that is repeated, equals the
// metadata key or is not UTF-8.
SafetensorsFile safetensors_file(std::span<const SafetensorsTensor> tensors,
                                 const std::map<std::string, std::string> &metadata = {});

} // namespace opdock::core
