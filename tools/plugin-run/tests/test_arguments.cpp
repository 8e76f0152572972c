#include "arguments.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "op-call/tests/signatures.hpp"

using namespace opdock::plugin_run;
using opdock::cli::UsageError;
using opdock::op_call::MadeUp;

static Request rmsnorm_request() {
    Request request;
    request.op = "rmsnorm_fwd";
    request.inputs = {{"weight", "ones:f32[8]"}, {"input", "random:f32[4,8]"}};
    return request;
}

// The message of the UsageError, or "" if there is none.
static std::string complaint(const Request &request, const Signature &signature) {
    try {
        match(request, signature);
        return "";
    } catch (const UsageError &error) {
        return error.what();
    }
}

TEST_CASE("inputs are put in the signature's order by their names") {
    const Arguments arguments = match(rmsnorm_request(), rmsnorm());
    REQUIRE(arguments.inputs.size() == 2);
    CHECK(std::get<MadeUp>(arguments.inputs[0].at(0)).shape == std::vector<int64_t>{4, 8});
    CHECK(std::get<MadeUp>(arguments.inputs[1].at(0)).shape == std::vector<int64_t>{8});
}

TEST_CASE("missing inputs are all named, with the signature") {
    Request request;
    request.inputs = {{"noop", "zeros:i32[1]"}};
    const std::string text = complaint(request, sgd());
    CHECK(text.find("sgd needs 'grads', 'params', 'momentum'\n  sgd(grads: ") == 0);
    CHECK(text.find("  > --in grads=SOURCE") != std::string::npos);
    CHECK(text.find("SOURCE is FILE.npy") != std::string::npos);
}

TEST_CASE("an argument that the op does not have is named, with near misses") {
    Request request = rmsnorm_request();
    request.inputs.push_back({"wieght", "ones:f32[8]"});
    CHECK(
        complaint(request, rmsnorm()).find("--in 'wieght': rmsnorm_fwd has no such argument; did you mean 'weight'?") ==
        0);
    CHECK(complaint(request, rmsnorm()).back() != '\n');
    request = rmsnorm_request();
    request.attributes = {{"epsilon", "1"}};
    CHECK(complaint(request, rmsnorm()).find("--attr 'epsilon': rmsnorm_fwd has no such argument") == 0);
    request = rmsnorm_request();
    request.outputs = {{"input", ""}};
    CHECK(complaint(request, rmsnorm()).find("--output 'input': rmsnorm_fwd has it as an input") == 0);
}

TEST_CASE("only lists take an argument more than once") {
    Request request = rmsnorm_request();
    request.inputs.push_back({"input", "ones:f32[8]"});
    CHECK(complaint(request, rmsnorm()) == "--in input was given twice, but is not a list");
    request = rmsnorm_request();
    request.attributes = {{"eps", "1"}, {"eps", "2"}};
    CHECK(complaint(request, rmsnorm()) == "--attr eps was given twice");
    request = rmsnorm_request();
    request.outputs = {{"output", ""}, {"output", ""}};
    CHECK(complaint(request, rmsnorm()) == "--output output was given twice, but is not a list");

    Request list;
    list.inputs = {
        {"grads", "ones:f32[2]"}, {"params", "ones:f32[2]"}, {"grads", "ones:f32[3]"}, {"params", "ones:f32[3]"}};
    list.attributes = {{"momentum", "0.9"}};
    const Arguments arguments = match(list, sgd());
    CHECK(arguments.inputs[0].size() == 2);
    CHECK(std::get<MadeUp>(arguments.inputs[0][1]).shape == std::vector<int64_t>{3});
    CHECK(arguments.inputs[2].empty());
}

TEST_CASE("an input that the op writes can be an output") {
    Request list;
    list.inputs = {{"grads", "ones:f32[2]"}, {"params", "ones:f32[2]"}};
    list.attributes = {{"momentum", "0.9"}};
    list.outputs = {{"params", "p.safetensors"}, {"params", "p.safetensors"}};
    const Arguments arguments = match(list, sgd());
    REQUIRE(arguments.written_inputs[1].size() == 2);
    CHECK(arguments.written_inputs[1][0].file->tensor == "params");
    CHECK(arguments.written_inputs[1][1].file->tensor == "params.1");
    CHECK(arguments.written_inputs[1][1].element == 1);
}

TEST_CASE("two outputs never go to one place") {
    Request request = rmsnorm_request();
    request.outputs = {{"output", "y.npy"}, {"rsigma", "y.npy"}};
    CHECK(complaint(request, rmsnorm()) == "two outputs would be written to 'y.npy'");
    request.outputs = {{"output", "y.safetensors:a"}, {"rsigma", "y.safetensors:a"}};
    CHECK(complaint(request, rmsnorm()) == "two outputs would be written to 'y.safetensors:a'");
    request.outputs = {{"output", "y.npy"}, {"rsigma", "./y.npy"}};
    CHECK(complaint(request, rmsnorm()) == "two outputs would be written to './y.npy'");
    request.outputs = {{"output", "y.safetensors:a"}, {"rsigma", "nowhere/../y.safetensors:a"}};
    CHECK(complaint(request, rmsnorm()) == "two outputs would be written to 'nowhere/../y.safetensors:a'");
    request.outputs = {{"output", "y.safetensors"}, {"rsigma", "y.safetensors"}};
    CHECK(complaint(request, rmsnorm()).empty());
}
