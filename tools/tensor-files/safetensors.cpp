// The reader of .safetensors, and adapters to the host's writer (files/safetensors.hpp).
#include <algorithm>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "byte_stream.hpp"
#include "files/safetensors.hpp"
#include "metadata.hpp"
#include "tensor_files.hpp"
#include "text/error.hpp"

namespace opdock::files {

namespace {

using nlohmann::json;

constexpr std::uint64_t max_safetensors_header = std::uint64_t{16} * 1024 * 1024; // enough for over 100,000 tensors
constexpr int max_depth = 3;                                                      // file, tensor, shape
struct Entry {
    std::string name;
    std::string dtype; // as in the file, which may also contain types that we do not read
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

struct Index {
    std::vector<Entry> entries; // in the order of their data
    json metadata = json::object();
    std::uint64_t data = 0; // offset in the file
};

// Checks the header before it is parsed: its depth, and that no tensor occurs twice. json's own parser keeps the last
// of two equal keys, which would hide data, and with a callback it takes quadratic time in the number of tensors.
class HeaderCheck : public nlohmann::json_sax<json> {
  public:
    explicit HeaderCheck(const std::filesystem::path &path) : path_(path) {}

    bool null() override { return take(); }
    bool boolean(bool /*value*/) override { return take(); }
    bool number_integer(number_integer_t /*value*/) override { return take(); }
    bool number_unsigned(number_unsigned_t /*value*/) override { return take(); }
    bool number_float(number_float_t /*value*/, const string_t & /*text*/) override { return take(); }
    bool string(string_t & /*value*/) override { return take(); }
    bool binary(binary_t & /*value*/) override { return take(); }
    bool start_object(std::size_t /*size*/) override { return open(); }
    bool start_array(std::size_t /*size*/) override { return open(); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t &name) override {
        if (depth_ == 1 && !names_.insert(name).second)
            fail(path_, "malformed .safetensors header: tensor " + json(name).dump() + " appears twice");
        return take();
    }
    // Stops; json's own parser reports the error.
    bool parse_error(std::size_t /*offset*/, const std::string & /*token*/,
                     const json::exception & /*error*/) override {
        return false;
    }

  private:
    bool take() {
        if (depth_ > max_depth)
            fail(path_, "malformed .safetensors header: nested too deep");
        return true;
    }
    bool open() {
        take();
        ++depth_;
        return true;
    }
    bool close() {
        --depth_;
        return true;
    }

