#include "policy/policy_yaml.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "paths.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::TemporaryDirectory;
using opdock::test::thrown_by;

namespace {

PolicyFile parse(std::string_view text, Enforce enforce = Enforce::accept) {
    return parse_policy_file(text, "p.yaml", enforce);
}

std::string refusal(std::string_view text) {
    return message_of([&] { parse(text); });
}

} // namespace

TEST_CASE("the policy file we ship is valid and changes nothing") {
    const PolicyFile file =
        read_policy_file((opdock::test::source_folder() / "configs/policy.yaml").string(), Enforce::accept);
    CHECK(file.unknown_keys.empty());
    CHECK(file.enforce == Policy());
    CHECK(file.policy.devices.empty());
    CHECK(file.policy.everywhere.prefer->value == Kind::default_);
    CHECK_FALSE(file.policy.everywhere.strict->value);
    CHECK_FALSE(file.policy.everywhere.allow_vendors);
    CHECK_FALSE(file.policy.everywhere.deny_vendors);
    CHECK(file.policy.everywhere.per_op.empty());
}

TEST_CASE("the policy file we ship stays valid when its examples are taken out of their comments") {
    std::ifstream stream(opdock::test::source_folder() / "configs/policy.yaml");
    std::string text;
    bool setting_seen = false; // the comments at the top are prose
    for (std::string line; std::getline(stream, line);) {
        setting_seen = setting_seen || (!line.empty() && line[0] != '#');
        const std::size_t hash = line.find("# ");
        const std::string rest = hash == std::string::npos ? "" : line.substr(hash + 2);
        const std::size_t name_end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_:0 ");
        const bool example = setting_seen && rest.substr(0, name_end).find(':') != std::string::npos &&
                             rest.find(". ") == std::string::npos && rest.find(" the ") == std::string::npos &&
                             rest.find("true:") == std::string::npos && rest.find("Only in") == std::string::npos;
        text += (example ? line.erase(hash, 2) : line) + "\n";
    }
    CAPTURE(text);
    const PolicyFile file = parse(text);
    CHECK(file.unknown_keys.empty());
    CHECK(file.policy.everywhere.allow_vendors->value == Vendors{"acme", "beta"});
    CHECK(order_text(file.policy.everywhere.per_op.at("rmsnorm_fwd").value) == "vendor:acme|default");
    CHECK(file.policy.devices.at("cuda:0").strict->value);
    CHECK(file.enforce.everywhere.deny_vendors->value == Vendors{"gamma"});
}

TEST_CASE("every setting is read, with file, line and column as its source") {
    const PolicySection section = parse("prefer: Vendor\n"
                                        "strict: ON\n"
                                        "allow_vendors: [ACME, beta, acme]\n"
                                        "deny_vendors: []\n"
                                        "per_op:\n"
                                        "  gelu: [vendor:Acme, impl:vendor.beta, flagos]\n"
                                        "  silu: reference|default\n")
                                      .policy.everywhere;
    CHECK(section.prefer == Item<Kind>{Kind::vendor, "p.yaml:1:1"});
    CHECK(section.strict == Item<bool>{true, "p.yaml:2:1"});
    CHECK(section.allow_vendors == Item<Vendors>{{"acme", "beta"}, "p.yaml:3:1"});
    CHECK(section.deny_vendors == Item<Vendors>{{}, "p.yaml:4:1"});
    CHECK(order_text(section.per_op.at("gelu").value) == "vendor:acme|impl:vendor.beta|flagos");
    CHECK(section.per_op.at("gelu").source == "p.yaml:6:3");
    CHECK(order_text(section.per_op.at("silu").value) == "reference|default");
}

TEST_CASE("settings may be spelled as in the environment") {
    const PolicySection section =
        parse("allow_vendors: acme, beta\ndeny_vendors: ''\nper_op: gelu=vendor|default;silu=reference\n")
            .policy.everywhere;
    CHECK(section.allow_vendors->value == Vendors{"acme", "beta"});
    CHECK(section.deny_vendors->value.empty());
    CHECK(order_text(section.per_op.at("gelu").value) == "vendor|default");
    CHECK(section.per_op.size() == 2);
}

