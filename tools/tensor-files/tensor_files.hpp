// Tensors in files: NumPy's .npy (one tensor, no bf16) and .safetensors (many, named).
//
// Files are not trusted: headers are bounded, and sizes are checked against the file before memory is allocated. A file
// that is malformed, truncated or longer than its header says is an Error whose message starts with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/abi/dtype.h"

namespace opdock::files {

class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A tensor that owns its elements: row-major without gaps, little-endian.
struct TensorData {
    std::string name; // "" from a .npy file
    std::uint32_t dtype = OPDOCK_F32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
};

// Bytes of one of the dtypes that signatures can name; 0 for any other.
std::size_t element_size(std::uint32_t dtype);
std::string_view dtype_name(std::uint32_t dtype); // "unknown" for any other

// Bytes of a tensor; throws if a dim is negative, the dtype unknown or the product overflows.
std::uint64_t byte_size(std::uint32_t dtype, std::span<const std::int64_t> shape);

// Column-major arrays become row-major. Big-endian, structured and object arrays are errors, as are bf16, fp8 and e8m0,
// which .npy cannot name: use .safetensors for those.
TensorData read_npy(const std::filesystem::path &path);
void write_npy(const std::filesystem::path &path, const TensorData &tensor);

// The content of a file of tensors, for other writers: a header, followed by pieces, which are the bytes of the
// tensors. `path` is for messages.
struct FileContent {
    std::string header;
    std::vector<std::string_view> pieces;
};
FileContent npy_content(const std::filesystem::path &path, const TensorData &tensor);
FileContent safetensors_content(const std::filesystem::path &path, std::span<const TensorData> tensors);

// All tensors, in the order of the file.
std::vector<TensorData> read_safetensors(const std::filesystem::path &path);
// One tensor; the error for a missing name lists the existing names.
TensorData read_safetensors(const std::filesystem::path &path, std::string_view name);
void write_safetensors(const std::filesystem::path &path, std::span<const TensorData> tensors);

} // namespace opdock::files