    const std::filesystem::path &path_;
    std::set<std::string> names_;
    int depth_ = 0; // number of open objects and lists
};

json parse_header(const std::filesystem::path &path, const std::string &text) {
    HeaderCheck check(path);
    try {
        json::sax_parse(text, &check);
        return json::parse(text);
    } catch (const json::exception &error) {
        fail(path, std::string("malformed .safetensors header: ") + error.what());
    }
}

Entry parse_entry(const std::filesystem::path &path, const std::string &name, const json &value) {
    const auto require = [&](bool condition, const char *what) {
        if (!condition)
            fail(path, "malformed .safetensors header: tensor '" + name + "' " + what);
    };
    require(value.is_object(), "is not an object");
    require(value.contains("dtype") && value["dtype"].is_string(), "has no dtype");
    require(value.contains("shape") && value["shape"].is_array(), "has no shape");
    require(value.contains("data_offsets") && value["data_offsets"].is_array() && value["data_offsets"].size() == 2,
            "has no pair of data_offsets");
    const auto is_size = [](const json &number) {
        return number.is_number_unsigned() && number.get<std::uint64_t>() <= INT64_MAX;
    };
    const json &offsets = value["data_offsets"];
    require(std::all_of(value["shape"].begin(), value["shape"].end(), is_size), "has an invalid dimension");
    require(std::all_of(offsets.begin(), offsets.end(), is_size), "has an invalid data offset");

    Entry entry{name, value["dtype"], value["shape"], offsets[0], offsets[1]};
    require(entry.begin <= entry.end, "ends before it begins");
    return entry;
}

std::uint32_t dtype_of(const std::filesystem::path &path, const Entry &entry) {
    std::string expected;
    for (const core::SafetensorsType &known : core::safetensors_types) {
        if (known.text == entry.dtype)
            return known.dtype;
        expected += (expected.empty() ? "" : ", ") + std::string(known.text);
    }
    fail(path,
         "tensor '" + entry.name + "' has dtype " + entry.dtype + ", which no op takes; expected one of " + expected);
}

Index read_index(const std::filesystem::path &path, ByteReader &file) {
    const std::uint64_t header_size = file.read_number(0, 8, "the header's size");
    if (header_size > max_safetensors_header)
        fail(path, "not a .safetensors file, or its header is too large: it claims " + std::to_string(header_size) +
                       " bytes; at most " + std::to_string(max_safetensors_header) + " are read");
    const json header = parse_header(path, file.read_text(8, header_size, "the header"));
    if (!header.is_object())
        fail(path, "malformed .safetensors header: not an object");

    Index index;
    index.data = 8 + header_size;
    for (const auto &[name, value] : header.items())
        if (name == core::safetensors_metadata)
            index.metadata = value;
        else
            index.entries.push_back(parse_entry(path, name, value));
    std::sort(index.entries.begin(), index.entries.end(), [](const Entry &a, const Entry &b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t end = 0;
    for (const Entry &entry : index.entries) {
        if (entry.begin != end)
            fail(path, "tensor '" + entry.name + "' starts at byte " + std::to_string(entry.begin) +
                           " of the data, but the previous tensor ends at byte " + std::to_string(end) +
                           "; tensors may neither overlap nor leave gaps");
        end = entry.end;
    }
    const std::uint64_t available = file.size() - index.data;
    if (end != available)
        fail(path, std::string(end > available ? "truncated" : "longer than its header says") + ": the tensors take " +
                       std::to_string(end) + " bytes, the file has " + std::to_string(available) + " after its header");
    return index;
}

TensorData read_entry(const std::filesystem::path &path, ByteReader &file, const Index &index, const Entry &entry) {
    TensorData tensor{entry.name, dtype_of(path, entry), entry.shape, {}};
    std::uint64_t expected = 0;
    try {
        expected = byte_size(tensor.dtype, tensor.shape);
    } catch (const Error &error) {
        fail(path, "tensor '" + entry.name + "': " + error.what());
    }
    if (entry.end - entry.begin != expected)
        fail(path, "tensor '" + entry.name + "': its shape and dtype need " + std::to_string(expected) +
                       " bytes, its data_offsets span " + std::to_string(entry.end - entry.begin));
    tensor.bytes = file.read(index.data + entry.begin, expected, "tensor '" + entry.name + "'");
    return tensor;
}

} // namespace

std::vector<TensorData> read_safetensors(const std::filesystem::path &path) {
    ByteReader file(path);
    const Index index = read_index(path, file);
    std::vector<TensorData> tensors;
    for (const Entry &entry : index.entries)
        tensors.push_back(read_entry(path, file, index, entry));
    return tensors;
}

Metadata read_safetensors_metadata(const std::filesystem::path &path) {
    ByteReader file(path);
    try {
        return read_index(path, file).metadata.get<Metadata>();
    } catch (const json::exception &) {
        fail(path, "malformed .safetensors header: __metadata__ is not an object of texts");
    }
}

TensorData read_safetensors(const std::filesystem::path &path, std::string_view name) {
    ByteReader file(path);
    const Index index = read_index(path, file);
    std::string names;
    for (const Entry &entry : index.entries) {
        if (entry.name == name)
            return read_entry(path, file, index, entry);
        names += (names.empty() ? "'" : ", '") + entry.name + "'";
    }
    fail(path, "has no tensor '" + std::string(name) + "'; it has " + (names.empty() ? "none" : names));
}

namespace {

FileContent content_of(const std::filesystem::path &path, std::span<const TensorData> tensors,
                       const Metadata &metadata) {
    std::vector<core::SafetensorsTensor> borrowed;
    for (const TensorData &tensor : tensors) {
        check_consistent(path, tensor);
        borrowed.push_back({tensor.name, tensor.dtype, tensor.shape, bytes_of(tensor)});
    }
    try {
        core::SafetensorsFile file = core::safetensors_file(borrowed, metadata);
        return {std::move(file.header), std::move(file.pieces)};
    } catch (const core::Error &error) {
        fail(path, error.what());
    }
}

} // namespace

FileContent safetensors_content(const std::filesystem::path &path, std::span<const TensorData> tensors) {
    return content_of(path, tensors, {});
}

void write_safetensors(const std::filesystem::path &path, std::span<const TensorData> tensors) {
    write_content(path, safetensors_content(path, tensors));
}

void write_safetensors(const std::filesystem::path &path, std::span<const TensorData> tensors,
                       const Metadata &metadata) {
    write_content(path, content_of(path, tensors, metadata));
}

} // namespace opdock::files
