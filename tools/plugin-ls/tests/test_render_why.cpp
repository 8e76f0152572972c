#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "documents.hpp"
#include "render.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;
using opdock::cli::Page;

static json decision() {
    return json::parse(R"({"op": "rmsnorm_fwd", "device": "cpu:0", "dtypes": "bf16,f32", "strict": false,
        "order": ["vendor", "default"], "order_source": "PLUGIN_PREFER",
        "chain": ["vendor.acme", "default.cpu"],
        "kept": [{"impl_id": "default.cpu", "rule": "order token 'default'"},
                 {"impl_id": "vendor.acme", "rule": "order token 'vendor'"}],
        "dropped": [{"impl_id": "vendor.evil", "rule": "deny list", "reason": "PLUGIN_DENY_VENDORS names 'evil'"}]})");
}

TEST_CASE("a decision names the rule for every implementation") {
    CHECK(render_why(decision(), plain) == R"(rmsnorm_fwd on cpu:0, dtypes bf16,f32
  order   vendor > default, from PLUGIN_PREFER
  strict  no: the next is tried when one declines or fails

TRIED in this order
  1  vendor.acme  order token 'vendor'
  2  default.cpu  order token 'default'

DROPPED
  vendor.evil  deny list
      PLUGIN_DENY_VENDORS names 'evil'
)");
}

TEST_CASE("a decision that keeps nobody says so") {
    json nobody = decision();
    nobody["chain"] = json::array();
    nobody["kept"] = json::array();
    nobody["dtypes"] = nullptr;
    nobody["strict"] = true;
    const std::string text = render_why(nobody, plain);
    CHECK(text.find("rmsnorm_fwd on cpu:0, any dtypes\n") == 0);
    CHECK(text.find("nothing would serve it") != std::string::npos);
    CHECK(text.find("strict  yes: the first serves the call, or the call fails\n") != std::string::npos);
}

TEST_CASE("the decision for a call shows each config, where it came from and what there is to tune") {
    json call = decision();
    call["dropped"] = json::array();
    call["configs"] = json::parse(R"([
        {"impl_id": "vendor.acme", "config": {"block": 256, "fast": 1}, "source": "pinned",
         "origin": "acme.tune.yaml:7:9", "dtypes": "bf16,f32", "key": "n=4096", "bucketed": "n: log2", "candidates": 12,
         "tune_file": "/opt/acme.tune.yaml"},
        {"impl_id": "default.cpu", "config": {"grain": 1}, "source": "defaults", "origin": "", "dtypes": "bf16,f32",
         "excluded": ["pinned, cpu.tune.yaml:5: grain=8 is excluded by where 'grain <= n'"],
         "key": "", "bucketed": "", "candidates": 0, "tune_file": ""},
        {"impl_id": "reference.cpp", "refused": "UNSUPPORTED: n is odd"}])");
    const std::string text = render_why(call, Page(false, 100));
    CHECK(text.find(R"(
CONFIGS of implementations with knobs
  vendor.acme    block=256 fast=1
      from: pinned, acme.tune.yaml:7:9
      key: n=4096 (n: log2)
      to tune: 12 configs of /opt/acme.tune.yaml
  default.cpu    grain=1
      from: defaults
      pinned, cpu.tune.yaml:5: grain=8 is excluded by where 'grain <= n'
      key: the same for all shapes
      nothing to tune: there is no tune file
  reference.cpp  would not take the call
      UNSUPPORTED: n is odd
)") != std::string::npos);
}
