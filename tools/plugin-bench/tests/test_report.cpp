#include "report.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"
#include "rates.hpp"

using namespace opdock::plugin_bench;

static std::string report(nlohmann::json document) {
    add_rates(document);
    return render_report(document, opdock::cli::Page(false));
}

TEST_CASE("the report has the ceilings, the fastest first, and what a call costs") {
    CHECK(report(every_outcome()) == R"()");
}

TEST_CASE("a ceiling that moved is said, and so is an interruption") {
    nlohmann::json document = every_outcome();
    document["ceilings"]["copy"]["measured"] = {1e10, 5e9};
    document["interrupted"] = true;
    const std::string text = report(document);
    CHECK(text.find("The copy rate was 10 GB/s before and 5 GB/s after") != std::string::npos);
    CHECK(text.find("\nInterrupted: ") != std::string::npos);
}
