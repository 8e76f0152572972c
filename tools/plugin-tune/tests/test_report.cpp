#include "report.hpp"

#include <sstream>

#include <doctest/doctest.h>

#include "documents.hpp"

using namespace opdock::plugin_tune;

TEST_CASE("the report has best against default, what was wrong, and where it is kept") {
    CHECK(render_report(every_outcome(), opdock::cli::Page(false)) == R"(norm input=f32[4,8] eps=1e-6
  default.cpu on Some CPU, n=8 (n: log2)
          config     time                 source or gain
  before  block=64   12.5 us, spread 2 %  defaults
  best    block=256  10 us, spread 1 %    1.25x faster
      4 configs in 3.1 s, 1 wrong, 1 refused
      block=1: UNSUPPORTED: too small
      block=7: wrong: in 'output', element 3
      Fix the kernel, or exclude wrong configs by `where` in the tune file.

norm input=f32[8,8]
  default.cpu
  best  block=256  already known; --again tunes again
      10 us when it was tuned

norm
  default.cpu
  failed
      it has no knobs

norm
  skipped  interrupted

LEFT OUT
  conv  default.cpu
      its signature does not determine shapes

1 of 4 shapes was skipped.

Kept in /c/tune.sqlite
)");
}

TEST_CASE("implementations that were compared stand by rank, with why one was not timed") {
    nlohmann::json document = every_outcome();
    document["left_out"] = nlohmann::json::array();
    document["shapes"] = nlohmann::json::parse(R"([
        {"op": "norm", "impl_id": null, "inputs": [{"name": "input", "source": "f32[8,8]"}], "attributes": [],
         "outcome": "compared", "model": "Some CPU", "key": "n=8", "bucketed": "n: log2", "kept": true, "problem": "",
         "database": "/c/tune.sqlite", "implementations": [
             {"impl_id": "vendor.slow", "outcome": "timed", "config": "", "microseconds": 20, "spread": 0.01,
              "samples": 15, "rank": 2},
             {"impl_id": "vendor.no", "outcome": "refused", "config": "", "reason": "UNSUPPORTED: too small"},
             {"impl_id": "default.cpu", "outcome": "timed", "config": "block=256", "microseconds": 10, "spread": 0.02,
              "samples": 15, "rank": 1}]}])");
    CHECK(render_report(document, opdock::cli::Page(false)) == R"(norm input=f32[8,8]
  all that may serve it on Some CPU, n=8 (n: log2)
  rank  implementation  time               config
  1     default.cpu     10 us, spread 2 %  block=256
  2     vendor.slow     20 us, spread 1 %
        vendor.no       not timed
      UNSUPPORTED: too small

Kept in /c/tune.sqlite
)");
    CHECK(outcome_text(document["shapes"][0]) == "fastest: default.cpu");
}

TEST_CASE("what was timed once has no spread") {
    nlohmann::json document = every_outcome();
    document["shapes"][0]["before"]["samples"] = 1;
    document["shapes"][0]["before"]["spread"] = 0;
    const std::string text = render_report(document, opdock::cli::Page(false));
    CHECK(text.find("  before  block=64   12.5 us, once      defaults\n") != std::string::npos);
}

TEST_CASE("nothing faster, nothing kept and an interruption are said") {
    nlohmann::json document = every_outcome();
    document["shapes"] = nlohmann::json::array({document["shapes"][0]}); // some compilers take {x} for x
    document["left_out"] = nlohmann::json::array();
    document["interrupted"] = true;
    document["dry_run"] = true;
    document["shapes"][0]["best"] = document["shapes"][0]["before"];
    document["shapes"][0]["complete"] = false;
    CHECK(render_report(document, opdock::cli::Page(false, 100)).find("; not all were timed as often as planned\n") !=
          std::string::npos);
    document["shapes"][0]["tried"][2]["outcome"] = "left out";
    const std::string text = render_report(document, opdock::cli::Page(false));
    CHECK(text.find("the same") != std::string::npos);
    CHECK(text.find("nothing is clearly faster") != std::string::npos);
    document["shapes"][0]["tried"][1]["outcome"] = "left out";
    CHECK(render_report(document, opdock::cli::Page(false)).find("nothing else was timed") != std::string::npos);
    CHECK(text.find("      4 configs in 3.1 s, 1 wrong, 1 not timed\n") != std::string::npos);
    CHECK(text.find("Nothing was kept (--dry-run).\nInterrupted: ") != std::string::npos);
}

TEST_CASE("a report is no wider than its page") {
    nlohmann::json document = every_outcome();
    nlohmann::json &shape = document["shapes"][0];
    shape["inputs"].push_back({{"name", "weight"}, {"source", "bf16[16384]"}});
    shape["inputs"].push_back({{"name", "residual"}, {"source", "bf16[16,1024,16384]"}});
    shape["model"] = "A processor of many cores, at 3.70 GHz";
    shape["bucketed"] = "n: log2, rows: log2, has_rsigma: exact";
    shape["tried"][3]["reason"] = "in 'output', element 3 is 1.5, expected 2.5, which is a long way to say it";
    const std::string text = render_report(document, opdock::cli::Page(false));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(line.size() <= 80);
    }
    CHECK(text.find("norm input=f32[4,8] weight=bf16[16384] residual=bf16[16,1024,16384] eps=1e-6\n") == 0);
    CHECK(
        render_report(document, opdock::cli::Page(false, 200)).find("n=8 (n: log2, rows: log2, has_rsigma: exact)\n") !=
        std::string::npos);
}

TEST_CASE("an outcome fits a line") {
    const nlohmann::json shapes = every_outcome()["shapes"];
    CHECK(outcome_text(shapes[0]) == "1.25x faster with block=256, in 3.1 s");
    CHECK(outcome_text(shapes[1]) == "known");
    CHECK(outcome_text(shapes[2]) == "failed: it has no knobs");
}

TEST_CASE("what others call a device is shown on one line") {
    nlohmann::json document = every_outcome();
    document["shapes"][0]["model"] = "Nova\nKept in /home";
    const std::string text = render_report(document, opdock::cli::Page(false));
    CHECK(text.find("Nova\\x0aKept in /home") != std::string::npos);
    CHECK(text.find("\nKept in /home\n") == std::string::npos);
}