TEST_CASE("contracts are a list, a map from ops to more, or both") {
    const PolicySection section = parse("require:\n"
                                        "  - deterministic\n"
                                        "  - gelu: batch_invariant\n"
                                        "    silu: [deterministic, batch_invariant]\n")
                                      .policy.everywhere;
    CHECK(section.require == Item<Contracts>{{OPDOCK_IMPL_DETERMINISTIC}, "p.yaml:1:1"});
    CHECK(section.require_per_op.at("gelu") == Item<Contracts>{{OPDOCK_IMPL_BATCH_INVARIANT}, "p.yaml:3:5"});
    CHECK(section.require_per_op.at("silu").value == Contracts{5});
    for (const char *text :
         {"require: {gelu: deterministic}\n", "require: [gelu: deterministic]\n", "require: gelu=deterministic\n"}) {
        CAPTURE(text);
        CHECK_FALSE(parse(text).policy.everywhere.require);
        CHECK(parse(text).policy.everywhere.require_per_op.at("gelu").value == Contracts{1});
    }
    CHECK(parse("require: []\n").policy.everywhere.require->value == Contracts{});
    CHECK(parse("enforce: {devices: {cuda: {require: deterministic}}}\n").enforce.devices.at("cuda").require->source ==
          "p.yaml:1:28 (enforced)");
    CHECK(refusal("require: [determinist]\n") ==
          "p.yaml:1:11: expected a contract ('deterministic' or 'batch_invariant'), found 'determinist'; did you mean "
          "'deterministic'?");
    CHECK(refusal("require:\n") ==
          "p.yaml:1:1: expected a list of contracts, found nothing; write [] for none, or leave the setting out");
    CHECK(refusal("require: [gelu: [], gelu: []]\n") == "p.yaml:1:21: op 'gelu' is given twice; keep one list");
    CHECK(refusal("require: {gelu: {deterministic: 1}}\n") ==
          "p.yaml:1:17: expected a list of contracts such as [deterministic, batch_invariant], found a map");
}

TEST_CASE("orders are read under the name that plugins of vLLM and SGLang have for them") {
    const PolicyFile file = parse("prefer: vendor\n"
                                  "op_backends:\n"
                                  "  rmsnorm_fwd:\n"
                                  "    - vendor\n"
                                  "    - flagos\n"
                                  "  silu_and_mul: [vendor:acme, flagos, reference]\n"
                                  "flagos_blacklist:\n"
                                  "  - mm\n");
    CHECK(order_text(file.policy.everywhere.per_op.at("rmsnorm_fwd").value) == "vendor|flagos");
    CHECK(order_text(file.policy.everywhere.per_op.at("silu_and_mul").value) == "vendor:acme|flagos|reference");
    REQUIRE(file.unknown_keys.size() == 1);
    CHECK(file.unknown_keys[0] == "p.yaml:7:1: unknown key 'flagos_blacklist'; a policy has no such list: give these "
                                  "ops an order without 'flagos' in 'per_op'");
    CHECK(refusal("per_op:\n  gelu: default\nop_backends:\n  silu: default\n") ==
          "p.yaml:3:1: 'op_backends' is another name of 'per_op'; keep one of them");
}

TEST_CASE("an op that is given twice, by its name and another one, is told with its place") {
    CHECK(refusal("per_op:\n  gelu_bwd: default\n  dgelu: vendor\n") ==
          "p.yaml:3:3: op 'gelu_bwd' is given twice; keep one order");
    CHECK(refusal("require:\n  gelu_bwd: deterministic\n  dgelu: []\n") ==
          "p.yaml:3:3: op 'gelu_bwd' is given twice; keep one list");
}

TEST_CASE("prefer decides over prefer_vendor in one file, whichever comes first") {
    CHECK(parse("prefer_vendor: 1\nprefer: reference\n").policy.everywhere.prefer->value == Kind::reference);
    CHECK(parse("prefer: reference\nprefer_vendor: 1\n").policy.everywhere.prefer->value == Kind::reference);
    CHECK(parse("prefer_vendor: yes\n").policy.everywhere.prefer == Item<Kind>{Kind::vendor, "p.yaml:1:1"});
}

TEST_CASE("sections for devices hold the same settings, and their names compare without case") {
    const Policy policy = parse("strict: 0\n"
                                "devices:\n"
                                "  CUDA:\n"
                                "    prefer: vendor\n"
                                "    per_op: {gelu: default}\n"
                                "  cuda:0:\n"
                                "    strict: 1\n"
                                "  hip: {deny_vendors: [acme]}\n")
                              .policy;
    REQUIRE(policy.devices.size() == 3);
    CHECK(policy.devices.at("cuda").prefer->source == "p.yaml:4:5");
    CHECK(policy.devices.at("cuda").per_op.contains("gelu"));
    CHECK(policy.devices.at("cuda:0").strict->value);
    CHECK(policy.devices.at("hip").deny_vendors->value == Vendors{"acme"});
    CHECK_FALSE(policy.everywhere.strict->value);
}

