#include "host/host.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "dispatch/open_hosts.hpp"
#include "host/observation.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "observe/call_files.hpp"
#include "probe/probe.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

Environment environment_of(const HostOptions &options) {
    return options.environment ? *options.environment : capture_environment(options.prefix);
}

std::string probe_of(const HostOptions &options) {
    return options.probe ? *options.probe : find_probe();
}

std::string cache_folder_of(const HostOptions &options, const Environment &environment) {
    return options.cache_folder ? *options.cache_folder : environment.cache_folder();
}

std::string journal_folder_in(const std::string &cache_folder) {
    return cache_folder.empty() ? "" : cache_folder + "/journal";
}

CallHost::Options call_options(const HostOptions &options, const Environment &environment, const PluginTable &table,
                               Devices::Ask ask_device_command) {
    return {table.api,
            options.log,
            options.workspace,
            std::move(ask_device_command),
            {environment.tune_mode(), environment.tune_budget(),
             TuneDatabase(environment.tune_database(options.cache_folder))},
            journal_folder_in(cache_folder_of(options, environment)),
            options.now};
}

std::optional<CallObserver::Wanted> wanted_file(const Environment &environment, Variable variable) {
    const std::string *value = environment.find(variable);
    if (value == nullptr) {
        return std::nullopt;
    }
    return CallObserver::Wanted{ProcessFile(*value, environment.place(variable)), environment.name(variable)};
}

} // namespace

Host::Host(const HostOptions &options) : Host(options, environment_of(options), new_plugin_table()) {}

Host::Host(const HostOptions &options, Environment environment, PluginTablePtr table)
    : CallHost(call_options(options, environment, *table,
                            [this](const std::string &command) { return ask_device_command(command); })),
      table_(std::move(table)), environment_given_(options.environment.has_value()),
      environment_(std::move(environment)), system_policy_file_(options.system_policy_file),
      system_trust_folder_(options.system_trust_folder), extensions_(options.extensions), probe_(probe_of(options)),
      cache_folder_(cache_folder_of(options, environment_)), loading_(new Loading) {
    try {
        open(options);
    } catch (...) {
        close();
        throw;
    }
}

Host::~Host() {
    close();
}

void Host::open(const HostOptions &options) {
    if (is_inside_probe()) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    "a plugin's entry must not open a host: it only registers what the plugin provides");
    }
    table_->host = this;
    log_.set_level(environment_.log_level(OPDOCK_LOG_INFO));
    for (const std::string &warning : environment_.warnings) {
        log_.warning(warning);
    }
    const Observation::Settings observed = Observation::Settings::of(environment_); // a wrong setting is reported now
    start_observing({wanted_file(environment_, Variable::trace), wanted_file(environment_, Variable::record),
                     observed.metrics.has_value()});
    if (const std::string *folder = environment_.find(Variable::call_files)) {
        start_call_files(std::make_shared<CallFiles>(*folder, environment_.place(Variable::call_files)));
    }
    if (const std::string *shadow = environment_.find(Variable::shadow)) {
        start_shadows(parse_shadow_rules(*shadow, environment_.place(Variable::shadow)),
                      environment_.name(Variable::shadow));
    }
    LoadedPolicy policy = load_policy(environment_, system_policy_file_);
    for (const std::string &warning : policy.warnings) {
        log_.warning(warning);
    }
    set_first_policy(std::move(policy.stack));

    Catalog found;
    found.providers.push_back(cpu_provider());
    load_found(options, found);
    check_names(process_policy(), found);
    publish_catalog(std::move(found));
    join_open_hosts(*this);
    if (!observed.asks_for_nothing()) {
        observation_ = std::make_shared<Observation>(*this, observed);
    }
    open_live_socket();
    if (live_socket_ || observation_ || observer() != nullptr) {
        work_at_exit_of_open_hosts();
    }
}

void Host::close() {
    live_socket_.reset();
    std::optional<ClosingHost> closing;
    try {
        closing.emplace(thread_state());
    } catch (const std::bad_alloc &) { // NOLINT(bugprone-empty-catch): plugins are not kept from calling ops, then
    }
    leave_open_hosts(*this);
    if (observation_) {
        observation_->end();
    }
    end_calls();
    const std::unique_ptr<Loading> gone(loading_.load());
    for (auto shutdown = gone->shutdowns.rbegin(); shutdown != gone->shutdowns.rend(); ++shutdown) {
        call_plugin([&] {
            shutdown->function(shutdown->user_data);
            return OPDOCK_OK;
        });
    }
    table_->close();
    table_->registrars = std::move(gone->registrars);
}

const void *Host::find_extension(const char *op, const char *impl_id, const char *name) const {
    refuse_while_registering("look for extensions");
    const CatalogOp &declared = catalog().declared(expect_implementation(op, impl_id));
    const auto found = std::find_if(declared.implementations.begin(), declared.implementations.end(),
                                    [&](const auto &one) { return same_name(one->impl_id, impl_id); });
    if (found == declared.implementations.end()) { // another thread has just unregistered its module
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{} of op {}: {}", quote(impl_id), quote(op), Tenancy::gone));
    }
    const Implementation &implementation = **found;
    const std::string what = fmt::format("an extension of '{}' for op '{}'", implementation.impl_id, declared.name);
    const OpPolicy policy = effective_policy().effective(declared.name, implementation.device, 0);
    if (const std::string refusal = refusal_of_vendor(implementation, policy); !refusal.empty()) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{}: {}", what, refusal));
    }
    if (DeferredPlugin *plugin = implementation.deferred) {
        if (const Rejection *rejection = plugin->open()) {
            throw Error(OPDOCK_LOAD_FAILED, fmt::format("{}: {}", what, plugin->unavailable(*rejection)));
        }
    }
    const Tenancy::Visit visit(implementation.tenancy.get());
    if (visit.is_refused()) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{}: {}", what, Tenancy::gone));
    }
    const Callbacks &callbacks = implementation.callbacks();
    const void *table = nullptr;
    const opdock_status status = call_plugin([&] {
        table =
            callbacks.get_extension != nullptr ? callbacks.get_extension(&api(), callbacks.user_data, name) : nullptr;
        return OPDOCK_OK;
    });
    if (status != OPDOCK_OK) {
        throw Error(status, fmt::format("{}: get_extension: {}", what, take_message(status)));
    }
    return table;
}

void Host::reset_health(const char *op, const char *impl_id) {
    (void)expect_implementation(op, impl_id);
    refuse_when_frozen("change which implementation serves");
    forget_call_deaths(op != nullptr ? find_op(op)->name.c_str() : nullptr, impl_id);
    CallHost::reset_health(op, impl_id);
}

void Host::start_over_in_child() {
    live_socket_.reset();
    table_->users = 0; // the parent's other threads were the users
    auto *fresh = new Loading;
    fresh->of_parent = &loading();
    loading_.store(fresh, std::memory_order_release);
    if (observation_) {
        observation_->start_over_in_child();
    }
    CallHost::start_over_in_child();
}

void Host::work_in_child() {
    if (observation_) {
        observation_->start_in_child();
    }
}

std::function<void()> Host::work_at_exit() const {
    return [live = live_socket_, observation = observation_, of_calls = CallHost::work_at_exit()] {
        if (live) {
            live->end();
        }
        if (observation) {
            observation->end();
        }
        if (of_calls) {
            of_calls();
        }
    };
}

} // namespace opdock::core
