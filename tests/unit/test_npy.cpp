#include <doctest/doctest.h>

#include "tensor_file_fixture.hpp"

using namespace opdock::files;
using doctest::Contains;

namespace {

std::string npy(const std::string &header, const std::string &data, char major = 1) {
    std::string file = "\x93NUMPY";
    file += major;
    file += '\0';
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
        file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
    return file + header + data;
}

std::string floats(const std::vector<float> &values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
}

const std::string six_floats = floats({0, 1, 2, 3, 4, 5});
const std::string good_header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

doctest::String error_for(const std::string &content) {
    const TemporaryFolder folder;
    const auto file = folder.file("x.npy", content);
    const doctest::String error = error_of([&] { read_npy(file); });
    if (error != "") {
        CHECK(error == Contains(file.c_str())); // every message names the file
    }
    return error;
}

doctest::String error_for_header(const std::string &header) {
    return error_for(npy(header, six_floats));
}

} // namespace

TEST_CASE("npy: a tensor of every dtype that .npy can name comes back as it was written") {
    const TemporaryFolder folder;
    for (std::uint32_t dtype : {OPDOCK_F64, OPDOCK_F32, OPDOCK_F16, OPDOCK_I64, OPDOCK_I32, OPDOCK_I16, OPDOCK_I8,
                                OPDOCK_U64, OPDOCK_U32, OPDOCK_U16, OPDOCK_U8, OPDOCK_BOOL}) {
        CAPTURE(dtype_name(dtype));
        std::vector<std::uint8_t> bytes(6 * element_size(dtype));
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = i % 2;
        const TensorData written = tensor_of(dtype, {2, 3}, bytes);
        write_npy(folder.path("x.npy"), written);
        const TensorData read = read_npy(folder.path("x.npy"));
        CHECK(read.dtype == dtype);
        CHECK(read.shape == written.shape);
        CHECK(read.bytes == written.bytes);
    }
}

TEST_CASE("npy: scalars and tensors without elements keep their shapes") {
    const TemporaryFolder folder;
    for (const std::vector<std::int64_t> &shape : {std::vector<std::int64_t>{}, {0}, {3, 0, 2}, {1}, {1, 1, 1}}) {
        const bool empty = byte_size(OPDOCK_F32, shape) == 0;
        write_npy(folder.path("x.npy"),
                  tensor_of(OPDOCK_F32, shape, empty ? std::vector<float>{} : std::vector<float>{7}));
        const TensorData read = read_npy(folder.path("x.npy"));
        CHECK(read.shape == shape);
        CHECK(values_of<float>(read) == (empty ? std::vector<float>{} : std::vector<float>{7}));
    }
}

TEST_CASE("npy: the data of a written file starts at a multiple of 64 bytes") {
    const TemporaryFolder folder;
    for (std::int64_t dim : {1, 10, 100, 1000, 10000}) {
        write_npy(folder.path("x.npy"), TensorData{"", OPDOCK_U8, {dim, 0}, {}});
        CHECK(std::filesystem::file_size(folder.path("x.npy")) % 64 == 0);
    }
}

