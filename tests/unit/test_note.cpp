#include "inspect/note.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "files/reject.hpp"
#include "opdock/abi/note.h"

using namespace opdock::core;
using nlohmann::json;

namespace {

json sound_note() {
    return {{"schema", "opdock.note/1"}, {"abi", {1, 2}},    {"oldest_host", {1, 0}}, {"id", "acme-norms"},
            {"version", "1.2.0"},        {"vendor", "acme"}, {"devices", "cpu,cuda"}, {"cpu_features", "avx2,fma"}};
}

json with(const char *key, const json &value) {
    json note = sound_note();
    note[key] = value;
    return note;
}

constexpr AbiVersion host_1_3{1, 3};

// The message of parse_note for a note that it rejects.
std::string complaint(const std::string &text, RejectCode expected) {
    try {
        parse_note("libacme.so", text, host_1_3);
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == expected);
        return rejected.what();
    }
    FAIL("the note was taken: " << text);
    return {};
}

bool contains(const std::string &text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

bool taken(AbiVersion built_for, AbiVersion oldest_host, AbiVersion host) {
    return !judge_abi("libacme.so", built_for, oldest_host, host);
}

} // namespace

TEST_CASE("a note says who the plugin is and what it needs") {
    const Note note = parse_note("libacme.so", sound_note().dump(), host_1_3);
    CHECK(note.abi == AbiVersion{1, 2});
    CHECK(note.oldest_host == AbiVersion{1, 0});
    CHECK(note.id == "acme-norms");
    CHECK(note.version == "1.2.0");
    CHECK(note.vendor == "acme");
    CHECK(note.devices == std::vector<std::string>{"cpu", "cuda"});
    CHECK(note.cpu_features == std::vector<std::string>{"avx2", "fma"});
    CHECK(parse_note("libacme.so", with("cpu_features", "avx2,fma,bmi2").dump(), host_1_3).cpu_features ==
          std::vector<std::string>{"avx2", "fma", "bmi2"});
}

TEST_CASE("the note that the SDK's macro writes is one this host takes") {
    const Note note = parse_note("libacme.so", OPDOCK_NOTE_JSON("acme", "1.0", "acme", "cpu", ""), host_abi);
    CHECK(note.id == "acme");
    CHECK(note.abi == host_abi);
    CHECK(note.cpu_features.empty());
}

TEST_CASE("a field that this host does not know is ignored, so that notes can grow") {
    CHECK(parse_note("libacme.so", with("colour", "green").dump(), host_1_3).id == "acme-norms");
}

TEST_CASE("a note that is not a JSON object is malformed") {
    for (const char *text :
         {"", "{", "[]", "3", "null", "{\"schema\":\"opdock.note/1\"} more", "\xff\xfe", "{\"id\":\"\xc3\"}"}) {
        CAPTURE(text);
        CHECK(contains(complaint(text, RejectCode::malformed_note), "it is not a JSON object"));
    }
}

TEST_CASE("each field of a note is checked, and the complaint names it") {
    const auto names = [](const json &note, std::string_view words) {
        const std::string said = complaint(note.dump(), RejectCode::malformed_note);
        CHECK_MESSAGE(contains(said, words), said);
        CHECK(contains(said, "libacme.so"));
    };
    names(with("schema", "opdock.note/2"), "opdock.note/2");
    names(with("abi", "1.2"), "\"abi\" must be [major, minor]");
    names(with("abi", {1}), "\"abi\" must be [major, minor]");
    names(with("abi", {1, -2}), "\"abi\" must be [major, minor]");
    names(with("abi", {{1, 2}}), "\"abi\" must be [major, minor]");
    names(with("abi", {1, 2, json::array()}), "\"abi\" must be [major, minor]");
    names(with("abi", {{"major", 1}}), "\"abi\" must be [major, minor]");
    names(with("abi", {1, 99999999999}), "\"abi\" must be [major, minor]");
    names(with("abi", {65536, 0}), "\"abi\" must be [major, minor]");
    names(with("abi", {0, 65536}), "\"abi\" must be [major, minor]");
    names(with("oldest_host", {1, 2.5}), "\"oldest_host\" must be [major, minor]");
    names(with("oldest_host", {1, 3}), "asks for a host of ABI 1.3 or newer, but was built for 1.2");
    names(with("id", ""), "\"id\" is empty");
    names(with("id", "Acme Norms"), "\"Acme Norms\" has characters other than");
    names(with("id", {{"id", "acme"}}), "\"id\" must be a string");
    names(with("id", {"acme"}), "\"id\" must be a string");
    names(with("id", nullptr), "\"id\" must be a string");
    names(with("id", 3), "\"id\" must be a string");
    names(with("id", std::string(129, 'a')), "129 bytes long");
    names(with("version", ""), "\"version\" is empty");
    names(with("vendor", "ac\nme"), "\"vendor\" contains a control character");
    names(with("devices", ""), "\"devices\" is empty");
    names(with("devices", "cpu,"), "names in ASCII separated by commas");
    names(with("cpu_features", "avx2, fma"), "names in ASCII separated by commas");
}

