#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "documents.hpp"
#include "render.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;
using opdock::cli::Page;

TEST_CASE("one screen shows plugins, reasons and the order of every op") {
    CHECK(render_screen(small_document(), false, plain) ==
          R"(opdock 1.0.0, ABI 1.0

PLUGINS
  plugin  version  vendor  status    file
  acme    1.2.0    acme    loaded    /opt/acme/libacme.so
  -       -        -       rejected  /usr/lib/opdock/plugins/libold.so
      OPDOCK-E012: plugin 'libold.so' was built for ABI 7.0; this host supports
      1.0.
      Rebuild it.
  gpu     1.0.0    opdock  skipped   /usr/lib/opdock/plugins/libgpu.so
      OPDOCK-E016: PLUGIN_SKIP_CUDA is set

OPS and the implementations in the order they are tried
  gelu         cpu:0  reference.cpp
  rmsnorm_fwd  cpu:0  vendor.acme > reference.cpp  f32,f32
               cpu:0  nothing would serve it       bf16,f32
  unserved     -      no implementation
)");
}

TEST_CASE("ops with the same chains are shown together, with their names below") {
    json document = small_document();
    json other = document["ops"][0];
    other["op"] = "silu";
    document["ops"].insert(document["ops"].begin() + 1, other);
    const std::string text = render_screen(document, false, plain);
    CHECK(text.substr(text.find("OPS")) == R"(OPS and the implementations in the order they are tried
  2 ops        cpu:0  reference.cpp
      gelu, silu
  rmsnorm_fwd  cpu:0  vendor.acme > reference.cpp  f32,f32
               cpu:0  nothing would serve it       bf16,f32
  unserved     -      no implementation
)");
    other["chains"][0]["chain"] = {"vendor.acme", "reference.cpp"};
    document["ops"][1] = other;
    CHECK(render_screen(document, false, plain).find("2 ops") == std::string::npos);
}

TEST_CASE("hundreds of ops with the same chains take as many lines as their names need") {
    json document = small_document();
    json op = document["ops"][0];
    document["ops"] = json::array();
    for (int i = 0; i < 200; ++i) {
        op["op"] = "op_" + std::to_string(i);
        document["ops"].push_back(op);
    }
    const std::string text = render_screen(document, false, plain);
    CHECK(std::count(text.begin(), text.end(), '\n') < 45);
    for (const Page &page : {plain, Page(false, 160)}) {
        const std::string screen = render_screen(document, false, page);
        std::istringstream lines(screen.substr(screen.find("OPS")));
        for (std::string line; std::getline(lines, line);) {
            CHECK(line.size() <= page.width());
        }
    }
}

TEST_CASE("with details implementations say what they declare, and vendors what they register") {
    json document = small_document();
    json &impl = document["ops"][0]["implementations"][0];
    impl.update({{"alignment", 16},
                 {"needs_contiguous", true},
                 {"deterministic", true},
                 {"batch_invariant", true},
                 {"capture_safe", false},
                 {"architectures", {"sm_80+"}}});
    CHECK(render_op(document["ops"][0], true, Page(false, 100))
              .find("      needs contiguous tensors; deterministic; batch invariant; data aligned to 16 bytes; for "
                    "sm_80+\n") != std::string::npos);
    CHECK(render_op(document["ops"][0], false, plain).find("deterministic") == std::string::npos);
    document["vendors"] = json::parse(R"([{"name": "acme", "device_name": "npu", "dispatch_key": "PrivateUse1",
                                          "device_query_command": "acme-smi -L"}])");
    CHECK(render_screen(document, true, plain).find("  acme    npu     PrivateUse1   acme-smi -L\n") !=
          std::string::npos);
    CHECK(render_screen(document, false, plain).find("acme-smi") == std::string::npos);
}

TEST_CASE("a host without plugins says where to look") {
    json document = small_document();
    document["plugins"] = json::array();
    document["ops"] = json::array();
    CHECK(render_screen(document, false, plain) ==
          "opdock 1.0.0, ABI 1.0\n\nPLUGINS\n  none found; 'plugin-ls --paths' shows the searched places\n");
}

TEST_CASE("where options leave no plugin, the screen says so and not that none was found") {
    json document = small_document();
    document["plugins"] = json::array();
    document["ops"] = json::array();
    CHECK(render_screen(document, false, plain, true) ==
          "opdock 1.0.0, ABI 1.0\n\nPLUGINS\n"
          "  none matches --plugin, --vendor and --device together; 'plugin-ls' shows all\n");
}

