#include <doctest/doctest.h>

#include "metadata.hpp"
#include "opdock/cpp/dtype.hpp"
#include "tensor_file_fixture.hpp"

using namespace opdock::files;
using doctest::Contains;

namespace {

std::string safetensors(const std::string &header, const std::string &data) {
    std::string file;
    for (int i = 0; i < 8; ++i)
        file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
    return file + header + data;
}

const std::string eight_bytes = "abcdefgh";

doctest::String error_for(const std::string &content) {
    const TemporaryFolder folder;
    const auto file = folder.file("x.safetensors", content);
    const doctest::String error = error_of([&] { read_safetensors(file); });
    if (error != "") {
        CHECK(error == Contains(file.c_str())); // every message names the file
    }
    return error;
}

doctest::String error_for_header(const std::string &header) {
    return error_for(safetensors(header, eight_bytes));
}

std::string entry(const std::string &name, const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
    return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets +
           "]}";
}

} // namespace

TEST_CASE("safetensors: tensors of every dtype come back as they were written") {
    const TemporaryFolder folder;
    std::vector<TensorData> written;
    for (const opdock::NamedDtype &known : opdock::named_dtypes) {
        const TensorData made =
            tensor_of(known.packed, {3, 1}, std::vector<std::uint8_t>(3 * element_size(known.packed), 1),
                      std::string("tensor of ") + known.name);
        if (opdock_dtype_unpack(known.packed).lanes == 1)
            written.push_back(made);
        else
            CHECK(error_of([&] { write_safetensors(folder.path("y.safetensors"), std::vector{made}); }) ==
                  Contains(doctest::String(".safetensors cannot hold ") + known.name));
    }
    write_safetensors(folder.path("x.safetensors"), written);
    CHECK(read_safetensors(folder.path("x.safetensors")).size() == written.size());
    for (const TensorData &tensor : written) {
        CAPTURE(tensor.name);
        const TensorData read = read_safetensors(folder.path("x.safetensors"), tensor.name);
        CHECK(read.name == tensor.name);
        CHECK(read.dtype == tensor.dtype);
        CHECK(read.shape == tensor.shape);
        CHECK(read.bytes == tensor.bytes);
    }
}

TEST_CASE("safetensors: scalars, empty tensors and files without tensors keep their shapes") {
    const TemporaryFolder folder;
    const auto file = folder.path("x.safetensors");
    write_safetensors(file, std::vector<TensorData>{});
    CHECK(read_safetensors(file).empty());
    write_safetensors(file, std::vector<TensorData>{tensor_of<float>(OPDOCK_F32, {}, {7}, "scalar"),
                                                    tensor_of<float>(OPDOCK_F32, {2, 0, 3}, {}, "empty")});
    CHECK(values_of<float>(read_safetensors(file, "scalar")) == std::vector<float>{7});
    CHECK(read_safetensors(file, "empty").shape == std::vector<std::int64_t>{2, 0, 3});
}

TEST_CASE("safetensors: written tensors lie at multiples of their element size") {
    const TemporaryFolder folder;
    const auto file = folder.path("x.safetensors");
    write_safetensors(file, std::vector<TensorData>{tensor_of<std::uint8_t>(OPDOCK_U8, {3}, {1, 2, 3}, "a"),
                                                    tensor_of<double>(OPDOCK_F64, {1}, {1}, "b"),
                                                    tensor_of<float>(OPDOCK_F32, {1}, {1}, "c")});
    CHECK(TemporaryFolder::content(file)[0] % 8 == 0); // the header's size, padded so that the data are aligned
    const std::vector<TensorData> read = read_safetensors(file);
    CHECK(read[0].name == "b");
    CHECK(read[1].name == "c");
    CHECK(read[2].name == "a");
}

TEST_CASE("safetensors: metadata and padding of the header are passed over") {
    const TemporaryFolder folder;
    const auto file = folder.file(
        "x.safetensors",
        safetensors(R"({"__metadata__":{"format":"pt"},)" + entry("x", "F32", "2", "0,8") + "}   ", eight_bytes));
    CHECK(read_safetensors(file).size() == 1);
}