TEST_CASE("texts of a note have 128 bytes, and a field that is there twice is the last") {
    const std::string longest(128, 'a');
    CHECK(parse_note("libacme.so", with("id", longest).dump(), host_1_3).id == longest);
    CHECK(parse_note("libacme.so", with("version", longest).dump(), host_1_3).version == longest);
    CHECK(contains(complaint(with("version", longest + "a").dump(), RejectCode::malformed_note),
                   "\"version\" is 129 bytes long, more than 128"));
    std::string twice = sound_note().dump();
    twice.insert(1, R"("id": 3, "abi": [7, 7, 7],)");
    CHECK(parse_note("libacme.so", twice, host_1_3).id == "acme-norms");
    twice = sound_note().dump();
    twice.insert(twice.size() - 1, R"(,"id": "other")");
    CHECK(parse_note("libacme.so", twice, host_1_3).id == "other");
    twice.insert(twice.size() - 1, R"(,"id": {"abi": [1, 2], "id": "third"})");
    CHECK(contains(complaint(twice, RejectCode::malformed_note), "\"id\" must be a string"));
}

TEST_CASE("what stands inside of other fields is no field of a note") {
    json note = with("colours", {{"id", "inner"}, {"abi", {9, 9}}, {"list", {1, {{"id", "deep"}}}}});
    note["more"] = json::array({json::array({1, 2}), "x", 2.5, true, nullptr});
    const Note read = parse_note("libacme.so", note.dump(), host_1_3);
    CHECK(read.id == "acme-norms");
    CHECK(read.abi == AbiVersion{1, 2});
    CHECK(contains(complaint(with("abi", {1, {2}}).dump(), RejectCode::malformed_note), "\"abi\" must be"));
    CHECK(contains(complaint(with("abi", {1, "2"}).dump(), RejectCode::malformed_note), "\"abi\" must be"));
    CHECK(contains(complaint(with("abi", {1, 2, 3}).dump(), RejectCode::malformed_note), "\"abi\" must be"));
}

TEST_CASE("the vendor and the devices of a note are names that policies can spell") {
    for (const char *vendor : {"two words", "a,b", "a:b", "ac\u00a0me", "\u0430cme", "ACM\u00c9", "a|b"}) {
        CAPTURE(vendor);
        CHECK(contains(complaint(with("vendor", vendor).dump(), RejectCode::malformed_note), "printable ASCII"));
    }
    for (const char *devices : {"cpu,a:b", "\u0441pu"}) {
        CAPTURE(devices);
        CHECK(contains(complaint(with("devices", devices).dump(), RejectCode::malformed_note), "names in ASCII"));
    }
    for (const auto &note :
         {with("version", "1\u202e"), with("vendor", "ac\u200bme"), with("devices", "cpu,n\u200bpu")}) {
        CHECK(contains(complaint(note.dump(), RejectCode::malformed_note), "control character"));
    }
}

TEST_CASE("a missing field is named") {
    for (const char *key : {"schema", "abi", "oldest_host", "id", "version", "vendor", "devices", "cpu_features"}) {
        json note = sound_note();
        note.erase(key);
        CHECK(contains(complaint(note.dump(), RejectCode::malformed_note), key));
    }
}

TEST_CASE("the ABI is judged before fields that another ABI may spell differently") {
    json note = with("abi", {2, 0});
    note["oldest_host"] = {2, 0};
    note["devices"] = json::array({"cpu"});
    CHECK(complaint(note.dump(), RejectCode::abi_mismatch) ==
          "plugin 'libacme.so' was built for ABI 2.0; this host supports 1.0 to 1.3.\n"
          "Rebuild it with the opdock 1.x SDK, or install opdock 2.x.");
}

TEST_CASE("the largest number of an ABI is one like others") {
    json note = with("abi", {65535, 65535});
    CHECK(complaint(note.dump(), RejectCode::abi_mismatch).find("was built for ABI 65535.65535;") != std::string::npos);
}

TEST_CASE("a host takes its major, older minors, and newer ones that say so") {
    CHECK_FALSE(taken({0, 2}, {0, 2}, {1, 0}));
    CHECK(taken({1, 0}, {1, 0}, host_1_3));
    CHECK(taken({1, 3}, {1, 3}, host_1_3));
    CHECK(taken({1, 7}, {1, 3}, host_1_3));
    CHECK_FALSE(taken({1, 7}, {1, 4}, host_1_3));
    CHECK_FALSE(taken({2, 0}, {2, 0}, host_1_3));
    CHECK_FALSE(taken({2, 0}, {1, 0}, host_1_3));
}

TEST_CASE("an ABI that does not fit says what was built, what the host has, and what to do") {
    CHECK(judge_abi("libacme.so", {1, 5}, {1, 4}, host_1_3) ==
          "plugin 'libacme.so' needs a host of ABI 1.4 or newer; this host has 1.3.\n"
          "Install a newer opdock, or a build of the plugin for ABI 1.3.");
}

TEST_CASE("CPU features that the machine lacks are listed") {
    CHECK_FALSE(judge_cpu_features("libacme.so", {}, {}));
    CHECK_FALSE(judge_cpu_features("libacme.so", {"avx2", "fma"}, {"sse2", "avx2", "fma"}));
    const auto reason = judge_cpu_features("libacme.so", {"avx2", "amx_tile", "avx512f"}, {"sse2", "avx2"});
    REQUIRE(reason);
    CHECK(contains(*reason, "does not list on this machine: amx_tile, avx512f."));
}

TEST_CASE("this machine's CPU has features") {
    CHECK(machine_cpu_features().size() > 3);
}
