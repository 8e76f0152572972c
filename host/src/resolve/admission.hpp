// Decides which parts of a plugin's registration a host takes: a pure function.
//
// Two plugins may want the same thing: an impl_id, the meaning of an op, a device type. One of them has it; the other
// does without it and keeps everything else. So no plugin can disable another one by registering one of its names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "load/register.hpp"
#include "resolve/catalog.hpp"

namespace opdock::core {

struct Admission {
    // What keeps all of it out; then nothing else counts.
    std::vector<RegistrationError> errors;

    Registration taken;
    std::vector<std::string> left_out; // a sentence for each thing that is not taken

    // What plugins of the catalog lose to it, with a sentence for each.
    struct Loss {
        std::string plugin; // id
        std::string sentence;
        std::string op; // all that the plugin declares and implements of it; "" for the next two
        std::shared_ptr<const Implementation> implementation;
        std::shared_ptr<const DeviceProvider> provider; // and what the plugin implements for its device type
    };
    std::vector<Loss> losses;
};

// `default_plugins` is what the policy's list of that name is called, for messages.
Admission judge_admission(const Catalog &catalog, const Registration &registration, const PluginIdentity &plugin,
                          const std::string &default_plugins);

// Adds what is taken and removes what is lost. `admission` has no errors.
void admit(Catalog &catalog, const Admission &admission, Standing standing);

} // namespace opdock::core
