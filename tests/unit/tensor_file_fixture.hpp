// A temporary folder, removed when the test is over, and files with given bytes in it.
#pragma once

#include <stdlib.h> // mkdtemp

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tensor_files.hpp"

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "opdock-files-XXXXXX").string();
        if (!mkdtemp(pattern.data()))
            throw std::runtime_error("mkdtemp failed for " + pattern);
        path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    std::filesystem::path path(std::string_view name) const { return path_ / name; }

    std::filesystem::path file(std::string_view name, const std::string &content) const {
        std::ofstream(path(name), std::ios::binary) << content;
        return path(name);
    }

    static std::string content(const std::filesystem::path &file) {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }

  private:
    std::filesystem::path path_;
};

// The message of the opdock::files::Error that `action` throws; "" if it throws none.
template<typename Action>
doctest::String error_of(const Action &action) {
    try {
        action();
    } catch (const opdock::files::Error &error) {
        return error.what();
    }
    return "";
}

template<typename T>
opdock::files::TensorData tensor_of(std::uint32_t dtype, std::vector<std::int64_t> shape, const std::vector<T> &values,
                                    std::string name = "") {
    opdock::files::TensorData tensor{std::move(name), dtype, std::move(shape), {}};
    tensor.bytes.resize(values.size() * sizeof(T));
    if (!values.empty())
        std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
}

template<typename T>
std::vector<T> values_of(const opdock::files::TensorData &tensor) {
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    if (!values.empty())
        std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}
