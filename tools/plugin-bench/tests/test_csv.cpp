#include "csv.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "documents.hpp"
#include "rates.hpp"

using namespace opdock::plugin_bench;

TEST_CASE("fields are in quotes where they have to be, and are never a formula") {
    CHECK(csv_field("plain") == "plain");
    CHECK(csv_field("a,b") == "\"a,b\"");
    CHECK(csv_field("say \"so\"") == "\"say \"\"so\"\"\"");
    CHECK(csv_field("two\nlines") == "\"two\nlines\"");
    CHECK(csv_field("=1+1") == "'=1+1");
    CHECK(csv_field("@x,y") == "\"'@x,y\"");
    CHECK(csv_field("").empty());
}

TEST_CASE("there is a row for each implementation, with as many fields as the head has") {
    nlohmann::json document = every_outcome();
    add_rates(document);
    const std::string text = render_csv(document);
    CHECK(text.starts_with("device,op,call,bytes,flops,impl_id,kind,outcome,microseconds,low,high,spread,samples,batch,"
                           "bytes_per_second,of_copy,flops_per_second,of_matmul,roofline\n"));
    CHECK(std::count(text.begin(), text.end(), '\n') == 5);
    CHECK(text.find("cpu:0,norm,\"norm input=f32[4,8] eps=1e-6\",256,,vendor.acme,vendor,declined,,,,,,,,,,,\n") !=
          std::string::npos);
}
