// Output of plugin-probe, a process in which a stranger's code ran. It is parsed, and a complete transcript is replayed
// into a registry twice; both must have the same result.
#include <string>
#include <vector>

#include "input.hpp"
#include "load/register.hpp"
#include "load/registration_difference.hpp"
#include "probe/transcript.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

opdock_status fail_quietly(const opdock_host_api * /*host*/, opdock_status status, const char * /*message*/) {
    return status;
}

const PluginIdentity identity = {"fuzzed", "fuzzed", "libfuzzed.so", true, {"cpu"}};

void replay(const Transcript &transcript) {
    opdock_host_api host = {};
    host.fail = fail_quietly;
    Signatures signatures;
    Registrar first(identity, &host, signatures);
    Registrar second(identity, &host, signatures);
    for (Registrar *registrar : {&first, &second}) {
        registrar->run([&](opdock_registry *registry) { return transcript.replay(registry); });
    }
    require(first.errors().size() == second.errors().size(), "a replay has the same errors each time");
    require(!find_difference(first.registration(), second.registration()), "a replay registers the same each time");
    if (!first.errors().empty()) {
        const Registration &registration = first.registration();
        require(registration.vendors.empty() && registration.devices.empty() && registration.ops.empty() &&
                    registration.implementations.empty() && registration.shutdowns.empty(),
                "a registration with an error leaves nothing");
    }
    for (const auto &implementation : first.registration().implementations) {
        const Callbacks &callbacks = implementation->registered;
        require(callbacks.user_data == nullptr, "no pointer of another process is kept");
        require(callbacks.kernel(nullptr, nullptr) == OPDOCK_UNSUPPORTED,
                "a function of another process is a stand-in");
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const auto bytes = opdock::fuzz::bytes_of(data, size);
    try {
        const Transcript transcript = Transcript::parse({bytes.begin(), bytes.end()});
        require(transcript.bytes().size() == size, "a transcript keeps what it was read from");
        if (transcript.stage() == Transcript::Stage::complete) {
            replay(transcript);
        }
    } catch (const Rejected &rejected) {
        require(rejected.code() == RejectCode::probe_unreadable, "a transcript is rejected as one");
    }
    return 0;
}
