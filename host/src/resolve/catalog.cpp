#include "resolve/catalog.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

std::string implementer_key(const Implementation &implementation) {
    return implementation.op + ' ' + folded(implementation.impl_id);
}

// The op in modifiable form: this catalog's own, or a new copy if older catalogs share it.
CatalogOp &own(std::shared_ptr<const CatalogOp> &slot) {
    if (slot.use_count() != 1) {
        slot = slot ? std::make_shared<CatalogOp>(*slot) : std::make_shared<CatalogOp>();
    }
    return const_cast<CatalogOp &>(*slot);
}

const OpForm &longest_of(const std::vector<OpForm> &forms) {
    const OpForm *longest = &forms.front();
    for (const OpForm &form : forms) {
        if (compare(*form.signature, *longest->signature, nullptr) == Compatibility::extends) {
            longest = &form;
        }
    }
    return *longest;
}

// Returns, for each dtype variable, all dtypes that any form allows. `longest` is one of the forms.
std::vector<std::vector<uint32_t>> allowed_by_any(const std::vector<OpForm> &forms, const Signature &longest) {
    std::vector<std::vector<uint32_t>> allowed(longest.allowed_dtypes.size());
    for (size_t i = 0; i < allowed.size(); ++i) {
        for (const NamedDtype &known : named_dtypes) { // in the order that signatures use
            const auto allows = [&](const OpForm &form) {
                const auto &of_form = form.signature->allowed_dtypes;
                return i < of_form.size() &&
                       std::find(of_form[i].begin(), of_form[i].end(), known.packed) != of_form[i].end();
            };
            if (std::any_of(forms.begin(), forms.end(), allows)) {
                allowed[i].push_back(known.packed);
            }
        }
    }
    return allowed;
}

// The op gets the longest form, with all dtypes that any form allows. Of equivalent forms the first one wins.
void choose_form(CatalogOp &op) {
    const OpForm &longest = longest_of(op.forms);
    Signature all = *longest.signature;
    all.allowed_dtypes = allowed_by_any(op.forms, all);
    const auto whole = std::find_if(op.forms.begin(), op.forms.end(), [&](const OpForm &form) {
        return form.signature->allowed_dtypes == all.allowed_dtypes &&
               compare(*form.signature, all, nullptr) == Compatibility::same;
    });
    op.plugin = (whole != op.forms.end() ? *whole : longest).plugins.front();
    if (whole != op.forms.end()) {
        op.signature = whole->signature;
        return;
    }
    all.text = print_signature(all);
    if (op.signature == nullptr || *op.signature != all) {
        op.signature = std::make_shared<const Signature>(std::move(all));
    }
}

// Returns the number of new signature bytes.
size_t declare(CatalogOp &op, const OpDeclaration &declaration) {
    op.name = declaration.signature->name;
    const auto same = std::find_if(op.forms.begin(), op.forms.end(),
                                   [&](const OpForm &form) { return form.signature == declaration.signature; });
    if (same != op.forms.end()) {
        same->plugins.push_back(declaration.plugin);
        return 0;
    }
    op.forms.push_back({declaration.signature, {declaration.plugin}});
    choose_form(op);
    return declaration.signature->text.size();
}

} // namespace

size_t number_of_tuples(const std::vector<OpForm> &forms) {
    if (forms.empty()) {
        return 0;
    }
    Signature all;
    all.allowed_dtypes = allowed_by_any(forms, *longest_of(forms).signature);
    return number_of_tuples(all);
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

Standing Catalog::standing(const std::string &id) const {
    const PluginRecord *plugin = find_plugin(id);
    return id.empty() ? Standing::program : plugin != nullptr ? plugin->standing : Standing::found;
}

const std::string *Catalog::implementer(const Implementation &implementation) const {
    const auto found = implementers.find(implementer_key(implementation));
    return found == implementers.end() ? nullptr : &found->second;
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

void Catalog::add(const Registration &registration, Standing of_plugin) {
    for (const OpDeclaration &declaration : registration.ops) {
        signature_bytes += declare(own(ops[declaration.signature->name]), declaration);
    }
    for (const auto &implementation : registration.implementations) {
        // The registrar has verified that the plugin declares the op.
        own(ops.at(implementation->op)).implementations.push_back(implementation);
        implementers.emplace(implementer_key(*implementation), implementation->plugin);
    }
    for (const auto &provider : registration.devices) {
        const auto lower = std::find_if(providers.begin(), providers.end(), [&](const auto &other) {
            return !in_use && standing(other->plugin) < of_plugin;
        });
        providers.insert(lower, provider);
    }
    vendors.insert(vendors.end(), registration.vendors.begin(), registration.vendors.end());
}

const CatalogOp &Catalog::declared(std::string_view op) const {
    const CatalogOp *found = find(op);
    if (found == nullptr) {
        throw Error(OPDOCK_UNKNOWN_OP, fmt::format("op '{}': no plugin declares it any more", op));
    }
    return *found;
}

void Catalog::remove(const Implementation &implementation) {
    std::erase_if(own(ops.at(implementation.op)).implementations,
                  [&](const auto &other) { return other.get() == &implementation; });
    implementers.erase(implementer_key(implementation));
}

void Catalog::remove(const DeviceProvider &provider) {
    std::erase_if(providers, [&](const auto &other) { return other.get() == &provider; });
}

void Catalog::remove(const std::string &name, const std::string &plugin) {
    const auto found = ops.find(name);
    CatalogOp &op = own(found->second);
    std::erase_if(op.implementations, [&](const auto &implementation) {
        if (implementation->plugin == plugin) {
            implementers.erase(implementer_key(*implementation));
        }
        return implementation->plugin == plugin;
    });
    for (OpForm &form : op.forms) {
        std::erase(form.plugins, plugin);
    }
    std::erase_if(op.forms, [&](const OpForm &form) {
        signature_bytes -= form.plugins.empty() ? form.signature->text.size() : 0;
        return form.plugins.empty();
    });
    if (op.forms.empty()) {
        ops.erase(found);
    } else {
        choose_form(op);
    }
}

void Catalog::remove_plugin(const std::string &id) {
    std::vector<std::string> declared;
    for (const auto &[name, op] : ops) {
        const auto has_it = [&](const OpForm &form) {
            return std::find(form.plugins.begin(), form.plugins.end(), id) != form.plugins.end();
        };
        if (std::any_of(op->forms.begin(), op->forms.end(), has_it)) {
            declared.push_back(name);
        }
    }
    for (const std::string &name : declared) {
        remove(name, id);
    }
    std::erase_if(providers, [&](const auto &provider) { return provider->plugin == id; });
    loaded.erase(id);
}

void Catalog::forget_plugin(const std::string &id) {
    const size_t place = loaded.at(id);
    remove_plugin(id);
    plugins.erase(plugins.begin() + static_cast<std::ptrdiff_t>(place));
    for (auto &[other, index] : loaded) {
        index -= index > place ? 1 : 0;
    }
}

} // namespace opdock::core