TEST_CASE("safetensors: metadata is texts by name, and who asks for other metadata is told") {
    const TemporaryFolder folder;
    const auto with = [&](const std::string &metadata) {
        return folder.file("x.safetensors",
                           safetensors("{" + metadata + entry("x", "F32", "2", "0,8") + "}", eight_bytes));
    };
    CHECK(read_safetensors_metadata(with(R"("__metadata__":{"format":"pt"},)")) == Metadata{{"format", "pt"}});
    CHECK(read_safetensors_metadata(with("")).empty());
    for (const char *const other : {R"({"format":7})", "7", R"(["format"])"}) {
        const auto file = with(R"("__metadata__":)" + std::string(other) + ",");
        CHECK(error_of([&] { read_safetensors_metadata(file); }) == Contains("is not an object of texts"));
        CHECK(read_safetensors(file).size() == 1);
    }
}

TEST_CASE("safetensors: a missing name lists the names there are") {
    const TemporaryFolder folder;
    const auto file = folder.file(
        "x.safetensors",
        safetensors("{" + entry("a", "F32", "1", "0,4") + "," + entry("b", "F32", "1", "4,8") + "}", eight_bytes));
    CHECK(error_of([&] { read_safetensors(file, "c"); }) == Contains("has no tensor 'c'; it has 'a', 'b'"));
}

TEST_CASE("safetensors: a tensor of a known dtype is read from a file that holds unknown ones beside it") {
    const TemporaryFolder folder;
    const auto file = folder.file(
        "x.safetensors",
        safetensors("{" + entry("a", "C64", "2", "0,4") + "," + entry("b", "F32", "1", "4,8") + "}", eight_bytes));
    CHECK(read_safetensors(file, "b").shape == std::vector<std::int64_t>{1});
    CHECK(error_of([&] { read_safetensors(file, "a"); }) == Contains("tensor 'a' has dtype C64, which no op takes"));
}

TEST_CASE("safetensors: a file cut at any byte is an error") {
    const std::string whole = safetensors("{" + entry("x", "F32", "2", "0,8") + "}", eight_bytes);
    CHECK(error_for(whole) == "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(error_for(whole.substr(0, size)) != "");
    }
    CHECK(error_for(whole.substr(0, whole.size() - 1)) == Contains("truncated: the tensors take 8 bytes"));
}

TEST_CASE("safetensors: a file longer than its header says is an error") {
    CHECK(error_for_header("{" + entry("x", "F32", "1", "0,4") + "}") == Contains("longer than its header says"));
}

TEST_CASE("safetensors: offsets outside the file, in disorder, overlapping or with gaps are errors") {
    CHECK(error_for_header("{" + entry("x", "F32", "2", "0,16") + "}") == Contains("truncated"));
    CHECK(error_for_header("{" + entry("x", "F32", "2", "8,0") + "}") == Contains("ends before it begins"));
    CHECK(error_for_header("{" + entry("x", "F32", "2", "0,8") + "," + entry("y", "F32", "1", "4,8") + "}") ==
          Contains("neither overlap nor leave gaps"));
    CHECK(error_for_header("{" + entry("x", "F32", "1", "4,8") + "}") == Contains("neither overlap nor leave gaps"));
    CHECK(error_for_header("{" + entry("x", "F32", "2", "-8,0") + "}") == Contains("invalid data offset"));
    CHECK(error_for_header("{" + entry("x", "F32", "2", "0,18446744073709551615") + "}") ==
          Contains("invalid data offset"));
}

