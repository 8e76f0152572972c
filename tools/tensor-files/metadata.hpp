// Named texts in the header of .safetensors that are not tensors.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "tensor_files.hpp"

namespace opdock::files {

using Metadata = std::map<std::string, std::string>;

// Empty if there are none.
Metadata read_safetensors_metadata(const std::filesystem::path &path);
void write_safetensors(const std::filesystem::path &path, std::span<const TensorData> tensors,
                       const Metadata &metadata);

} // namespace opdock::files
