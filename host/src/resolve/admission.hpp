// Decides which parts of a plugin's registration a host accepts: a pure function.
//
// Two plugins may claim the same thing: an impl_id, the meaning of an op, a device type. One of them gets it; the other
// goes without it and keeps everything else. So no plugin can disable another by registering one of its names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "load/register.hpp"
#include "resolve/catalog.hpp"

namespace opdock::core {

struct Admission {
    // Errors that reject the whole plugin; then the other members are meaningless.
    std::vector<RegistrationError> errors;

    Registration taken;
    std::vector<std::string> left_out; // a sentence for each item that is not accepted

    // An item that a plugin of the catalog loses to the newcomer, with a sentence.
    struct Loss {
        std::string plugin; // id
        std::string sentence;
        std::string op; // the plugin's declarations and implementations of this op; "" for the next two
        std::shared_ptr<const Implementation> implementation;
        std::shared_ptr<const DeviceProvider> provider; // and the plugin's implementations for its device type
    };
    std::vector<Loss> losses;
};

// `default_plugins`: name of the policy's default_plugins setting, for messages.
Admission judge_admission(const Catalog &catalog, const Registration &registration, const PluginIdentity &plugin,
                          const std::string &default_plugins);

// Adds accepted items and removes lost ones. `admission` must have no errors.
void admit(Catalog &catalog, const Admission &admission, Standing standing);

} // namespace opdock::core
