#include "files/reject.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "paths.hpp"

using namespace opdock::core;

TEST_CASE("a code is spelled with three digits") {
    CHECK(code_text(RejectCode::not_found) == "OPDOCK-E001");
    CHECK(code_text(RejectCode::load_failed) == "OPDOCK-E024");
}

TEST_CASE("no two faults share a code or a meaning") {
    std::set<std::string> codes;
    std::set<std::string_view> meanings;
    for (const RejectCode code : all_reject_codes()) {
        CHECK_MESSAGE(codes.insert(code_text(code)).second, code_text(code));
        CHECK_MESSAGE(meanings.insert(meaning(code)).second, meaning(code));
    }
}

TEST_CASE("every code has a row in docs/errors.md, with its meaning") {
    std::ifstream file(opdock::test::source_folder() / "docs/errors.md");
    std::stringstream page;
    page << file.rdbuf();
    for (const RejectCode code : all_reject_codes()) {
        const std::string row = "\n| " + code_text(code) + " | " + std::string(meaning(code)) + " |";
        CHECK_MESSAGE(page.str().find(row) != std::string::npos, row);
    }
}

TEST_CASE("only plugins with nothing wrong are skipped rather than rejected") {
    CHECK(is_skip(RejectCode::shadowed));
    CHECK(is_skip(RejectCode::cuda_skipped));
    CHECK_FALSE(is_skip(RejectCode::conflict));
    CHECK_FALSE(is_skip(RejectCode::host_died));
    CHECK_FALSE(is_skip(static_cast<RejectCode>(999)));
}

TEST_CASE("only plugins whose code did harm are kept from being run again") {
    CHECK(is_quarantine(RejectCode::probe_died));
    CHECK(is_quarantine(RejectCode::probe_timed_out));
    CHECK(is_quarantine(RejectCode::host_died));
    CHECK_FALSE(is_quarantine(RejectCode::probe_stopped));
    CHECK_FALSE(is_quarantine(RejectCode::shadowed));
}

TEST_CASE("a rejection reads as code, path and sentence") {
    const Rejection rejection{RejectCode::no_note, "/opt/acme/libacme.so", "'libacme.so' is no plugin."};
    CHECK(to_text(rejection) == "OPDOCK-E010 /opt/acme/libacme.so: 'libacme.so' is no plugin.");
}
