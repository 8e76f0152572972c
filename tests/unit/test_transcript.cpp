#include "probe/transcript.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include <doctest/doctest.h>

#include "files/held_directory.hpp"
#include "files/plugin_file.hpp"
#include "load/load.hpp"
#include "load/register.hpp"
#include "load/registration_difference.hpp"
#include "probe/probe.hpp"
#include "probe/scan.hpp"
#include "probe/transcript_format.h"

#include "paths.hpp"

using namespace opdock::core;

namespace {

std::vector<std::byte> sent_by(const char *name) {
    const std::filesystem::path path = opdock::test::fixtures_folder() / name;
    HeldDirectories directories;
    std::string why;
    auto result = run_probe(find_probe(), *directories.of(path), name, limits_for({"cpu"}), false, &why);
    REQUIRE_MESSAGE(result.has_value(), why);
    return result->sent;
}

opdock_status nobody_fails(const opdock_host_api * /*host*/, opdock_status status, const char * /*message*/) {
    return status;
}

// Any bytes must give a registration, errors in it, or a rejection.
void take_apart(const std::vector<std::byte> &bytes) {
    try {
        const Transcript transcript = Transcript::parse(bytes);
        if (transcript.stage() == Transcript::Stage::complete) {
            opdock_host_api host = {};
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

TEST_CASE("replaying what a plugin did in its probe is like running its entry here, faults included") {
    for (const char *name :
         {"libregisters_everything.so", "libregisters_nothings.so", "libgood.so", "libduplicate.so",
          "libnull_kernel.so", "libbad_name.so", "libbad_signature.so", "libundeclared_op.so", "libbad_kind.so",
          "libbad_dtypes.so", "libsmall_struct.so", "libunknown_flag.so", "libmany_faults.so", "libreturns_error.so"}) {
        CAPTURE(name);
        opdock_host_api host = {};
        host.fail = nobody_fails;
        Signatures signatures;
        const Transcript transcript = Transcript::parse(sent_by(name));
        HeldDirectories directories;
        const std::filesystem::path path = opdock::test::fixtures_folder() / name;
        const PluginFile file(*directories.of(path), name);
        auto loaded = load(*directories.of(path), name, file.identity());
        REQUIRE(std::holds_alternative<Loaded>(loaded));
        for (const uint32_t newer : {0u, 1u}) {
            CAPTURE(newer);
            PluginIdentity identity{"acme", "acme", name};
            identity.abi.minor += newer;
            Registrar replayed(identity, &host, signatures);
            replayed.run([&](opdock_registry *registry) { return transcript.replay(registry); });
            Registrar ran(identity, &host, signatures);
            ran.run(std::get<Loaded>(loaded).entry);

            REQUIRE(replayed.errors().size() == ran.errors().size());
            for (size_t i = 0; i < ran.errors().size(); ++i) {
                CHECK(replayed.errors()[i].message == ran.errors()[i].message);
                CHECK((replayed.errors()[i].code == ran.errors()[i].code));
            }
            CHECK(replayed.warnings() == ran.warnings());
            CHECK(replayed.left_out() == ran.left_out());
            CHECK(find_difference(replayed.registration(), ran.registration()).value_or("none") == "none");
        }
        keep_mapped(std::move(std::get<Loaded>(loaded))); // its registration points to functions in it
    }
}

TEST_CASE("every function of a replayed registration is a stand-in, and none is what it was in the probe") {
    const Transcript transcript = Transcript::parse(sent_by("libregisters_everything.so"));
    opdock_host_api host = {};
    host.fail = nobody_fails;
    Signatures signatures;
    Registrar registrar({"everything", "acme", "libacme.so"}, &host, signatures);
    registrar.run([&](opdock_registry *registry) { return transcript.replay(registry); });
    REQUIRE(registrar.errors().empty());
    const Registration registration = registrar.take();
    REQUIRE(registration.devices.size() == 1);
    const opdock_device_provider &device = registration.devices[0]->table;
    // The functions belong to a process that is gone: calling them for real would crash this one.
    const DLDevice npu{static_cast<DLDeviceType>(device.dl_device_type), 0};
    void *nothing = nullptr;
    int32_t number = 0;
    float milliseconds = 0;
    opdock_device_properties properties = {};
    const opdock_status answers[] = {
        device.count(&host, nullptr, &number),
        device.properties(&host, nullptr, 0, &properties),
        device.get_current(&host, nullptr, &number),
        device.make_current(&host, nullptr, 0),
        device.allocate(&host, nullptr, 0, nullptr, 16, &nothing),
        device.free(&host, nullptr, 0, nullptr, nullptr),
        device.copy(&host, nullptr, nullptr, npu, nullptr, npu, 0, nullptr),
        device.stream_create(&host, nullptr, 0, &nothing),
        device.stream_destroy(&host, nullptr, 0, nullptr),
        device.stream_synchronize(&host, nullptr, 0, nullptr),
        device.stream_is_capturing(&host, nullptr, 0, nullptr, &number),
        device.event_create(&host, nullptr, 0, &nothing),
        device.event_destroy(&host, nullptr, 0, nullptr),
        device.event_record(&host, nullptr, 0, nullptr, nullptr),
        device.event_elapsed(&host, nullptr, 0, nullptr, nullptr, &milliseconds),
        device.stream_callback(
            &host, nullptr, 0, nullptr, [](void *) {}, nullptr),
    };
    for (const opdock_status answer : answers) {
        CHECK(answer == device.free(&host, nullptr, 0, nullptr, nullptr));
        CHECK(answer != OPDOCK_OK);
    }

    const auto whole = std::find_if(registration.implementations.begin(), registration.implementations.end(),
                                    [](const auto &one) { return one->registered.plan_create != nullptr; });
    REQUIRE(whole != registration.implementations.end());
    const Callbacks &functions = (*whole)->registered;
    uint64_t bytes = 0;
    int64_t knob = 0;
    CHECK(functions.user_data == nullptr);
    CHECK(functions.kernel(nullptr, nullptr) == OPDOCK_UNSUPPORTED);
    CHECK(functions.available(&host, nullptr, npu) == OPDOCK_UNSUPPORTED);
    CHECK(functions.supports(nullptr) == OPDOCK_UNSUPPORTED);
    CHECK(functions.heuristic(nullptr, &knob) == OPDOCK_UNSUPPORTED);
    CHECK(functions.device_init(&host, nullptr, npu, &nothing) == OPDOCK_UNSUPPORTED);
    functions.device_fini(&host, nullptr, npu, nullptr);
    CHECK(functions.plan_create(nullptr, &nothing) == OPDOCK_UNSUPPORTED);
    functions.plan_destroy(&host, nullptr, npu, nullptr);
    CHECK(functions.workspace_size(nullptr, &bytes) == OPDOCK_UNSUPPORTED);
    CHECK(functions.get_extension(&host, nullptr, "acme.extension") == nullptr);
}

TEST_CASE("a transcript of another build is told apart by its first record") {
    std::vector<std::byte> other = sent_by("libgood.so");
    other[5] = std::byte{99}; // the version
    CHECK_THROWS_WITH_AS(Transcript::parse(other), doctest::Contains("another version of opdock"), Rejected);
    const std::vector<std::byte> own = sent_by("libgood.so");
    for (const size_t field :
         {offsetof(opdock_transcript_hello, version), offsetof(opdock_transcript_hello, vendor_size),
          offsetof(opdock_transcript_hello, device_size), offsetof(opdock_transcript_hello, op_size),
          offsetof(opdock_transcript_hello, impl_size), offsetof(opdock_transcript_hello, knob_size)}) {
        CAPTURE(field);
        for (const int change : {-1, 1}) { // an older version, and a newer one
            other = own;
            other[5 + field] = static_cast<std::byte>(static_cast<int>(own[5 + field]) + change);
            CHECK_THROWS_WITH_AS(Transcript::parse(other), doctest::Contains("another version of opdock"), Rejected);
        }
    }
    CHECK_THROWS_AS(Transcript::parse({std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}}),
                    Rejected);
}

TEST_CASE("a record that claims more than it holds, or holds more than a probe sends, is none of a transcript") {
    // Offset of the payload of the first record of this kind.
    const auto payload_of = [](const std::vector<std::byte> &bytes, int kind) {
        size_t at = 0;
        while (bytes.at(at) != static_cast<std::byte>(kind)) {
            uint32_t size = 0;
            std::memcpy(&size, &bytes.at(at + 1), sizeof size);
            at += 5 + size;
        }
        return at + 5;
    };
    std::vector<std::byte> knobs = sent_by("libregisters_everything.so");
    const uint32_t many = 60000; // only two are there
    std::memcpy(&knobs.at(payload_of(knobs, OPDOCK_RECORD_IMPL) + 1 + offsetof(opdock_impl, n_knobs)), &many,
                sizeof many);
    CHECK_THROWS_WITH_AS(Transcript::parse(knobs), doctest::Contains("fewer knobs than it says"), Rejected);
    std::vector<std::byte> flags = sent_by("libregisters_everything.so");
    for (const int kind : {OPDOCK_RECORD_VENDOR, OPDOCK_RECORD_DEVICE, OPDOCK_RECORD_OP, OPDOCK_RECORD_IMPL}) {
        std::byte &flag = flags.at(payload_of(flags, kind)); // tells if a struct follows
        CHECK(std::exchange(flag, std::byte{2}) == std::byte{1});
        CHECK_THROWS_WITH_AS(Transcript::parse(flags), doctest::Contains("a flag is neither 0 nor 1"), Rejected);
        flag = std::byte{1};
    }

    std::vector<std::byte> text = sent_by("libgood.so");
    text.resize(payload_of(text, OPDOCK_RECORD_OPENED));
    const uint32_t size = OPDOCK_TRANSCRIPT_LONGEST_TEXT + 1;
    text.resize(text.size() + 5 + size, std::byte{'x'});
    std::byte *const record = text.data() + text.size() - size - 5;
    *record = std::byte{OPDOCK_RECORD_FAIL};
    std::memcpy(record + 1, &size, sizeof size);
    CHECK_THROWS_WITH_AS(Transcript::parse(text), doctest::Contains("longer than a probe sends"), Rejected);
}

TEST_CASE("records out of their order are no transcript") {
    const std::vector<std::byte> whole = sent_by("libgood.so");
    const auto hello = std::vector<std::byte>(whole.begin(), whole.begin() + 5 + sizeof(opdock_transcript_hello));
    const auto record = [](int kind) {
        std::vector<std::byte> bytes = {static_cast<std::byte>(kind), {}, {}, {}, {}};
        if (kind == OPDOCK_RECORD_RETURNED) {
            bytes[1] = std::byte{sizeof(opdock_status)};
            bytes.resize(bytes.size() + sizeof(opdock_status));
        }
        return bytes;
    };
    struct Order {
        std::vector<int> kinds;    // may come in this order
        std::vector<int> not_next; // must not come next
    };
    const Order orders[] = {
        {{},
         {OPDOCK_RECORD_HELLO, OPDOCK_RECORD_NO_ENTRY, OPDOCK_RECORD_FAIL, OPDOCK_RECORD_RETURNED,
          OPDOCK_RECORD_CHANGED, OPDOCK_RECORD_END}},
        {{OPDOCK_RECORD_OPEN_FAILED}, {OPDOCK_RECORD_OPEN_FAILED, OPDOCK_RECORD_OPENED, OPDOCK_RECORD_NO_ENTRY}},
        {{OPDOCK_RECORD_OPENED},
         {OPDOCK_RECORD_HELLO, OPDOCK_RECORD_OPEN_FAILED, OPDOCK_RECORD_OPENED, OPDOCK_RECORD_CHANGED,
          OPDOCK_RECORD_END}},
        {{OPDOCK_RECORD_OPENED, OPDOCK_RECORD_NO_ENTRY}, {OPDOCK_RECORD_FAIL, OPDOCK_RECORD_RETURNED}},
        {{OPDOCK_RECORD_OPENED, OPDOCK_RECORD_RETURNED},
         {OPDOCK_RECORD_OPENED, OPDOCK_RECORD_NO_ENTRY, OPDOCK_RECORD_FAIL, OPDOCK_RECORD_RETURNED, 99}},
    };
    for (const Order &order : orders) {
        std::vector<std::byte> begun = hello;
        for (const int kind : order.kinds) {
            const std::vector<std::byte> next = record(kind);
            begun.insert(begun.end(), next.begin(), next.end());
        }
        CHECK_NOTHROW(Transcript::parse(begun));
        for (const int kind : order.not_next) {
            CAPTURE(kind);
            std::vector<std::byte> wrong = begun;
            const std::vector<std::byte> next = record(kind);
            wrong.insert(wrong.end(), next.begin(), next.end());
            CHECK_THROWS_WITH_AS(Transcript::parse(wrong), doctest::Contains("a record is in the wrong place"),
                                 Rejected);
        }
    }
    std::vector<std::byte> headless = hello; // a first record's content in a record of another kind
    headless[0] = std::byte{OPDOCK_RECORD_OPENED};
    CHECK_THROWS_WITH_AS(Transcript::parse(headless), doctest::Contains("it does not begin like a transcript"),
                         Rejected);
    std::vector<std::byte> twice = sent_by("libgood.so");
    const std::vector<std::byte> again = twice;
    twice.insert(twice.end(), again.begin(), again.end());
    CHECK_THROWS_WITH_AS(Transcript::parse(twice), doctest::Contains("continues after its end"), Rejected);
}

TEST_CASE("knobs that are too many to be looked at are left out by both ends") {
    std::vector<std::byte> bytes = sent_by("libgood.so");
    const auto put = [&](int kind, const std::vector<std::byte> &payload) {
        const auto size = static_cast<uint32_t>(payload.size());
        bytes.push_back(static_cast<std::byte>(kind));
        const auto *const raw = reinterpret_cast<const std::byte *>(&size);
        bytes.insert(bytes.end(), raw, raw + sizeof size);
        bytes.insert(bytes.end(), payload.begin(), payload.end());
    };
    bytes.resize(5 + sizeof(opdock_transcript_hello));
    put(OPDOCK_RECORD_OPENED, {});
    const std::vector<std::byte> begun = bytes;
    const auto with_knobs = [&](uint32_t count) {
        bytes = begun;
        opdock_impl impl = {};
        impl.n_knobs = count;
        const uintptr_t there = 1;
        std::memcpy(&impl.knobs, &there, sizeof there);
        std::vector<std::byte> payload = {std::byte{1}};
        const auto *const raw = reinterpret_cast<const std::byte *>(&impl);
        payload.insert(payload.end(), raw, raw + sizeof impl);
        payload.resize(payload.size() + 6 * sizeof(uint32_t), std::byte{0xff}); // null texts
        put(OPDOCK_RECORD_IMPL, payload);
        return bytes;
    };
    CHECK_NOTHROW(Transcript::parse(with_knobs(OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS)));
    CHECK_THROWS_WITH_AS(Transcript::parse(with_knobs(OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS - 1)),
                         doctest::Contains("fewer knobs than it says"), Rejected);
}

namespace {

// A transcript of a plugin that was opened, and of what follows.
class MadeTranscript {
  public:
    MadeTranscript() {
        const std::vector<std::byte> whole = sent_by("libgood.so");
        const size_t hello = 5 + sizeof(opdock_transcript_hello);
        bytes.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(hello));
        put(OPDOCK_RECORD_OPENED, "");
    }

    void put(int kind, const std::string &payload) {
        const auto size = static_cast<uint32_t>(payload.size());
        bytes.push_back(static_cast<std::byte>(kind));
        append(&size, sizeof size);
        append(payload.data(), payload.size());
    }

    std::vector<std::byte> bytes;

  private:
    void append(const void *data, size_t size) {
        const auto *const from = static_cast<const std::byte *>(data);
        bytes.insert(bytes.end(), from, from + size);
    }
};

std::string raw_bytes(const auto &value) {
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

std::string text_of_size(size_t size, char end) {
    return raw_bytes(static_cast<uint32_t>(size)) + std::string(size, 'x') + end;
}

} // namespace

TEST_CASE("a transcript has texts up to the longest that a probe sends, each with its end") {
    const auto of_fail = [](size_t size) {
        MadeTranscript made;
        made.put(OPDOCK_RECORD_FAIL, std::string(size, 'x'));
        return made.bytes;
    };
    CHECK_NOTHROW(Transcript::parse(of_fail(OPDOCK_TRANSCRIPT_LONGEST_TEXT)));
    CHECK_THROWS_WITH_AS(Transcript::parse(of_fail(OPDOCK_TRANSCRIPT_LONGEST_TEXT + 1)),
                         doctest::Contains("a text is longer than a probe sends"), Rejected);
    const auto of_op = [](const std::string &signature, const std::string &behind) {
        MadeTranscript made;
        made.put(OPDOCK_RECORD_OP, '\1' + raw_bytes(opdock_op_declaration{}) + signature +
                                       raw_bytes(OPDOCK_TRANSCRIPT_NULL_TEXT) + behind);
        return made.bytes;
    };
    CHECK_NOTHROW(Transcript::parse(of_op(text_of_size(OPDOCK_TRANSCRIPT_LONGEST_TEXT, '\0'), "")));
    CHECK_NOTHROW(Transcript::parse(of_op(text_of_size(0, '\0'), "")));
    CHECK_THROWS_WITH_AS(Transcript::parse(of_op(text_of_size(OPDOCK_TRANSCRIPT_LONGEST_TEXT + 1, '\0'), "")),
                         doctest::Contains("a text is longer than a probe sends"), Rejected);
    CHECK_THROWS_WITH_AS(Transcript::parse(of_op(text_of_size(7, 'x'), "")),
                         doctest::Contains("a text is not terminated"), Rejected);
    CHECK_THROWS_WITH_AS(Transcript::parse(of_op(text_of_size(7, '\0'), "x")),
                         doctest::Contains("a record is longer than its contents"), Rejected);
}

TEST_CASE("a transcript tells of as many libraries as a probe sends") {
    MadeTranscript made;
    made.put(OPDOCK_RECORD_RETURNED, raw_bytes(opdock_status{OPDOCK_OK}));
    for (uint64_t i = 0; i < OPDOCK_TRANSCRIPT_MOST_LIBRARIES; ++i) {
        made.put(OPDOCK_RECORD_LIBRARY, raw_bytes(opdock_transcript_library{1, i, 3, 4, 5}) + "/a");
    }
    const Transcript transcript = Transcript::parse(made.bytes);
    REQUIRE(transcript.libraries().size() == OPDOCK_TRANSCRIPT_MOST_LIBRARIES);
    CHECK(transcript.libraries().back().path == "/a");
    CHECK((transcript.libraries().back().identity == FileIdentity{1, OPDOCK_TRANSCRIPT_MOST_LIBRARIES - 1, 3, 4, 5}));
    made.put(OPDOCK_RECORD_LIBRARY, raw_bytes(opdock_transcript_library{}) + "/b");
    CHECK_THROWS_WITH_AS(Transcript::parse(made.bytes), doctest::Contains("a record is in the wrong place"), Rejected);
}

TEST_CASE("what an entry returned is a status and nothing else") {
    MadeTranscript made;
    made.put(OPDOCK_RECORD_RETURNED, raw_bytes(opdock_status{OPDOCK_OK}) + "x");
    CHECK_THROWS_WITH_AS(Transcript::parse(made.bytes), doctest::Contains("a record is longer than its contents"),
                         Rejected);
}

TEST_CASE("a record that breaks off behind its header is none") {
    MadeTranscript made;
    made.put(OPDOCK_RECORD_RETURNED, raw_bytes(opdock_status{OPDOCK_OK}));
    made.put(OPDOCK_RECORD_CHANGED, "the locale");
    CHECK(Transcript::parse(made.bytes).changes() == std::vector<std::string>{"the locale"});
    made.bytes.pop_back();
    CHECK(Transcript::parse(made.bytes).changes().empty());
    made.put(OPDOCK_RECORD_END, "");
    CHECK(Transcript::parse(made.bytes).stage() != Transcript::Stage::complete);
}
