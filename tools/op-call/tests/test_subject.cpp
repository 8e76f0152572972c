#include "op-call/subject.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace opdock::op_call;

TEST_CASE("a subject and its JSON have the same label") {
    const Subject subject{"norm", "default.cpu", {{"input", "f32[4,8]"}, {"weight", "f32[8]"}}, {{"eps", "1e-6"}}};
    CHECK(label_of(subject) == "norm input=f32[4,8] weight=f32[8] eps=1e-6");
    const nlohmann::json json = subject_json(subject);
    CHECK(json["inputs"][1] == nlohmann::json({{"name", "weight"}, {"source", "f32[8]"}}));
    CHECK(json["outputs"].empty());
    CHECK(label_of(json) == label_of(subject));
}

TEST_CASE("a subject that asks for outputs is another one") {
    const Subject subject{"norm", "", {{"input", "f32[4,8]"}}, {}, {"rsigma", "mu"}};
    CHECK(label_of(subject) == "norm input=f32[4,8] +rsigma +mu");
    nlohmann::json json = subject_json(subject);
    CHECK(json["outputs"] == nlohmann::json({"rsigma", "mu"}));
    CHECK(label_of(json) == label_of(subject));
    json.erase("outputs"); // as in older documents
    CHECK(label_of(json) == "norm input=f32[4,8]");
}
