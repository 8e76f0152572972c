#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "documents.hpp"
#include "render.hpp"

using namespace opdock::plugin_ls;
using nlohmann::json;
using opdock::cli::Page;

TEST_CASE("a file that would be taken shows its note") {
    const json verdict = json::parse(R"({"path": "/x/libacme.so", "status": "ok", "code": "", "reason": "",
        "note": {"id": "acme", "abi": [1, 0], "devices": ["cpu", "cuda"]}, "build_id": "ab12"})");
    CHECK(render_check(verdict, plain) == R"(  file          /x/libacme.so
  status        ok
  registration  not checked: that would run the plugin's code
  note.abi      1.0
  note.devices  cpu, cuda
  note.id       acme
  build_id      ab12
)");
}

TEST_CASE("each warning has a line of its own") {
    const json verdict = json::parse(R"({"path": "/x/libacme.so", "status": "ok", "code": "", "reason": "",
        "note": null, "warnings": ["a.yaml:1:1: unknown field 'a'.", "a.yaml:2:1: unknown field 'b'."]})");
    CHECK(render_check(verdict, plain) == R"(  file          /x/libacme.so
  status        ok
  registration  not checked: that would run the plugin's code
  note          none that this host can read
  warning       a.yaml:1:1: unknown field 'a'.
  warning       a.yaml:2:1: unknown field 'b'.
)");
}

TEST_CASE("a rejected file shows code and reason") {
    const json verdict = json::parse(R"({"path": "/x/a.txt", "status": "rejected", "code": "OPDOCK-E005",
        "reason": "'a.txt' is not an ELF file", "note": null})");
    CHECK(render_check(verdict, plain) == R"(  file    /x/a.txt
  status  rejected
  code    OPDOCK-E005
  reason  'a.txt' is not an ELF file
  note    none that this host can read
)");
}
