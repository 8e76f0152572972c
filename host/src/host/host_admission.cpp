// Adds the acceptable parts of a plugin's registration to the catalog.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "load/deferred_plugin.hpp"
#include "load/tenancy.hpp"
#include "probe/scan.hpp"
#include "resolve/admission.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Limits the lines: a plugin may register 65,536 things that deserve a warning.
void warn(const Log &log, const std::string &plugin, const std::vector<std::string> &sentences) {
    constexpr std::size_t most_told = 64;
    for (std::size_t i = 0; i < std::min(sentences.size(), most_told); ++i) {
        log.warning(fmt::format("Plugin '{}': {}", plugin, sentences[i]));
    }
    if (sentences.size() > most_told) {
        log.warning(fmt::format("Plugin '{}': and {} more such warnings", plugin, sentences.size() - most_told));
    }
}

} // namespace

bool Host::is_named_default(const std::string &id, const std::string &vendor) const {
    const auto named = process_policy().default_plugins();
    return named && std::any_of(named->value.begin(), named->value.end(), [&](const std::string &name) {
               return same_name(name, id) || same_name(name, vendor);
           });
}

bool Host::yields(const PluginRecord &earlier, const PluginRecord &later, const Catalog &in) const {
    return later.standing == Standing::own && earlier.standing < Standing::own && !in.in_use &&
           !is_named_default(earlier.id, earlier.vendor);
}

void Host::refuse_errors(const Registrar &registrar, PluginRecord *record) const {
    if (!registrar.errors().empty()) {
        throw Rejected(registrar.errors().front().code, text_of(registrar.identity().id, registrar.errors()));
    }
    warn(log_, registrar.identity().id, registrar.warnings());
    leave_out(registrar.left_out(), registrar.identity().id, record);
}

void Host::leave_out(const std::vector<std::string> &sentences, const std::string &plugin, PluginRecord *record) const {
    warn(log_, plugin, sentences);
    for (const std::string &sentence : sentences) {
        if (record != nullptr) {
            record->left_out.push_back(fmt::format("'{}': {}", plugin, sentence));
        }
    }
}

void Host::admit(const PluginIdentity &identity, const Registration &registration, Catalog &into,
                 PluginRecord *record) const {
    if (const auto other = into.loaded.find(identity.id); other != into.loaded.end()) { // the other one yields
        PluginRecord &yielding = into.plugins[other->second];
        yielding.status = PluginRecord::Status::skipped;
        yielding.code = code_text(RejectCode::shadowed);
        yielding.reason =
            fmt::format("plugin id '{}' is the id of opdock's own '{}'; to use this plugin instead, name it in {}",
                        identity.id, identity.path, environment_.name(Variable::default_plugins));
        yielding.warnings.clear();
        yielding.left_out.clear();
        log_.warning(fmt::format("Plugin '{}' skipped ({}): {}", yielding.path, yielding.code, yielding.reason));
        into.remove_plugin(identity.id);
    }
    const Admission admission =
        judge_admission(into, registration, identity, environment_.name(Variable::default_plugins));
    if (!admission.errors.empty()) {
        throw Rejected(admission.errors.front().code, text_of(identity.id, admission.errors));
    }
    leave_out(admission.left_out, identity.id, record);
    for (const Admission::Loss &loss : admission.losses) {
        const auto loser = into.loaded.find(loss.plugin);
        leave_out({loss.sentence}, loss.plugin, loser != into.loaded.end() ? &into.plugins[loser->second] : nullptr);
    }
    core::admit(into, admission, identity.standing);
}

void Host::judge_tune_file(const PluginRecord &record, const Registration &registration) const {
    if (!process_policy().strict() || configs_.mode() == TuneMode::off) {
        return; // read when needed; faulty entries are left out
    }
    std::vector<const Implementation *> implementations;
    for (const auto &implementation : registration.implementations) {
        implementations.push_back(implementation.get());
    }
    const PluginTuning tuning(record.tune, record.names_tune, implementations);
    if (!tuning.problems().empty()) {
        std::string told;
        for (const std::string &problem : tuning.problems()) {
            told += sentence(problem) + "\n";
        }
        throw Rejected(RejectCode::tune_file_wrong, told + "Strict mode refuses a plugin whose tune file is wrong.");
    }
}