TEST_CASE("the system's file can enforce, devices included") {
    const PolicyFile file = parse("prefer: vendor\n"
                                  "enforce:\n"
                                  "  strict: true\n"
                                  "  devices:\n"
                                  "    cuda: {allow_vendors: []}\n");
    CHECK(file.enforce.everywhere.strict == Item<bool>{true, "p.yaml:3:3 (enforced)"});
    CHECK(file.enforce.devices.at("cuda").allow_vendors->value.empty());
    CHECK_FALSE(file.policy.everywhere.strict);
    CHECK_FALSE(file.enforce.everywhere.prefer);
    CHECK(file.unknown_keys.empty());
}

TEST_CASE("elsewhere `enforce` is an unknown key that says where it belongs") {
    const PolicyFile file = parse("enforce: {strict: true}\n", Enforce::refuse);
    CHECK(file.enforce == Policy());
    REQUIRE(file.unknown_keys.size() == 1);
    CHECK(file.unknown_keys[0] ==
          "p.yaml:1:1: unknown key 'enforce'; only the system's policy file enforces, at its top level");
}

TEST_CASE("a key that only a variable has says so") {
    const PolicyFile file = parse_policy_file("tune: online\n", "p.yaml", Enforce::refuse);
    REQUIRE(file.unknown_keys.size() == 1);
    CHECK(file.unknown_keys[0] == "p.yaml:1:1: unknown key 'tune'; policy files cannot set it, only an environment "
                                  "variable that ends in TUNE can");
}

TEST_CASE("unknown keys are collected with their position and the nearest known one") {
    const PolicyFile file = parse("prefre: vendor\n"
                                  "devices:\n"
                                  "  cuda:\n"
                                  "    deny_vendor: [acme]\n"
                                  "    devices: {}\n"
                                  "enforce:\n"
                                  "  enforce: {}\n"
                                  "timeout: 3\n");
    REQUIRE(file.unknown_keys.size() == 5);
    CHECK(file.unknown_keys[0] == "p.yaml:1:1: unknown key 'prefre'; did you mean 'prefer'?");
    CHECK(file.unknown_keys[1] == "p.yaml:8:1: unknown key 'timeout'");
    CHECK(file.unknown_keys[2] == "p.yaml:4:5: unknown key 'deny_vendor'; did you mean 'deny_vendors'?");
    CHECK(file.unknown_keys[3] == "p.yaml:5:5: unknown key 'devices'; sections for devices do not nest");
    CHECK(file.unknown_keys[4].find("only the system's policy file enforces, at its top level") != std::string::npos);
    // Where `enforce` is allowed, an unknown key may be a misspelling of it.
    CHECK(file.unknown_enforced ==
          std::vector<std::string>{file.unknown_keys[0], file.unknown_keys[1], file.unknown_keys[4]});
    CHECK(parse("prefre: vendor\n", Enforce::refuse).unknown_keys.size() == 1);
    CHECK(parse("prefre: vendor\n", Enforce::refuse).unknown_enforced.empty());
}

TEST_CASE("an empty file, and keys whose content is commented out, set nothing") {
    CHECK(parse("").policy == Policy());
    const PolicyFile file = parse("per_op:\n  # gelu: vendor\ndevices:\nenforce:\n");
    CHECK(file.policy == Policy());
    CHECK(file.enforce == Policy());
    CHECK(parse("devices:\n  cuda:\n").policy.devices.at("cuda") == PolicySection());
}