TEST_CASE("npy: all three versions of the format are read") {
    const TemporaryFolder folder;
    for (char major : {'\1', '\2', '\3'})
        CHECK(values_of<float>(read_npy(folder.file("x.npy", npy(good_header, six_floats, major)))) ==
              std::vector<float>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("npy: the header's keys may come in any order, with either quote and without a trailing comma") {
    const TemporaryFolder folder;
    const auto file =
        folder.file("x.npy", npy("{\"shape\":(6,),'fortran_order' : False , \"descr\":\"=f4\"}", six_floats));
    CHECK(read_npy(file).shape == std::vector<std::int64_t>{6});
}

TEST_CASE("npy: Fortran order becomes row-major") {
    const TemporaryFolder folder;
    const auto matrix =
        folder.file("m.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", six_floats));
    CHECK(read_npy(matrix).shape == std::vector<std::int64_t>{2, 3});
    CHECK(values_of<float>(read_npy(matrix)) == std::vector<float>{0, 2, 4, 1, 3, 5});
    const auto cube =
        folder.file("c.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3, 2)}", six_floats));
    CHECK(values_of<float>(read_npy(cube)) == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("npy: a file cut at any byte is an error") {
    const std::string whole = npy(good_header, six_floats);
    CHECK(error_for(whole) == "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(error_for(whole.substr(0, size)) != "");
    }
    CHECK(error_for(whole.substr(0, whole.size() - 1)) == Contains("truncated: the data takes 24 bytes"));
}

TEST_CASE("npy: a file longer than its header says is an error") {
    CHECK(error_for(npy(good_header, six_floats + "x")) == Contains("longer than its header says"));
}

TEST_CASE("npy: what is not a .npy file is named as such") {
    CHECK(error_for("PK\x03\x04 an archive of arrays") == Contains("not a .npy file"));
    CHECK(error_for(npy(good_header, six_floats, 4)) == Contains("version 4 is not known"));
    const TemporaryFolder folder;
    CHECK(error_of([&] { read_npy(folder.path("absent.npy")); }) == Contains("no such file"));
    CHECK(error_of([&] { read_npy(folder.path("")); }) == Contains("not a regular file"));
}

TEST_CASE("npy: big-endian, structured and object arrays are refused with what to do") {
    CHECK(error_for_header("{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}") == Contains("big-endian"));
    CHECK(error_for_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}") ==
          Contains("structured"));
    CHECK(error_for_header("{'descr': '|O', 'fortran_order': False, 'shape': (6,)}") == Contains("astype"));
    CHECK(error_for_header("{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}") == Contains("astype"));
    CHECK(error_for_header("{'descr': '', 'fortran_order': False, 'shape': (3,)}") == Contains("is not one of"));
}

TEST_CASE("npy: bf16 and fp8 point to .safetensors in both directions") {
    CHECK(error_for_header("{'descr': '<V2', 'fortran_order': False, 'shape': (12,)}") == Contains(".safetensors"));
    CHECK(error_for_header("{'descr': '|V1', 'fortran_order': False, 'shape': (24,)}") == Contains(".safetensors"));
    const TemporaryFolder folder;
    for (std::uint32_t dtype : {OPDOCK_BF16, OPDOCK_E4M3, OPDOCK_E5M2})
        CHECK(error_of([&] {
                  write_npy(folder.path("x.npy"), TensorData{"", dtype, {0}, {}});
              }) == Contains(".safetensors"));
    CHECK_FALSE(std::filesystem::exists(folder.path("x.npy")));
}

TEST_CASE("npy: a malformed header is an error that says where") {
    CHECK(error_for_header("") == Contains("expected '{' at offset 0"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False}") == Contains("it must give"));
    CHECK(error_for_header("{'descr': '<f4' 'shape': (6,)}") == Contains("expected '}'"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}") ==
          Contains("expected True or False"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': 6}") == Contains("expected '('"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (,)}") ==
          Contains("expected a dimension"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}") ==
          Contains("expected a dimension"));
    CHECK(error_for_header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}") ==
          Contains("second 'descr'"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}") ==
          Contains("unexpected key 'x'"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x") ==
          Contains("text after the dict"));
    CHECK(error_for_header("{'descr': '<f4") == Contains("unterminated string"));
    CHECK(error_for_header(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}") + '\0') ==
          Contains("text after the dict"));
}

TEST_CASE("npy: sizes that overflow or exceed the file are refused before memory is taken") {
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}") ==
          Contains("does not fit 63 bits"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}") ==
          Contains("more elements than 63 bits"));
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}") ==
          Contains("truncated"));
    std::string dims;
    for (int i = 0; i < 65; ++i)
        dims += "1,";
    CHECK(error_for_header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + ")}") ==
          Contains("more than 64 dimensions"));
}

TEST_CASE("npy: a header's size is bounded") {
    CHECK(error_for(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12)) == Contains("at most 65536 are read"));
}

TEST_CASE("npy: a tensor whose bytes do not fit its shape is not written") {
    const TemporaryFolder folder;
    TensorData tensor = tensor_of<float>(OPDOCK_F32, {2, 3}, {1, 2, 3});
    CHECK(error_of([&] { write_npy(folder.path("x.npy"), tensor); }) == Contains("need 24 bytes, it has 12"));
    tensor.shape = {-1};
    CHECK(error_of([&] { write_npy(folder.path("x.npy"), tensor); }) == Contains("negative"));
    CHECK_FALSE(std::filesystem::exists(folder.path("x.npy")));
}

TEST_CASE("npy: a folder that is not there is a clear error when writing") {
    const TemporaryFolder folder;
    CHECK(error_of([&] { write_npy(folder.path("absent") / "x.npy", tensor_of<float>(OPDOCK_F32, {1}, {1})); }) ==
          Contains("cannot open for writing: No such file or directory"));
}
