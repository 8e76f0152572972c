#include <doctest/doctest.h>

#include "documents.hpp"
#include "render.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;
using opdock::cli::Page;

TEST_CASE("every setting names its source") {
    CHECK(render_policy(small_document()["policy"], plain) == R"(  setting          value          source
  prefer           vendor         from PLUGIN_PREFER
  strict           no             built-in
  allow_vendors    everybody      built-in
  deny_vendors     evil           from PLUGIN_DENY_VENDORS
  per_op.gelu      reference      from /etc/opdock/policy.yaml
  retry_failed     60 s           built-in
  fallback_to_cpu  no             built-in
  require          deterministic  built-in
  require.gelu     nothing        built-in
  trust            warn           from PLUGIN_TRUST
  trusted_sha256   none           built-in
  default_plugins  opdock's own   built-in
)");
}

TEST_CASE("an empty allow list reads differently from none") {
    json policy = small_document()["policy"];
    policy["allow_vendors"] = json::array();
    CHECK(render_policy(policy, plain).find("allow_vendors    nobody") != std::string::npos);
}

TEST_CASE("digests stand below their number, so that the source stays in its column") {
    json policy = small_document()["policy"];
    policy["trusted_sha256"] = {std::string(64, 'a'), std::string(64, 'b')};
    policy["sources"]["trusted_sha256"] = "/etc/opdock/policy.yaml:1:1";
    CHECK(render_policy(policy, plain)
              .find("  trusted_sha256   2 listed       from /etc/opdock/policy.yaml:1:1\n      " +
                    std::string(64, 'a') + "\n      " + std::string(64, 'b') + "\n") != std::string::npos);
}

TEST_CASE("variables are listed whether they are set or not") {
    const json variables = json::parse(R"([
        {"name": "PLUGIN_PREFER", "value": "vendor", "default": "default", "is_policy": true},
        {"name": "PLUGIN_STRICT", "value": null, "default": "0", "is_policy": true},
        {"name": "PLUGIN_MODULES", "value": "", "default": "not set", "is_policy": false},
        {"name": "PLUGIN_TUNE", "value": null, "default": "cached", "is_policy": false}])");
    CHECK(render_variables(variables, plain) == R"(  variable        source       value
  PLUGIN_PREFER   environment  vendor
  PLUGIN_STRICT   not set
  PLUGIN_MODULES  environment  (empty)
  PLUGIN_TUNE     built-in     cached
)");
}

TEST_CASE("search paths name what brought them, in order") {
    CHECK(render_paths(small_document()["paths"], plain) == "  folder or file           named by\n"
                                                            "  /opt/acme/libacme.so     PLUGIN_MODULES\n"
                                                            "  /usr/lib/opdock/plugins  system\n");
}

TEST_CASE("a section for a device is shown with the device's name") {
    json policy = small_document()["policy"];
    json section = policy;
    section["prefer"] = "reference";
    policy["devices"]["cuda:0"] = section;
    CHECK(render_policy(policy, plain).find("\n  cuda:0 prefer           reference      from PLUGIN_PREFER\n") !=
          std::string::npos);
}
