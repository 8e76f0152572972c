#include "tensor_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

#include "byte_stream.hpp"
#include "opdock/cpp/dtype.hpp"

namespace opdock::files {

namespace {

const NamedDtype *find_dtype(std::uint32_t dtype) {
    const auto *const row = std::find_if(std::begin(named_dtypes), std::end(named_dtypes),
                                         [&](const NamedDtype &known) { return known.packed == dtype; });
    return row == std::end(named_dtypes) ? nullptr : row;
}

} // namespace

std::size_t element_size(std::uint32_t dtype) {
    return find_dtype(dtype) != nullptr
               ? std::size_t{opdock_dtype_unpack(dtype).bits} * opdock_dtype_unpack(dtype).lanes / 8
               : 0;
}

std::string_view dtype_name(std::uint32_t dtype) {
    const NamedDtype *const row = find_dtype(dtype);
    return row != nullptr ? row->name : "unknown";
}

std::uint64_t byte_size(std::uint32_t dtype, std::span<const std::int64_t> shape) {
    std::uint64_t bytes = element_size(dtype);
    if (bytes == 0)
        throw Error("dtype " + std::to_string(dtype) + " is not one that tensor files hold");
    for (std::int64_t dim : shape)
        if (dim < 0)
            throw Error("dimension " + std::to_string(dim) + " is negative");
    if (std::find(shape.begin(), shape.end(), 0) != shape.end())
        return 0;
    constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    for (std::int64_t dim : shape) {
        if (bytes > limit / static_cast<std::uint64_t>(dim))
            throw Error("the shape has more elements than 63 bits can count");
        bytes *= static_cast<std::uint64_t>(dim);
    }
    return bytes;
}

void fail(const std::filesystem::path &path, const std::string &message) {
    throw Error("'" + path.string() + "': " + message);
}

void check_consistent(const std::filesystem::path &path, const TensorData &tensor) {
    std::uint64_t expected = 0;
    try {
        expected = byte_size(tensor.dtype, tensor.shape);
    } catch (const Error &error) {
        fail(path, "cannot write tensor '" + tensor.name + "': " + error.what());
    }
    if (tensor.bytes.size() != expected)
        fail(path, "cannot write tensor '" + tensor.name + "': its shape and dtype need " + std::to_string(expected) +
                       " bytes, it has " + std::to_string(tensor.bytes.size()));
}

ByteReader::ByteReader(const std::filesystem::path &path) : path_(path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status))
        fail(path, "no such file");
    if (!std::filesystem::is_regular_file(status)) // a FIFO would block, and the others do not support seeking
        fail(path, "not a regular file");
    size_ = std::filesystem::file_size(path, error);
    if (error)
        fail(path, "cannot read its size: " + error.message());
    errno = 0;
    stream_.open(path, std::ios::binary);
    if (!stream_)
        fail(path, std::string("cannot open: ") + std::strerror(errno));
}

void ByteReader::read_into(char *target, std::uint64_t offset, std::uint64_t count, std::string_view what) {
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(target, static_cast<std::streamsize>(count));
    if (!stream_ || static_cast<std::uint64_t>(stream_.gcount()) != count)
        fail(path_, "cannot read " + std::string(what));
}

namespace {

void check_range(const std::filesystem::path &path, std::uint64_t size, std::uint64_t offset, std::uint64_t count,
                 std::string_view what) {
    if (offset > size || count > size - offset)
        fail(path, "truncated: " + std::string(what) + " takes " + std::to_string(count) + " bytes at offset " +
                       std::to_string(offset) + ", the file has " + std::to_string(size));
}

} // namespace

std::vector<std::byte> ByteReader::read(std::uint64_t offset, std::uint64_t count, std::string_view what) {
    check_range(path_, size_, offset, count, what);
    std::vector<std::byte> bytes;
    try {
        bytes.resize(count); // a sparse file can claim more bytes than fit into memory
    } catch (const std::exception &) {
        fail(path_, "no memory for the " + std::to_string(count) + " bytes of " + std::string(what));
    }
    read_into(reinterpret_cast<char *>(bytes.data()), offset, count, what);
    return bytes;
}

std::string ByteReader::read_text(std::uint64_t offset, std::uint64_t count, std::string_view what) {
    check_range(path_, size_, offset, count, what);
    std::string text(count, '\0');
    read_into(text.data(), offset, count, what);
    return text;
}

std::uint64_t ByteReader::read_number(std::uint64_t offset, std::uint64_t width, std::string_view what) {
    const std::string text = read_text(offset, width, what);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
        value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    return value;
}

ByteWriter::ByteWriter(const std::filesystem::path &path) : path_(path) {
    errno = 0;
    stream_.open(path, std::ios::binary | std::ios::trunc);
    if (!stream_)
        fail(path, std::string("cannot open for writing: ") + std::strerror(errno));
}

void ByteWriter::write(std::string_view text) {
    stream_.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void ByteWriter::close() {
    errno = 0;
    stream_.close();
    if (!stream_)
        fail(path_, std::string("cannot write: ") + std::strerror(errno));
}

std::string_view bytes_of(const TensorData &tensor) {
    return {reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size()};
}

void write_content(const std::filesystem::path &path, const FileContent &content) {
    ByteWriter file(path);
    file.write(content.header);
    for (const std::string_view piece : content.pieces)
        file.write(piece);
    file.close();
}

} // namespace opdock::files