void Host::take(const PluginIdentity &identity, opdock_entry entry, Catalog &into, PluginRecord *record,
                void *user_data) {
    // Both are kept whatever the outcome: the plugin may have kept pointers to the registry and to the host's table.
    table_->keep();
    Loading &book = loading();
    Registrar &registrar =
        *book.registrars.emplace_back(std::make_unique<Registrar>(identity, &table_->api, book.signatures, user_data));
    registrar.run(entry);
    refuse_errors(registrar, record);
    const Registration registration = registrar.take();
    if (identity.tenancy && (!registration.devices.empty() || !registration.shutdowns.empty())) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("module '{}' registers {}, but a temporary module may register only ops and "
                                "implementations.\nRegister it with opdock_register_module.",
                                identity.id, registration.devices.empty() ? "a shutdown function" : "a device"));
    }
    admit(identity, registration, into, record);
    book.shutdowns.insert(book.shutdowns.end(), registration.shutdowns.begin(), registration.shutdowns.end());
}

void Host::register_module(const std::string &id, const std::string &vendor, opdock_entry entry, void *user_data,
                           bool may_go) {
    refuse_while_registering("register a module");
    refuse_when_frozen("be registered");
    for (const auto &[what, name] : {std::pair("id", &id), std::pair("vendor", &vendor)}) {
        if (find_no_name_character(*name) != std::string::npos || name->size() > max_name_bytes) {
            throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("the module's {} {} is not a valid name: expected at most "
                                                             "{} printable ASCII characters without spaces and {}",
                                                             what, quote(*name), max_name_bytes, name_separators));
        }
    }
    const std::lock_guard lock(loading().mutex);
    Catalog next = catalog();
    next.in_use = true;
    if (const PluginRecord *other = next.find_plugin(id)) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("module '{}': the id is already taken by {}", id,
                                other->path.empty() ? "another module of the program" : quote(other->path)));
    }
    PluginIdentity identity{id, vendor, id};
    if (may_go) {
        identity.tenancy = std::make_shared<Tenancy>();
    }
    try {
        take(identity, entry, next, nullptr, user_data);
    } catch (const Rejected &rejected) {
        throw Error(OPDOCK_LOAD_FAILED,
                    fmt::format("module '{}': {}: {}", id, code_text(rejected.code()), rejected.what()));
    }
    PluginRecord record;
    record.id = id;
    record.vendor = vendor;
    record.origin = program_origin;
    record.standing = Standing::program;
    record.tenancy = identity.tenancy;
    next.add(std::move(record));
    publish_catalog(std::move(next));
    log_impl_ids(catalog());
}

std::shared_ptr<Tenancy> Host::withdraw_module(const std::string &id) {
    const std::lock_guard lock(loading().mutex);
    Catalog next = catalog();
    next.in_use = true;
    const auto found = next.loaded.find(id);
    std::shared_ptr<Tenancy> tenancy = found == next.loaded.end() ? nullptr : next.plugins[found->second].tenancy;
    if (tenancy == nullptr) {
        throw Error(
            OPDOCK_INVALID_ARGUMENT,
            fmt::format("module '{}' cannot be unregistered: {}.\nExpected the id that "
                        "opdock_register_temporary_module was given.",
                        id, found == next.loaded.end() ? "no module has this id" : "it was registered permanently"));
    }
    next.forget_plugin(id);
    publish_catalog(std::move(next));
    return tenancy;
}

void Host::unregister_module(const std::string &id) {
    refuse_while_registering("unregister a module");
    refuse_when_frozen("be unregistered");
    const std::shared_ptr<Tenancy> tenancy = withdraw_module(id);
    // Without the loading lock: a kernel that is waited for may call something that must be loaded first.
    tenancy->end();
    {
        Tenancy::Plans &plans = tenancy->plans();
        const std::lock_guard lock(plans.mutex);
        while (!plans.held.empty()) {
            Attempt &attempt = **plans.held.begin();
            plans.held.erase(plans.held.begin());
            attempt.destroy_plan();
        }
    }
    Ledger &book = ledger();
    std::vector<Deployment *> deployments;
    {
        const std::lock_guard lock(book.mutex);
        for (const auto &[key, deployment] : book.deployments) {
            if (deployment->implementation().tenancy == tenancy) {
                deployments.push_back(deployment.get());
            }
        }
    }
    for (Deployment *deployment : deployments) {
        deployment->finish();
    }
    configs_.forget(id);
}

} // namespace opdock::core
