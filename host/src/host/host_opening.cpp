// Opening: a plugin's code is loaded into this process when one of its implementations is first
// chosen, or at once if no probe can be used.
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <dlfcn.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "host/host.hpp"
#include "load/deferred_plugin.hpp"
#include "load/kept_process.hpp"
#include "load/load.hpp"
#include "load/registration_difference.hpp"

namespace opdock::core {
namespace {

// Keeps a plugin's folder on request, or if the plugin stays mapped after it was released, as C++ inline variables
// cause: the loader would otherwise return it for a file of the same name in the next folder with this descriptor.
class KeptIfMapped {
  public:
    explicit KeptIfMapped(const DeferredPlugin::Place &place)
        : directory_(place.directory), name_(place.directory->name_for_loader(place.name)) {}
    ~KeptIfMapped() {
        if (void *const mapped = kept_ ? nullptr : ::dlopen(name_.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
            ::dlclose(mapped);
            directory_.keep();
        }
    }
    KeptIfMapped(const KeptIfMapped &) = delete;
    KeptIfMapped &operator=(const KeptIfMapped &) = delete;

    void keep() noexcept {
        directory_.keep();
        kept_ = true;
    }

  private:
    KeptDirectory directory_;
    const std::string name_;
    bool kept_ = false;
};

// Throws Rejected.
Loaded load_code(const DeferredPlugin::Place &place) {
    const LoadingCode constructors(thread_state());
    auto loaded = load(*place.directory, place.name, place.identity);
    if (const auto *rejection = std::get_if<Rejection>(&loaded)) {
        throw Rejected(rejection->code, rejection->message);
    }
    return std::move(std::get<Loaded>(loaded));
}

} // namespace

const Rejection *Host::open_plugin(DeferredPlugin &plugin) const {
    const auto rejection_in = [](const DeferredPlugin::Outcome &outcome) {
        return outcome.rejection ? &*outcome.rejection : nullptr;
    };
    if (const DeferredPlugin::Outcome *known = plugin.outcome()) {
        return rejection_in(*known);
    }
    const std::lock_guard lock(loading().mutex);
    if (const DeferredPlugin::Outcome *known = plugin.outcome()) {
        return rejection_in(*known);
    }
    auto outcome = std::make_unique<DeferredPlugin::Outcome>();
    std::uint32_t deaths = 0;
    const pid_t process = ::getpid();
    try {
        deaths = deaths_of(plugin);
        outcome->registration = open_and_register(plugin, outcome->warning);
    } catch (const Rejected &rejected) {
        outcome->rejection = Rejection{rejected.code(), plugin.identity().path, rejected.what()};
        log_.warning("The " + plugin.unavailable(*outcome->rejection));
    }
    const Rejection *const rejection = rejection_in(plugin.settle(std::move(outcome)));
    if (!plugin.outcome()->warning.empty()) {
        log_.warning("Plugin " + plugin.outcome()->warning);
    }
    if (rejection == nullptr && deaths != 0 && ::getpid() == process) { // not in a fork made by the plugin
        forget_deaths(plugin);
    }
    return rejection;
}

void Host::open_untried(const PluginIdentity &identity, const DeferredPlugin::Place &place, Catalog &into,
                        PluginRecord &record) {
    Journal::Open entry =
        ledger().journal.write({JournalEntry::Doing::opening, place.remembered, {}, {}, place.identity});
    entry.during([&] {
        const KeptProcess keep(log_, record.path); // what restoring the mask lets through is the plugin's doing, too
        KeptIfMapped directory(place);
        Loaded loaded = load_code(place);
        if (!loaded.warning.empty()) {
            record.warnings.push_back(loaded.warning); // logged with the others
        }
        take(identity, loaded.entry, into, &record);
        keep_mapped(std::move(loaded));
        directory.keep();
    });
}

Registration Host::open_and_register(const DeferredPlugin &plugin, std::string &warning) const {
    Journal::Open entry = ledger().journal.write(
        {JournalEntry::Doing::opening, plugin.place().remembered, {}, {}, plugin.place().identity});
    Registration registration;
    entry.during([&] { registration = register_opened(plugin, warning); });
    return registration;
}

Registration Host::register_opened(const DeferredPlugin &plugin, std::string &warning) const {
    Loading &book = loading();
    const DeferredPlugin::Place &place = plugin.place();
    const KeptProcess keep(log_, plugin.identity().path); // as above
    // Allocates first: once its code is loaded, it stays, whatever the outcome.
    std::list<std::unique_ptr<Registrar>> made;
    Registrar &registrar =
        *made.emplace_back(std::make_unique<Registrar>(plugin.identity(), &table_->api, book.signatures));
    KeptIfMapped directory(place);
    table_->keep();
    Loaded loaded = load_code(place);
    const opdock_entry entry_point = loaded.entry;
    warning = loaded.warning;
    book.registrars.splice(book.registrars.end(), made);
    directory.keep();
    keep_mapped(std::move(loaded)); // its own threads may run in it
    registrar.run(entry_point);
    if (!registrar.errors().empty()) {
        throw Rejected(RejectCode::registration_changed,
                       fmt::format("{}.\nWhen it was scanned, it registered without errors. What an entry registers "
                                   "must depend only on the file.",
                                   text_of(plugin.identity().id, registrar.errors())));
    }
    Registration registration = registrar.take();
    if (const std::optional<std::string> difference = find_difference(plugin.known(), registration)) {
        throw Rejected(RejectCode::registration_changed,
                       fmt::format("{}.\nWhat an entry registers must depend only on the file; checks of the machine "
                                   "belong in available().",
                                   *difference));
    }
    log_.debug(fmt::format("Plugin '{}' opened from '{}'", plugin.identity().id, plugin.identity().path));
    // Last: steps before it that run out of memory are repeated.
    book.shutdowns.insert(book.shutdowns.end(), registration.shutdowns.begin(), registration.shutdowns.end());
    return registration;
}

} // namespace opdock::core