TEST_CASE("with details plugins have their builds") {
    json plugins = small_document()["plugins"];
    plugins[0]["build_id"] = "ab12";
    const std::string shown = "  plugin  version  vendor  status  file\n"
                              "  acme    1.2.0    acme    loaded  /opt/acme/libacme.so\n";
    CHECK(render_plugins(json::array({plugins[0]}), true, plain) == shown + "      build ab12\n");
    CHECK(render_plugins(json::array({plugins[0]}), false, plain) == shown);
}

TEST_CASE("a loaded plugin that no chain has an implementation of is told of") {
    json document = small_document();
    const auto is_told = [&] {
        return render_screen(document, false, plain)
                   .find("      serves nothing here; the same command with --why rmsnorm_fwd says why\n") !=
               std::string::npos;
    };
    CHECK(!is_told());
    document["ops"][1]["chains"][0]["chain"] = {"reference.cpp"}; // as if acme was denied
    CHECK(is_told());
    CHECK(render_screen(document, false, plain).find("serves nothing", 0) ==
          render_screen(document, false, plain).rfind("serves nothing")); // only acme does
    document["plugins"][0]["status"] = "rejected";
    CHECK(!is_told());
}

TEST_CASE("one op shows each implementation, why it is not available, and each chain") {
    CHECK(render_op(small_document()["ops"][1], false, plain) ==
          R"(rmsnorm_fwd
  rmsnorm_fwd(input: T[..., n], weight: U[n]) -> (output: T[..., n])
  implementation  kind         device  plugin     dtypes
  vendor.acme     vendor:acme  cpu     acme       f32,f32
      priority 10; availability is checked when needed
      knob block: 1 to 64, 8 by default; rows
      knob path: scalar or simd, simd by default
  reference.cpp   reference    cpu     reference  f32,f32 bf16,f32
      not available: no avx9
  on cpu:0  vendor.acme > reference.cpp  f32,f32
  on cpu:0  nothing would serve it       bf16,f32
)");
}

TEST_CASE("a long signature and many dtypes go on in further lines") {
    json op = small_document()["ops"][1];
    op["signature"] = "rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5) -> (output: T[..., n])";
    op["implementations"][1]["dtypes"] = {"f32,f32", "f16,f16", "f16,f32", "bf16,bf16", "bf16,f32"};
    const std::string text = render_op(op, false, plain);
    CHECK(text.find("\n  rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5)\n"
                    "      -> (output: T[..., n])\n") != std::string::npos);
    CHECK(text.find("  reference.cpp   reference    cpu     reference  f32,f32 f16,f16 f16,f32\n"
                    "                                                  bf16,bf16 bf16,f32\n") != std::string::npos);
    CHECK(render_op(op, false, Page(false, 200)).find("f16,f32 bf16,bf16 bf16,f32\n") != std::string::npos);
}

TEST_CASE("what went wrong in the search is a section of its own") {
    json document = small_document();
    document["problems"] = {
        {{"message", "/x/plugin.json:1:2: not JSON\nat all"}, {"requested", true}, {"taken", false}}};
    CHECK(render_screen(document, false, plain)
              .find("\n\nPROBLEMS of the search for plugins\n  /x/plugin.json:1:2: not JSON\n  at all\n\nOPS") !=
          std::string::npos);
}

TEST_CASE("verbose shows every op as one op is shown") {
    const json document = small_document();
    const std::string text = render_screen(document, true, plain);
    for (const json &op : document["ops"]) {
        CHECK(text.find(render_op(op, false, plain)) != std::string::npos);
    }
}

TEST_CASE("colour adds escape sequences and nothing else") {
    const std::string coloured = render_screen(small_document(), true, Page(true));
    CHECK(coloured.find("\x1b[31mrejected\x1b[0m") != std::string::npos);
    std::string stripped;
    for (size_t i = 0; i < coloured.size(); ++i) {
        if (coloured[i] == '\x1b') {
            i = coloured.find('m', i);
        } else {
            stripped += coloured[i];
        }
    }
    CHECK(stripped == render_screen(small_document(), true, plain));
}

TEST_CASE("what a plugin calls itself cannot steer the terminal or break a row") {
    json document = small_document();
    document["plugins"][0]["version"] = "1\x1b[2J\n2";
    const std::string text = render_plugins(document["plugins"], false, plain);
    CHECK(text.find("\n  acme    1\\x1b[2J 2  acme") != std::string::npos);
    CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("what a plugin says of a knob, and of why it is not available, stays on its line") {
    json op = small_document()["ops"][1];
    op["implementations"][0]["knobs"][0]["doc"] = "rows\n  vendor.evil\t\x1b[2J";
    op["implementations"][1]["reason"] = "no avx9\n  vendor.evil";
    const std::string text = render_op(op, true, plain);
    CHECK(text.find("8 by default; rows   vendor.evil\\x09\\x1b[2J\n") != std::string::npos);
    CHECK(text.find("not available: no avx9   vendor.evil\n") != std::string::npos);
}
