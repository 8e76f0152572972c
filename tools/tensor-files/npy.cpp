// .npy: the magic "\x93NUMPY", a version, and a header that is a Python dict literal such as
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "byte_stream.hpp"
#include "tensor_files.hpp"

namespace opdock::files {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t max_npy_header = std::uint64_t{64} * 1024; // the dict of a plain array is about 100 bytes
constexpr std::size_t max_rank = 64;                               // NumPy's own limit

struct Descr {
    std::string_view text; // without the byte order
    std::uint32_t dtype;
};
constexpr std::array<Descr, 12> descrs = {{{"f8", OPDOCK_F64},
                                           {"f4", OPDOCK_F32},
                                           {"f2", OPDOCK_F16},
                                           {"i8", OPDOCK_I64},
                                           {"i4", OPDOCK_I32},
                                           {"i2", OPDOCK_I16},
                                           {"i1", OPDOCK_I8},
                                           {"u8", OPDOCK_U64},
                                           {"u4", OPDOCK_U32},
                                           {"u2", OPDOCK_U16},
                                           {"u1", OPDOCK_U8},
                                           {"b1", OPDOCK_BOOL}}};

struct Header {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
};

// Parses the few forms of Python literals in the header of a plain array.
class HeaderParser {
  public:
    HeaderParser(const std::filesystem::path &path, std::string_view text) : path_(path), text_(text) {}

    Header parse() {
        Header header;
        expect('{');
        while (!accept('}')) {
            const std::string key = string();
            expect(':');
            if (key == "descr")
                set(header.descr, key, descr());
            else if (key == "fortran_order")
                set(header.fortran_order, key, boolean());
            else if (key == "shape")
                set(header.shape, key, shape());
            else
                fail_here("unexpected key '" + key + "'");
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_space();
        if (position_ != text_.size())
            fail_here("text after the dict");
        if (!header.descr || !header.fortran_order || !header.shape)
            fail(path_, "malformed .npy header: it must give 'descr', 'fortran_order' and 'shape'");
        return header;
    }

  private:
    [[noreturn]] void fail_here(const std::string &what) const {
        fail(path_, "malformed .npy header: " + what + " at offset " + std::to_string(position_) + " of the header");
    }

    template<typename T>
    void set(std::optional<T> &field, const std::string &key, T value) const {
        if (field)
            fail_here("second '" + key + "'");
        field = std::move(value);
    }

    void skip_space() {
        while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) && text_[position_] != '\0')
            ++position_;
    }

    bool accept(char c) {
        skip_space();
        if (position_ == text_.size() || text_[position_] != c)
            return false;
        ++position_;
        return true;
    }

    void expect(char c) {
        if (!accept(c))
            fail_here(std::string("expected '") + c + "'");
    }

    bool accept_word(std::string_view word) {
        skip_space();
        if (text_.substr(position_, word.size()) != word)
            return false;
        position_ += word.size();
        return true;
    }

    std::string string() {
        const char quote = accept('\'') ? '\'' : '"';
        if (quote == '"')
            expect('"');
        const std::size_t end = text_.find(quote, position_);
        if (end == std::string_view::npos)
            fail_here("unterminated string");
        std::string value(text_.substr(position_, end - position_));
        position_ = end + 1;
        return value;
    }

    std::string descr() {
        if (accept('['))
            fail(path_, "structured arrays cannot be read; save one field as a plain array");
        return string();
    }

    bool boolean() {
        if (accept_word("True"))
            return true;
        if (!accept_word("False"))
            fail_here("expected True or False");
        return false;
    }

    std::vector<std::int64_t> shape() {
        std::vector<std::int64_t> dims;
        expect('(');
        while (!accept(')')) {
            dims.push_back(dim());
            if (dims.size() > max_rank)
                fail_here("more than " + std::to_string(max_rank) + " dimensions");
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return dims;
    }

    std::int64_t dim() {
        skip_space();
        std::int64_t value = 0;
        const char *begin = text_.data() + position_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error == std::errc::result_out_of_range)
            fail_here("a dimension that does not fit 63 bits");
        if (error != std::errc() || value < 0)
            fail_here("expected a dimension");
        position_ += static_cast<std::size_t>(end - begin);
        accept('L'); // written by Python 2
        return value;
    }

    const std::filesystem::path &path_;
    std::string_view text_;
    std::size_t position_ = 0;
};

