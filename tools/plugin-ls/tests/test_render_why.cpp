#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "render.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;
using opdock::cli::Page;

static const Page plain(false);

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