TEST_CASE("every wrong value is an error with file, line, column and what was expected") {
    const struct {
        const char *text, *message;
    } cases[] = {
        {"- prefer\n", "p.yaml:1:1: expected a map of settings, found a list"},
        {"vendor\n", "p.yaml:1:1: expected a map of settings, found 'vendor'"},
        {"prefer: vendro\n", "p.yaml:1:9: expected 'default', 'vendor', 'reference', 'flagos' or 'measured', found "
                             "'vendro'; did you mean 'vendor'?"},
        {"prefer:\n", "p.yaml:1:1: expected one value, found nothing"},
        {"prefer: [vendor, default]\n", "p.yaml:1:9: expected one value, found a list"},
        {"strict: maybe\n", "p.yaml:1:9: expected 1/0, true/false, yes/no or on/off, found 'maybe'"},
        {"strict: {on: 1}\n", "p.yaml:1:9: expected one value, found a map"},
        {"prefer: vendor\nprefer_vendor: 2\n", "p.yaml:2:16: expected 1/0"},
        {"allow_vendors:\n", "p.yaml:1:1: expected a list of names, found nothing; write [] for nobody, or leave the "
                             "setting out"},
        {"deny_vendors: {acme: 1}\n", "p.yaml:1:15: expected a list of names, found a map"},
        {"deny_vendors:\n  - acme\n  - be ta\n", "p.yaml:3:7: unexpected ' ' in 'be ta'"},
        {"deny_vendors: [acme, [beta]]\n", "p.yaml:1:22: expected one value, found a list"},
        {"deny_vendors: [acme, '']\n", "p.yaml:1:23: expected the name of a vendor, found nothing"},
        {"deny_vendors: acme,,beta\n", "p.yaml:1:20: expected the name of a vendor, found nothing"},
        {"per_op: [gelu]\n", "p.yaml:1:9: expected a map from ops to orders, found a list"},
        {"per_op: gelu\n", "p.yaml:1:9: expected OP=TOKEN|TOKEN, found 'gelu'"},
        {"per_op: \"gelu=vendor;silu\"\n", "p.yaml:1:22: expected OP=TOKEN|TOKEN, found 'silu'"},
        {"per_op:\n  ge lu: vendor\n", "p.yaml:2:5: expected the name of an op"},
        {"per_op:\n  gelu:\n", "p.yaml:2:3: expected a list of tokens such as [vendor:acme, default], found nothing"},
        {"per_op:\n  gelu: []\n",
         "p.yaml:2:9: expected a list of tokens such as [vendor:acme, default], found an empty list"},
        {"per_op:\n  gelu: [vendor, refrence]\n", "p.yaml:2:18: expected a token"},
        {"per_op:\n  gelu: ['impl:a|b']\n", "p.yaml:2:17: unexpected '|' in 'impl:a|b'; write each token separately"},
        {"per_op:\n  gelu: [impl:a;b]\n", "p.yaml:2:16: unexpected ';' in 'impl:a;b'; write each token separately"},
        {"per_op:\n  gelu: vendor|refrence\n", "p.yaml:2:16: expected a token"},
        {"per_op:\n  gelu:\n    - vendor: acme\n",
         "p.yaml:3:7: found a map; a token has no space after ':', write 'vendor:acme'"},
        {"per_op:\n  gelu:\n    - vendor: \"a\\nb\"\n",
         "p.yaml:3:7: found a map; a token has no space after ':', write 'vendor:a\\x0ab'"},
        {"per_op:\n  gelu: default\n  gelu: vendor\n", "p.yaml:3:3: key 'gelu' is given twice; keep one"},
        {"devices: cuda\n", "p.yaml:1:10: expected a map of sections such as 'cuda' or 'cuda:0', found 'cuda'"},
        {"devices:\n  cuda: vendor\n", "p.yaml:2:9: expected a map of settings, found 'vendor'"},
        {"devices:\n  cuda:x: {}\n",
         "p.yaml:2:8: expected a device type, or type and index, such as 'cuda' or 'cuda:0', "
         "found 'cuda:x'"},
        {"devices:\n  'cuda:': {}\n", "p.yaml:2:9: expected a device type"},
        {"devices:\n  cuda:-1: {}\n", "p.yaml:2:8: expected a device type"},
        {"devices:\n  cuda:99999: {}\n", "p.yaml:2:8: expected a device type"},
        {"devices:\n  ':0': {}\n", "p.yaml:2:4: expected a device type"},
        {"devices:\n  cu da: {}\n", "p.yaml:2:3: expected a device type"},
        {"devices:\n  cuda: {}\n  CUDA: {}\n", "p.yaml:3:3: device 'cuda' is given twice; keep one section"},
        {"devices:\n  cuda:0: {}\n  cuda:00: {}\n", "p.yaml:3:3: device 'cuda:0' is given twice"},
        {"enforce: true\n", "p.yaml:1:10: expected a map of settings, found 'true'"},
        {"enforce:\n  strict: 3\n", "p.yaml:2:11: expected 1/0"},
        {"prefer: vendor\nprefer: default\n", "p.yaml:2:1: key 'prefer' is given twice; keep one"},
        {"strict: *on\n", "p.yaml:1:9: an alias (*name) without its anchor"},
    };
    for (const auto &[text, message] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        const std::string found = refusal(text);
        CAPTURE(found);
        CHECK(found.starts_with(message));
    }
}

