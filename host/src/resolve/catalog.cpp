#include "resolve/catalog.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Several plugins may provide one kind, but then all of them mean the same by it.
bool contradict(const DeviceProvider &a, const DeviceProvider &b) {
    const bool same_kind = same_name(a.kind, b.kind);
    const bool same_type = a.table.dl_device_type == b.table.dl_device_type;
    return (same_kind || same_type) && !(same_kind && same_type && a.stream_type == b.stream_type);
}

std::string implementer_key(const Implementation &implementation) {
    return implementation.op + ' ' + folded(implementation.impl_id);
}

// The op as it may be changed: this catalog's own, or a copy of one that older catalogs share.
CatalogOp &own(std::shared_ptr<const CatalogOp> &slot) {
    if (slot.use_count() != 1) {
        slot = slot ? std::make_shared<CatalogOp>(*slot) : std::make_shared<CatalogOp>();
    }
    return const_cast<CatalogOp &>(*slot);
}

std::string summary(const DeviceProvider &provider) {
    return fmt::format("'{}' of {} (type {}, stream '{}')", provider.kind,
                       provider.plugin.empty() ? "the host" : "plugin '" + provider.plugin + "'",
                       provider.table.dl_device_type, provider.stream_type);
}

} // namespace

std::vector<RegistrationError> conflicts(const Catalog &catalog, const Registration &registration,
                                         const std::string &id) {
    std::vector<RegistrationError> found;
    for (const OpDeclaration &declaration : registration.ops) {
        const CatalogOp *op = catalog.find(declaration.signature->name);
        std::string why;
        if (op != nullptr && op->signature != declaration.signature &&
            compare(*declaration.signature, *op->signature, &why) == Compatibility::conflict) {
            found.push_back({RejectCode::signature_conflict,
                             fmt::format("op '{}': the signature of plugin '{}' contradicts that of plugin '{}': {}\n"
                                         "  '{}' declares {}\n  '{}' declares {}",
                                         op->name, id, op->plugin, why, id, declaration.signature->text, op->plugin,
                                         op->signature->text)});
        }
    }
    for (const auto &implementation : registration.implementations) {
        const auto other = catalog.implementers.find(implementer_key(*implementation));
        if (other != catalog.implementers.end()) {
            found.push_back({RejectCode::conflict,
                             fmt::format("op '{}': plugin '{}' registers impl_id '{}', which plugin '{}' already has. "
                                         "Give one of them another impl_id.",
                                         implementation->op, id, implementation->impl_id, other->second)});
        }
    }
    for (const auto &provider : registration.devices) {
        for (const auto &other : catalog.providers) {
            if (contradict(*provider, *other)) {
                found.push_back({RejectCode::conflict,
                                 fmt::format("a device kind has one DLPack device type and one type of stream: {} "
                                             "contradicts {}",
                                             summary(*provider), summary(*other))});
            }
        }
    }
    return found;
}

void Catalog::add(PluginRecord plugin) {
    if (plugin.status == PluginRecord::Status::loaded) {
        loaded.emplace(plugin.id, plugins.size());
    }
    plugins.push_back(std::move(plugin));
}

const PluginRecord *Catalog::find_plugin(const std::string &id) const {
    const auto found = loaded.find(id);
    return found == loaded.end() ? nullptr : &plugins[found->second];
}

std::vector<std::string> Catalog::rejected_plugins() const {
    std::vector<std::string> sentences;
    for (const PluginRecord &plugin : plugins) {
        if (plugin.status == PluginRecord::Status::rejected) {
            sentences.push_back(fmt::format("{}: {}: {}", plugin.path, plugin.code, plugin.reason));
        }
    }
    return sentences;
}

void extend(Catalog &catalog, const Registration &registration) {
    for (const OpDeclaration &declaration : registration.ops) {
        CatalogOp &op = own(catalog.ops[declaration.signature->name]);
        if (!op.signature || (op.signature != declaration.signature &&
                              compare(*declaration.signature, *op.signature, nullptr) == Compatibility::extends)) {
            op.signature = declaration.signature;
            op.plugin = declaration.plugin;
        }
        op.name = declaration.signature->name;
        if (op.doc.empty()) {
            op.doc = declaration.doc;
        }
    }
    for (const auto &implementation : registration.implementations) {
        // The registrar saw to it that the plugin declares the op.
        own(catalog.ops.at(implementation->op)).implementations.push_back(implementation);
        catalog.implementers.emplace(implementer_key(*implementation), implementation->plugin);
    }
    catalog.providers.insert(catalog.providers.end(), registration.devices.begin(), registration.devices.end());
    catalog.vendors.insert(catalog.vendors.end(), registration.vendors.begin(), registration.vendors.end());
}

} // namespace opdock::core
