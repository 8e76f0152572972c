#include "op-call/call_file.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "metadata.hpp"
#include "op-call/element.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::op_call;
using opdock::test::TemporaryDirectory;

namespace {

files::Metadata metadata() {
    return {{"format", "opdock.call/1"},
            {"op", "test.join"},
            {"device", "cuda:1"},
            {"implementation", "vendor.acme"},
            {"shadow", "reference.cpp"},
            {"difference", "in 'output', element 0 is 1, expected 2"},
            {"attributes", R"({"by":"2.5","name":"a=b"})"},
            {"outputs", R"(["extra"])"},
            {"strides", R"({"input":[1,2]})"}};
}

files::TensorData numbers(const std::string &name, std::vector<int64_t> shape) {
    const HostTensor made = make_up(std::get<MadeUp>(parse_source("spaced:f32[6]:0..5")), 0);
    files::TensorData data = to_file(made, name);
    data.shape = std::move(shape);
    return data;
}

std::vector<double> values_of(const HostTensor &tensor, size_t count) {
    std::vector<double> values;
    for (size_t i = 0; i < count; ++i) {
        values.push_back(load_element(tensor.dtype, tensor.memory.get(), i));
    }
    return values;
}

// inputs: T[...], a list; scale: T[...], optional.
Signature joins(bool has_list) {
    Signature signature;
    signature.op = "test.join";
    signature.text = "test.join(...)";
    Parameter input;
    input.name = "input";
    input.list = has_list;
    Parameter scale;
    scale.name = "scale";
    scale.optional = true;
    signature.inputs = {input, scale};
    return signature;
}

std::string failure_of(const std::string &path) {
    try {
        (void)read_call_file(path);
    } catch (const cli::Failure &failure) {
        return failure.what();
    }
    return "";
}

} // namespace

TEST_CASE("the file of a call says what was called, and what came of it") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "call.safetensors";
    files::write_safetensors(path, std::vector{numbers("input", {2, 3}), numbers("program.output", {6})}, metadata());
    const CallFile file = read_call_file(path);
    CHECK(file.op == "test.join");
    CHECK(file.device_type() == "cuda");
    CHECK(file.impl == "vendor.acme");
    REQUIRE(file.attributes.size() == 2);
    CHECK(file.attributes[0].name == "by");
    CHECK(file.attributes[0].text == "2.5");
    CHECK(file.attributes[1].text == "a=b");
    CHECK(file.outputs == std::vector<std::string>{"extra"});
    CHECK(file.strides.at("input") == std::vector<int64_t>{1, 2});
    CHECK(file.find("program.output") != nullptr);
    CHECK(file.find("shadow.output") == nullptr);
    CHECK(file.text() == "'vendor.acme' on cuda:1; its shadow 'reference.cpp' disagreed: in 'output', element 0 is 1, "
                         "expected 2");
}

TEST_CASE("the inputs of a call's file are those of the op, and lists have their order") {
    CallFile file;
    file.path = "call.safetensors";
    file.tensors = {numbers("input.1", {6}), numbers("input", {2, 3}), numbers("program.output", {6})};
    const std::vector<Tensors> inputs = inputs_of(file, joins(true));
    REQUIRE(inputs.size() == 2);
    REQUIRE(inputs[0].size() == 2);
    CHECK(inputs[0][0].shape == std::vector<int64_t>{2, 3});
    CHECK(inputs[0][1].shape == std::vector<int64_t>{6});
    CHECK(inputs[1].empty());
    CHECK_THROWS_WITH_AS(inputs_of(file, joins(false)),
                         "'call.safetensors': it has tensors that op 'test.join' does not take: test.join(...)",
                         cli::Failure);
    file.tensors = {numbers("scale", {6})};
    CHECK_THROWS_WITH_AS(inputs_of(file, joins(false)),
                         "'call.safetensors': it has no tensor 'input', which op 'test.join' takes: test.join(...)",
                         cli::Failure);
}

TEST_CASE("elements are laid out by strides and gathered again; strides that no tensor has change nothing") {
    CallFile file;
    file.tensors = {numbers("input", {2, 3})};
    const std::vector<double> dense = {0, 1, 2, 3, 4, 5};
    const auto laid = [&](const std::vector<int64_t> &strides) {
        file.strides["input"] = strides;
        HostTensor tensor = std::move(inputs_of(file, joins(false))[0][0]);
        lay_out(file, "input", tensor);
        return tensor;
    };
    HostTensor transposed = laid({1, 2});
    CHECK(values_of(transposed, 6) == std::vector<double>{0, 3, 1, 4, 2, 5});
    CHECK(transposed.strides == std::vector<int64_t>{1, 2});
    HostTensor padded = laid({4, 1});
    CHECK(padded.bytes == 7 * sizeof(float));
    CHECK(values_of(padded, 7) == std::vector<double>{0, 1, 2, 0, 3, 4, 5});
    for (HostTensor *tensor : {&transposed, &padded}) {
        gather(*tensor);
        CHECK(tensor->strides.empty());
        CHECK(tensor->bytes == 6 * sizeof(float));
        CHECK(values_of(*tensor, 6) == dense);
    }
    for (const std::vector<int64_t> &none : {std::vector<int64_t>{-3, 1}, {1}, {INT64_MAX, 1}, {INT64_MAX / 2, 1}}) {
        CAPTURE(none[0]);
        const HostTensor tensor = laid(none);
        CHECK(tensor.strides.empty());
        CHECK(values_of(tensor, 6) == dense);
    }
}

TEST_CASE("what is no file of a call is said with what was expected") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "call.safetensors";
    const auto failure_with = [&](const std::string &key, const std::string &value) {
        files::Metadata changed = metadata();
        changed[key] = value;
        files::write_safetensors(path, {}, changed);
        return failure_of(path);
    };
    CHECK(failure_with("format", "opdock.call/2").find("has the format 'opdock.call/2', expected opdock.call/1") !=
          std::string::npos);
    for (const char *const key : {"attributes", "outputs", "strides"}) {
        for (const char *const value : {"{", "7", R"({"a":{}})"}) {
            CAPTURE(key);
            CAPTURE(value);
            CHECK(failure_with(key, value).find("malformed metadata: ") != std::string::npos);
        }
    }
    for (const char *const key : {"op", "device", "implementation", "attributes", "outputs", "strides"}) {
        files::Metadata without = metadata();
        without.erase(key);
        files::write_safetensors(path, {}, without);
        CHECK(failure_of(path) == "'" + path + "': its metadata has no '" + key + "'");
    }
    CHECK(failure_of(path + ".absent").find("no such file") != std::string::npos);
}
