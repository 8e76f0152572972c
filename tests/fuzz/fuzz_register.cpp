// Registrations by a plugin's entry. The input is a script (registration_script.hpp).
#include <algorithm>
#include <string>
#include <vector>

#include "input.hpp"
#include "load/register.hpp"
#include "registration_script.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

opdock_status fail_quietly(const opdock_host_api * /*host*/, opdock_status status, const char * /*message*/) {
    return status;
}

void check_errors(const std::vector<RegistrationError> &errors) {
    const std::vector<RejectCode> codes = all_reject_codes();
    for (const RegistrationError &error : errors) {
        require(std::find(codes.begin(), codes.end(), error.code) != codes.end(), "an error has a code");
        require(!error.message.empty() && error.message.size() < 32 * 1024, "an error has a message that can be shown");
    }
}

void check_left_out(const std::vector<std::string> &sentences) {
    for (const std::string &sentence : sentences) {
        require(sentence.find(" is left out: ") != std::string::npos && sentence.size() < 32 * 1024,
                "what is left out is named, in a sentence that can be shown");
    }
}

bool is_name(const std::string &name) {
    return !name.empty() && name.size() <= max_name_bytes;
}

void check_registration(const Registration &registration) {
    for (const OpDeclaration &op : registration.ops) {
        require(op.signature != nullptr && is_name(op.signature->name), "an op has a signature and a name");
    }
    for (const auto &implementation : registration.implementations) {
        require(is_name(implementation->impl_id) && is_name(implementation->device), "an implementation has names");
        require(implementation->form != nullptr && implementation->form->name == implementation->op,
                "an implementation knows its op's signature");
        require(implementation->registered.kernel != nullptr, "an implementation has a kernel");
        require(implementation->kind != Kind::vendor || !implementation->vendor.empty(), "kind vendor has a vendor");
        for (const auto &tuple : implementation->dtypes) {
            require(tuple.size() == implementation->form->dtype_variables.size(), "a tuple has each variable's dtype");
        }
        for (const Knob &knob : implementation->knobs) {
            require(is_name(knob.name) && knob.minimum <= knob.default_value && knob.default_value <= knob.maximum,
                    "a knob has a name, and a default within its range");
        }
    }
    for (const auto &device : registration.devices) {
        require(is_name(device->type) && device->table.device == device->type.c_str(), "a device keeps its own name");
    }
}

bool is_empty(const Registration &registration) {
    return registration.vendors.empty() && registration.devices.empty() && registration.ops.empty() &&
           registration.implementations.empty() && registration.shutdowns.empty();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const auto script = opdock::fuzz::read_script(opdock::fuzz::text_of(data, size));
    opdock_host_api host = {};
    host.fail = fail_quietly;
    Signatures signatures;
    PluginIdentity identity{"fuzzed", "acme", "libfuzzed.so", size % 2 == 0, {"cpu"}};
    identity.abi.minor += size / 2 % 2; // for a newer minor, many faults are no errors
    Registrar registrar(identity, &host, signatures);
    opdock_registry *kept = nullptr;
    registrar.run([&](opdock_registry *registry) {
        kept = registry;
        return opdock::fuzz::run_script(script, registry);
    });
    check_errors(registrar.errors());
    check_left_out(registrar.left_out());
    check_registration(registrar.registration());
    require(registrar.errors().empty() || is_empty(registrar.registration()), "an error leaves nothing registered");

    // A plugin may keep the registry and call it after its entry has returned.
    const std::size_t errors = registrar.errors().size();
    const std::size_t ops = registrar.registration().ops.size();
    opdock::fuzz::run_script(script, kept);
    require(registrar.errors().size() == errors && registrar.registration().ops.size() == ops,
            "what comes after the entry has returned changes nothing");
    return 0;
}