TEST_CASE("safetensors: a shape that does not fit its data is an error") {
    CHECK(error_for_header("{" + entry("x", "F32", "3", "0,8") + "}") == Contains("need 12 bytes"));
    CHECK(error_for_header("{" + entry("x", "F32", "4294967296,4294967296", "0,8") + "}") ==
          Contains("more elements than 63 bits"));
    CHECK(error_for_header("{" + entry("x", "F32", "-2", "0,8") + "}") == Contains("invalid dimension"));
    CHECK(error_for_header("{" + entry("x", "F32", "2.0", "0,8") + "}") == Contains("invalid dimension"));
    CHECK(error_for_header("{" + entry("x", "F32", "99999999999999999999", "0,8") + "}") ==
          Contains("invalid dimension"));
}

TEST_CASE("safetensors: a malformed header is an error that names the tensor") {
    CHECK(error_for_header("") == Contains("malformed"));
    CHECK(error_for_header("[]") == Contains("not an object"));
    CHECK(error_for_header("{") == Contains("malformed"));
    CHECK(error_for_header(R"({"x":1})") == Contains("tensor 'x' is not an object"));
    CHECK(error_for_header(R"({"x":{"shape":[2],"data_offsets":[0,8]}})") == Contains("has no dtype"));
    CHECK(error_for_header(R"({"x":{"dtype":"F32","data_offsets":[0,8]}})") == Contains("has no shape"));
    CHECK(error_for_header(R"({"x":{"dtype":"F32","shape":[2]}})") == Contains("no pair of data_offsets"));
    CHECK(error_for_header(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})") ==
          Contains("no pair of data_offsets"));
    CHECK(error_for_header("{" + entry("x", "F32", "2", "0,8") + "," + entry("x", "F32", "2", "0,8") + "}") ==
          Contains("\"x\" appears twice"));
    CHECK(error_for_header("{\"\xff\":1}") == Contains("malformed"));
}

TEST_CASE("safetensors: a header's size and nesting are bounded") {
    CHECK(error_for(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)) == Contains("at most 16777216 are read"));
    CHECK(error_for_header("{\"x\":" + std::string(100000, '[')) == Contains("nested too deep"));
}

TEST_CASE("safetensors: as many tensors as a header has room for are read without trying each against all others") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr int count = 20'000;
#else
    constexpr int count = 100'000; // an algorithm quadratic in this takes minutes
#endif
    const TemporaryFolder folder;
    std::string header;
    for (int i = 0; i < count; ++i)
        header +=
            (i == 0 ? "{" : ",") + entry(std::to_string(i), "U8", "1", std::to_string(i) + "," + std::to_string(i + 1));
    const auto file = folder.file("x.safetensors", safetensors(header + "}", std::string(count - 1, 'a') + "z"));
    CHECK(read_safetensors(file).size() == count);
    CHECK(read_safetensors(file, std::to_string(count - 1)).bytes == std::vector{std::byte{'z'}});
    const auto twice =
        folder.file("twice.safetensors", safetensors(header + "," + entry("0", "U8", "0", "0,0") + "}", ""));
    CHECK(error_of([&] { read_safetensors(twice); }) == Contains("tensor \"0\" appears twice"));
}

TEST_CASE("safetensors: what cannot be read back is not written") {
    const TemporaryFolder folder;
    const auto file = folder.path("x.safetensors");
    const TensorData x = tensor_of<float>(OPDOCK_F32, {1}, {1}, "x");
    CHECK(error_of([&] { write_safetensors(file, std::vector<TensorData>{x, x}); }) == Contains("two tensors"));
    CHECK(error_of([&] {
              write_safetensors(file, std::vector<TensorData>{tensor_of<float>(OPDOCK_F32, {1}, {1}, "__metadata__")});
          }) == Contains("__metadata__"));
    CHECK(error_of([&] {
              write_safetensors(file, std::vector<TensorData>{tensor_of<float>(OPDOCK_F32, {1}, {1}, "\xff")});
          }) == Contains("not UTF-8"));
    CHECK(error_of([&] {
              write_safetensors(file, std::vector<TensorData>{tensor_of<float>(OPDOCK_F32, {2}, {1}, "x")});
          }) == Contains("need 8 bytes, it has 4"));
    CHECK_FALSE(std::filesystem::exists(file));
}
