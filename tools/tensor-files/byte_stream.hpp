// A file as bytes, with sizes that are checked before anything is allocated or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace opdock::files {

[[noreturn]] void fail(const std::filesystem::path &path, const std::string &message);

class ByteReader {
  public:
    explicit ByteReader(const std::filesystem::path &path);

    std::uint64_t size() const { return size_; }

    // `what` names the part in the error message if the file ends too early.
    std::vector<std::byte> read(std::uint64_t offset, std::uint64_t count, std::string_view what);
    std::string read_text(std::uint64_t offset, std::uint64_t count, std::string_view what);
    // Reads `width` bytes, at most 8, least significant first.
    std::uint64_t read_number(std::uint64_t offset, std::uint64_t width, std::string_view what);

  private:
    void read_into(char *target, std::uint64_t offset, std::uint64_t count, std::string_view what);

    std::filesystem::path path_;
    std::ifstream stream_;
    std::uint64_t size_ = 0;
};

class ByteWriter {
  public:
    explicit ByteWriter(const std::filesystem::path &path);

    void write(std::string_view text);
    // Call it last: an error such as a full disk may be reported only here.
    void close();

  private:
    std::filesystem::path path_;
    std::ofstream stream_;
};

// Checks a tensor; writers call this for every tensor before they open the file.
struct TensorData;
void check_consistent(const std::filesystem::path &path, const TensorData &tensor);

std::string_view bytes_of(const TensorData &tensor);
struct FileContent;
void write_content(const std::filesystem::path &path, const FileContent &content);

} // namespace opdock::files
