#include "transcript.hpp"

#include <cstring>
#include <random>

#include <doctest/doctest.h>

#include "held_directory.hpp"
#include "probe.hpp"
#include "register.hpp"
#include "scan.hpp"
#include "transcript_format.h"

using namespace opdock::core;

namespace {

std::vector<std::byte> sent_by(const char *name) {
    const std::filesystem::path path = std::filesystem::path(OPDOCK_FIXTURES) / name;
    HeldDirectories directories;
    std::string why;
    auto result = run_probe(find_probe(), *directories.of(path), name, limits_for({"cpu"}), false, &why);
    REQUIRE_MESSAGE(result.has_value(), why);
    return result->sent;
}

opdock_status nobody_fails(const opdock_host * /*host*/, opdock_status status, const char * /*message*/) {
    return status;
}

// Whatever the bytes are: a registration, errors of it, or a rejection.
void take_apart(const std::vector<std::byte> &bytes) {
    try {
        const Transcript transcript = Transcript::parse(bytes);
        if (transcript.stage() == Transcript::Stage::complete) {
            opdock_host host = {};
            host.fail = nobody_fails;
            Signatures signatures;
            Registrar registrar({"acme", "acme", "libacme.so"}, &host, signatures);
            registrar.run([&](opdock_registry *registry) { return transcript.replay(registry); });
        }
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == RejectCode::probe_unreadable);
    }
}

} // namespace

TEST_CASE("a transcript that breaks off is one of a probe that died, wherever it breaks") {
    const std::vector<std::byte> whole = sent_by("libgood.so");
    CHECK(Transcript::parse(whole).stage() == Transcript::Stage::complete);
    for (size_t size = 0; size < whole.size(); ++size) {
        const auto end = whole.begin() + static_cast<std::ptrdiff_t>(size);
        CHECK(Transcript::parse({whole.begin(), end}).stage() != Transcript::Stage::complete);
    }
}

TEST_CASE("a transcript with any byte changed is read or rejected, never believed further than it goes") {
    const std::vector<std::byte> whole = sent_by("libmany_faults.so");
    const unsigned seed = 20261121;
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 4000; ++i) {
        std::vector<std::byte> changed = whole;
        for (unsigned n = 0; n < 1 + random() % 4; ++n) {
            changed[random() % changed.size()] = static_cast<std::byte>(random() % 256);
        }
        take_apart(changed);
    }
}

TEST_CASE("a transcript of another build is told apart by its first record") {
    std::vector<std::byte> other = sent_by("libgood.so");
    other[5] = std::byte{99}; // the version
    CHECK_THROWS_WITH_AS(Transcript::parse(other), doctest::Contains("another version of opdock"), Rejected);
    CHECK_THROWS_AS(Transcript::parse({std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}}),
                    Rejected);
}

TEST_CASE("records out of their order are no transcript") {
    std::vector<std::byte> twice = sent_by("libgood.so");
    const std::vector<std::byte> again = twice;
    twice.insert(twice.end(), again.begin(), again.end());
    CHECK_THROWS_WITH_AS(Transcript::parse(twice), doctest::Contains("goes on after its end"), Rejected);
}