TEST_CASE("all that is wrong in a policy file is told at once, a line each") {
    const std::string message = refusal("strict: maybe\n"
                                        "per_op:\n"
                                        "  gelu: [vendr, default, refrence]\n"
                                        "  silu: acme\n"
                                        "devices:\n"
                                        "  cuda: {prefer: vendro}\n");
    std::vector<std::string> lines;
    std::istringstream text(message);
    for (std::string line; std::getline(text, line);) {
        lines.push_back(line.substr(0, line.find(": ")));
    }
    CHECK(lines == std::vector<std::string>{"p.yaml:1:9", "p.yaml:3:10", "p.yaml:3:26", "p.yaml:4:9", "p.yaml:6:18"});
}

TEST_CASE("an order's key that is misspelt is hinted at under both of its names") {
    CHECK(parse("op_backend: {}\n").unknown_keys[0].ends_with("did you mean 'op_backends'?"));
    CHECK(parse("per_ops: {}\n").unknown_keys[0].ends_with("did you mean 'per_op'?"));
}

TEST_CASE("digests of trusted files are a list, in the machine's own file") {
    const auto refused = [](const char *digests) { return refusal("trusted_sha256: " + std::string(digests) + "\n"); };
    const std::string list = "p.yaml:1:17: expected a list of SHA-256 digests, found ";
    const std::string remedy = "; write [] for none, or leave the setting out";
    CHECK(refused("{a: b}") == list + "a map" + remedy);
    CHECK(refused("ab12") == list + "'ab12'" + remedy);
    CHECK(refused("[ab12]").starts_with("p.yaml:1:18: expected "));
}

TEST_CASE("a wrong policy file has the status of a wrong policy") {
    CHECK(thrown_by([] { parse("strict: 3"); }).status() == OPDOCK_INVALID_POLICY);
    CHECK(thrown_by([] { parse("["); }).status() == OPDOCK_INVALID_POLICY);
    CHECK(thrown_by([] { read_policy_file("/none", Enforce::accept); }).status() == OPDOCK_INVALID_POLICY);
}

TEST_CASE("what sections for devices list is bounded, with what holds there from elsewhere") {
    const auto with_sections = [](const std::string &above, int sections, const std::string &item) {
        std::string text = above + "devices:\n";
        for (int i = 0; i < sections; ++i) {
            text += " cuda:" + std::to_string(i) + ":\n  " + item;
            for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#')) {
                text.replace(at, 1, std::to_string(i));
            }
            text += "\n";
        }
        return text;
    };
    std::string names = "v0";
    for (int i = 1; i < 1000; ++i) {
        names += ",v" + std::to_string(i);
    }
    const std::string denied = "deny_vendors: " + names + "\n";
    CHECK_NOTHROW(parse(with_sections(denied, 99, "strict: 1")));
    CHECK(message_of([&] {
              parse(with_sections(denied, 101, "strict: 1"));
          }).starts_with("p.yaml:3:2: the sections for devices list 101000 vendors, ops and tokens, "));
    CHECK_NOTHROW(parse(with_sections("", 200, "per_op: {acme.a#: vendor, acme.b#: vendor}")));
    CHECK(message_of([&] {
              parse(with_sections("", 250, "per_op: {acme.a#: vendor, acme.b#: vendor}"));
          }).starts_with("p.yaml:2:2: the sections for devices list 126000 vendors, ops and tokens, "));
    CHECK(message_of([&] {
              parse("devices:\n cuda: {deny_vendors: '" + names + "'}\n" +
                    with_sections("", 101, "strict: 1").substr(9));
          }).find("the sections for devices list 103000 ") != std::string::npos);
    CHECK(message_of([&] { parse(with_sections("", 257, "strict: 1")); }) ==
          "p.yaml:2:2: there are 257 sections for devices; at most 256 are allowed");
}

TEST_CASE("a policy file of more than 256 KiB is refused before it is parsed") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("p.yaml", std::string(300 * 1024, '#')).string();
    CHECK(message_of([&] { read_policy_file(path, Enforce::refuse); }) ==
          path + ":1:262145: the file is longer than 262144 bytes; shorten it");
}