std::uint32_t dtype_of(const std::filesystem::path &path, const std::string &descr) {
    const std::string_view text = descr;
    const char order = text.empty() ? '\0' : text[0];
    if (order == '>')
        fail(path, "dtype '" + descr + "' is big-endian; save it little-endian (x.astype(x.dtype.newbyteorder('<')))");
    if (order == '<' || order == '|' || order == '=')
        for (const Descr &known : descrs)
            if (known.text == text.substr(1))
                return known.dtype;
    // NumPy has no bf16 or fp8: the packages that add them write opaque bytes, so that the element type is lost.
    if (text.substr(0, 1).find_first_of("<|") == 0 && text.substr(1, 1) == "V")
        fail(path, "dtype '" + descr + "' does not say what its elements are; keep bf16 and fp8 in .safetensors");
    fail(path, "dtype '" + descr +
                   "' is not one of float32, float16, float64, int64, int32, uint8, bool; convert it, for example with "
                   "x.astype('float32')");
}

// Reverses the order of the dimensions of a column-major array.
std::vector<std::byte> to_row_major(const TensorData &tensor) {
    const std::size_t size = element_size(tensor.dtype);
    const std::size_t rank = tensor.shape.size();
    std::vector<std::byte> result(tensor.bytes.size());
    std::vector<std::int64_t> index(rank, 0);
    for (std::size_t target = 0; target < result.size(); target += size) {
        std::size_t source = 0;
        for (std::size_t d = rank; d-- > 0;)
            source = source * static_cast<std::size_t>(tensor.shape[d]) + static_cast<std::size_t>(index[d]);
        std::copy_n(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(source * size), size,
                    result.begin() + static_cast<std::ptrdiff_t>(target));
        for (std::size_t d = rank; d-- > 0 && ++index[d] == tensor.shape[d];)
            index[d] = 0;
    }
    return result;
}

} // namespace

TensorData read_npy(const std::filesystem::path &path) {
    ByteReader file(path);
    const std::string prefix = file.read_text(0, 8, "the magic of .npy");
    if (!prefix.starts_with(magic))
        fail(path, "not a .npy file: it does not start with \"\\x93NUMPY\"");
    const int major = static_cast<unsigned char>(prefix[6]);
    if (major < 1 || major > 3)
        fail(path, ".npy format version " + std::to_string(major) + " is not known; expected 1, 2 or 3");
    const std::uint64_t width = major == 1 ? 2 : 4;
    const std::uint64_t header_size = file.read_number(8, width, "the header's size");
    if (header_size > max_npy_header)
        fail(path, "the header claims " + std::to_string(header_size) + " bytes; at most " +
                       std::to_string(max_npy_header) + " are read");
    const std::string text = file.read_text(8 + width, header_size, "the header");
    const Header header = HeaderParser(path, text).parse();

    TensorData tensor;
    tensor.dtype = dtype_of(path, *header.descr);
    tensor.shape = *header.shape;
    std::uint64_t bytes = 0;
    try {
        bytes = byte_size(tensor.dtype, tensor.shape);
    } catch (const Error &error) {
        fail(path, error.what());
    }
    const std::uint64_t begin = 8 + width + header_size;
    tensor.bytes = file.read(begin, bytes, "the data");
    if (file.size() != begin + bytes)
        fail(path, "longer than its header says: expected " + std::to_string(begin + bytes) + " bytes, found " +
                       std::to_string(file.size()));
    if (*header.fortran_order)
        tensor.bytes = to_row_major(tensor);
    return tensor;
}

FileContent npy_content(const std::filesystem::path &path, const TensorData &tensor) {
    check_consistent(path, tensor);
    const auto *known =
        std::find_if(descrs.begin(), descrs.end(), [&](const Descr &d) { return d.dtype == tensor.dtype; });
    if (known == descrs.end())
        fail(path, ".npy cannot hold " + std::string(dtype_name(tensor.dtype)) + "; write it to a .safetensors file");
    std::string header = "{'descr': '" + std::string(element_size(tensor.dtype) == 1 ? "|" : "<") +
                         std::string(known->text) + "', 'fortran_order': False, 'shape': (";
    for (std::int64_t dim : tensor.shape)
        header += std::to_string(dim) + ", ";
    header += "), }";
    constexpr std::size_t alignment = 64; // of the data, to allow mapping
    const std::size_t prefix = magic.size() + 4;
    header.append((alignment - (prefix + header.size() + 1) % alignment) % alignment, ' ');
    header += '\n';
    if (header.size() > 0xffff)
        fail(path, "too many dimensions for a .npy header");

    const std::array<char, 4> version_and_size = {1, 0, static_cast<char>(header.size() & 0xff),
                                                  static_cast<char>(header.size() >> 8)};
    header.insert(0, version_and_size.data(), version_and_size.size());
    header.insert(0, magic);
    return {std::move(header), {bytes_of(tensor)}};
}

void write_npy(const std::filesystem::path &path, const TensorData &tensor) {
    write_content(path, npy_content(path, tensor));
}

} // namespace opdock::files
