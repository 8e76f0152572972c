// Tensors in files: NumPy's .npy (one tensor, no bf16) and .safetensors (many, named).
//
// Files are not trusted. Every header is bounded, every size is checked against the file before memory is taken, and a
// file that is malformed, truncated or longer than its header says is an Error whose message starts with the path.
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
    std::string name; // "" when it came from a .npy file
    std::uint32_t dtype = OPDOCK_F32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
};

// Bytes of one of the dtypes that signatures can name; 0 for any other.
std::size_t element_size(std::uint32_t dtype);
std::string_view dtype_name(std::uint32_t dtype); // "unknown" for any other

// Bytes of a tensor; throws when a dim is negative, the dtype unknown or the product does not fit.
std::uint64_t byte_size(std::uint32_t dtype, std::span<const std::int64_t> shape);

// Fortran order is turned into row-major. Big-endian, structured and object arrays are errors, as are bf16, fp8 and
// e8m0, which .npy cannot name: keep those in .safetensors.
TensorData read_npy(const std::filesystem::path &path);
void write_npy(const std::filesystem::path &path, const TensorData &tensor);

// What a file of tensors holds, for who writes it in another way: a header, and then pieces, which are the bytes of the
// tensors. `path` is for messages.
struct FileContent {
    std::string header;
    std::vector<std::string_view> pieces;
};
FileContent npy_content(const std::filesystem::path &path, const TensorData &tensor);
FileContent safetensors_content(const std::filesystem::path &path, std::span<const TensorData> tensors);

// All tensors, in the order they lie in the file.
std::vector<TensorData> read_safetensors(const std::filesystem::path &path);
// One of them; the error for a missing name lists the names there are.
TensorData read_safetensors(const std::filesystem::path &path, std::string_view name);
void write_safetensors(const std::filesystem::path &path, std::span<const TensorData> tensors);

} // namespace opdock::files
