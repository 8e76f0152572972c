#include "observe/call_files.hpp"

#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "metadata.hpp"
#include "temporary_directory.hpp"
#include "tensor_files.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::CallFile;
using core::CallFiles;
using core::Place;

namespace {

std::vector<std::byte> bytes_of(const std::vector<float> &values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

CallFile a_call() {
    CallFile call;
    call.text.op = "acme.scale";
    call.text.impl_id = "vendor/acme";
    call.text.device = "cuda:0";
    call.text.config = "BLOCK=128";
    call.text.attributes.push_back({"by", "2.5"});
    call.text.wanted_outputs = {"extra"};
    call.shadow = "reference.cpp";
    call.difference = "in 'output', element 0 is 2, expected 3";
    call.strides.push_back({"input", {1, 2}});
    call.tensors = {{"input", OPDOCK_F32, {2, 1}, bytes_of({1, 2})}, {"program.output", OPDOCK_F32, {0}, {}}};
    return call;
}

size_t files_in(const std::filesystem::path &folder) {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

std::string path_in(const TemporaryDirectory &directory, int number) {
    return directory.path() / "calls" /
           ("acme.scale-vendor-acme-cuda-0-" + std::to_string(::getpid()) + "-" + std::to_string(number) +
            ".safetensors");
}

} // namespace

TEST_CASE("a call's file has its tensors, and the rest of it in the metadata") {
    const TemporaryDirectory directory;
    CallFiles files((directory.path() / "calls").string(), Place{"PLUGIN_CALL_FILES"});
    std::atomic<uint32_t> count{0};
    const std::string path = path_in(directory, 1);
    CHECK(files.write(a_call(), count) == "the call was written to '" + path + "', and plugin-run replays it");
    const std::vector<files::TensorData> tensors = files::read_safetensors(path);
    REQUIRE(tensors.size() == 2);
    CHECK(files::read_safetensors(path, "input").bytes == bytes_of({1, 2}));
    CHECK(files::read_safetensors(path, "input").shape == std::vector<int64_t>{2, 1});
    CHECK(files::read_safetensors(path, "program.output").shape == std::vector<int64_t>{0});
    files::Metadata metadata = files::read_safetensors_metadata(path);
    CHECK_FALSE(metadata["opdock"].empty());
    metadata.erase("opdock");
    CHECK(metadata == files::Metadata{{"format", "opdock.call/1"},
                                      {"op", "acme.scale"},
                                      {"device", "cuda:0"},
                                      {"implementation", "vendor/acme"},
                                      {"config", "BLOCK=128"},
                                      {"shadow", "reference.cpp"},
                                      {"difference", "in 'output', element 0 is 2, expected 3"},
                                      {"attributes", R"({"by":"2.5"})"},
                                      {"outputs", R"(["extra"])"},
                                      {"strides", R"({"input":[1,2]})"}});
    CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("the first few calls of an implementation are written, and the last line says that there are no more") {
    const TemporaryDirectory directory;
    CallFiles files((directory.path() / "calls").string(), Place{"PLUGIN_CALL_FILES"});
    std::atomic<uint32_t> count{0}, of_another{0};
    for (uint32_t i = 1; i < CallFiles::most_files; ++i) {
        REQUIRE(files.takes(count));
        CHECK(files.write(a_call(), count).ends_with("plugin-run replays it"));
    }
    CHECK(files.write(a_call(), count).ends_with("plugin-run replays it; no more calls of 'vendor/acme' are written"));
    CHECK_FALSE(files.takes(count));
    CHECK(files.takes(of_another));
    CHECK(files_in(directory.path() / "calls") == CallFiles::most_files);

    // Files of an earlier process with the same process id.
    CallFiles again((directory.path() / "calls").string(), Place{"PLUGIN_CALL_FILES"});
    CHECK(again.write(a_call(), of_another) == "no more calls of 'vendor/acme' are written: '" +
                                                   (directory.path() / "calls").string() +
                                                   "' already has 3 of a process with this id");
    CHECK_FALSE(again.takes(of_another));
    CHECK(files_in(directory.path() / "calls") == CallFiles::most_files);
}

TEST_CASE("calls take no more bytes than are left, and the log says so once") {
    CallFiles files("/nonexistent", Place{"PLUGIN_CALL_FILES"}, 3 << 20);
    std::string told;
    CHECK(files.reserve(2 << 20, &told));
    CHECK(told.empty());
    CHECK_FALSE(files.reserve(2 << 20, &told));
    CHECK(told == "the call is not written: it has 2.0 MiB, but the files of this process have 1.0 MiB left; further "
                  "calls that are too large are left out silently");
    told.clear();
    CHECK_FALSE(files.reserve(2 << 20, &told));
    CHECK(told.empty());
    CHECK(files.reserve(1 << 20, &told));
}

TEST_CASE("calls of given numbers are written under their numbers") {
    const TemporaryDirectory directory;
    const std::string folder = (directory.path() / "calls").string();
    CallFiles files(folder + ";gelu@2; all @ 1..3;", Place{"PLUGIN_CALL_FILES"});
    REQUIRE(files.numbers_for("gelu") != nullptr);
    CHECK(files.numbers_for("gelu")->first == 2);
    CHECK(files.numbers_for("gelu")->last == 2);
    REQUIRE(files.numbers_for("silu") != nullptr);
    CHECK(files.numbers_for("silu")->first == 1);
    CHECK(files.numbers_for("silu")->last == 3);
    CHECK(CallFiles(folder, Place{"x"}).numbers_for("gelu") == nullptr);
    CHECK(CallFiles(folder + ";gelu@1", Place{"x"}).numbers_for("silu") == nullptr);
    const std::string path =
        folder + "/acme.scale-vendor-acme-cuda-0-" + std::to_string(::getpid()) + "-call-17.safetensors";
    CHECK(files.write(a_call(), 17) == "'" + path + "' now has call 17 of 'vendor/acme', and plugin-run replays it");
    CHECK(files::read_safetensors_metadata(path).at("op") == "acme.scale");
}

TEST_CASE("a file that cannot be written is told once, leaves nothing, and is the last that is tried") {
    const TemporaryDirectory directory;
    CallFiles files((directory.path() / "calls").string(), Place{"PLUGIN_CALL_FILES"});
    std::atomic<uint32_t> count{0}, of_another{0};
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit little{4, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
    const std::string why = files.write(a_call(), count); // as on a full disk
    const std::string again = files.write(a_call(), of_another);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(why == "the call is not written, and no later call will be: '" + path_in(directory, 1) +
                     "' cannot be written: File too large");
    CHECK(again.empty());
    CHECK_FALSE(files.takes(of_another));
    CHECK(files_in(directory.path() / "calls") == 0);
}

TEST_CASE("a call with a dtype that the format lacks is not written, and others are") {
    const TemporaryDirectory directory;
    CallFiles files((directory.path() / "calls").string(), Place{"PLUGIN_CALL_FILES"});
    std::atomic<uint32_t> count{0}, of_another{0};
    CallFile call = a_call();
    call.tensors[0].dtype = opdock_dtype_pack({kDLComplex, 64, 1});
    CHECK(files.write(call, count).starts_with("the call is not written: .safetensors cannot hold "));
    CHECK_FALSE(files.takes(count));
    CHECK(files.takes(of_another));
    CHECK(files.write(a_call(), of_another).ends_with("replays it"));
}

TEST_CASE("the folder of calls is an absolute path") {
    for (const char *const wrong : {"calls", "", "/var/tmp/\x1b"}) {
        const auto error = thrown_by([&] { CallFiles(wrong, Place{"PLUGIN_CALL_FILES"}); });
        CHECK(error.status() == OPDOCK_INVALID_POLICY);
        CHECK(std::string(error.what())
                  .starts_with("PLUGIN_CALL_FILES, column 1: expected the absolute path of a folder, such as "
                               "/var/tmp/calls; found "));
    }
}
