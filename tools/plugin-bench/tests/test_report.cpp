#include "report.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"
#include "rates.hpp"

using namespace opdock::plugin_bench;

static std::string report(nlohmann::json document, const opdock::cli::Page &page = opdock::cli::Page(false)) {
    add_rates(document);
    return render_report(document, page);
}

TEST_CASE("the report has the ceilings, the fastest first, and what a call costs") {
    CHECK(report(every_outcome()) == R"(cpu:0, Some CPU
  copies at 10 GB/s
  multiplies bf16 at an unknown rate
  multiplies f32 at 200 GFLOP/s (linear_fwd of default.cpu)

norm input=f32[4,8] eps=1e-6
  implementation  time      spread  rate       of the ceiling  than the first
  default.cpu     50 ns     2 %     5.12 GB/s  51.2 % of copy
  reference.cpp   500 ns    4 %     512 MB/s   5.12 % of copy  10.0x slower
  vendor.acme     declined
      n is not 16

linear_fwd input=f32[64,64] weight=f32[64,64]
  implementation  time   spread  rate          of the ceiling  than the first
  default.cpu     10 us  2 %     52.4 GFLOP/s  49.2 % of copy

norm
  failed
      no memory left

norm
  skipped

A CALL on the host, with next to nothing to compute
  op    served by    kernel  prepared        handle         by name
  norm  default.cpu  100 ns  +0.5 ns (1.40)  +50 ns (41.0)  +100 ns (81.0)
  The time that each way adds to the kernel, +0 if the kernel itself varies by
  more; in parentheses, the cost with an empty kernel as a ratio to a bare
  indirect call.

LEFT OUT
  conv
      its signature does not determine shapes
)");
}

TEST_CASE("a ceiling that moved is said, and so is an interruption") {
    nlohmann::json document = every_outcome();
    document["ceilings"]["copy"]["measured"] = {1e10, 5e9};
    document["interrupted"] = true;
    const std::string text = report(document);
    CHECK(text.find("The copy rate was 10 GB/s before and 5 GB/s after") != std::string::npos);
    CHECK(text.find("\nInterrupted: ") != std::string::npos);
}

TEST_CASE("more than the copy rate is explained where it is what memory limits") {
    nlohmann::json document = every_outcome();
    const std::string explanation = "\nMore than 100 % of copy: the tensors fit a cache";
    document["shapes"][1]["bytes"] = 1e9;
    CHECK(report(document).find(explanation) == std::string::npos);
    document["shapes"][0]["bytes"] = 1e9;
    CHECK(report(document).find(explanation) != std::string::npos);
}

TEST_CASE("what is said in sentences is as wide as the page") {
    nlohmann::json document = every_outcome();
    document["ceilings"]["copy"]["measured"] = {1e10, 5e9};
    const std::string wide = report(document, opdock::cli::Page(false, 200));
    CHECK(
        wide.find("\nThe copy rate was 10 GB/s before and 5 GB/s after: something else keeps this machine busy, or its "
                  "clock changes.\n") != std::string::npos);
    CHECK(wide.find(
              "varies by more; in parentheses, the cost with an empty kernel as a ratio to a bare indirect call.\n") !=
          std::string::npos);
    const std::string narrow = report(document, opdock::cli::Page(false, 40));
    CHECK(narrow.find("\nThe copy rate was 10 GB/s before and 5\nGB/s after: ") != std::string::npos);
    CHECK(narrow.find("\n  The time that each way adds to the\n  kernel, +0 if the ") != std::string::npos);
}

TEST_CASE("what others call a device is shown on one line") {
    nlohmann::json document = every_outcome();
    document["model"] = "Nova\nKept in /home";
    const std::string text = report(document);
    CHECK(text.find("Nova\\x0aKept in /home") != std::string::npos);
    CHECK(text.find("\nKept in /home\n") == std::string::npos);
}
