#include "resolve/admission.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// "acme.fancy" is an op of vendor "Acme". Vendor opdock owns none: the folder identifies opdock's plugins, not a name.
bool owns_op(const std::string &vendor, std::string_view op) {
    return !vendor.empty() && !same_name(vendor, "opdock") && op.starts_with(folded(vendor) + ".");
}

// "vendor.acme" and "vendor.acme-fast" are implementations of vendor "Acme".
bool owns_impl_id(const std::string &vendor, const std::string &impl_id) {
    const std::string id = folded(impl_id);
    const std::string own = "vendor." + folded(vendor);
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    return !vendor.empty() && id.starts_with(own) && (id.size() == own.size() || !is_letter(id[own.size()]));
}

// The strength of a plugin's claim to something. Of equal claims, the first found wins.
struct Claim {
    bool by_name = false; // it carries the name of the plugin's vendor
    Standing standing = Standing::found;

    bool beats(const Claim &other) const { return rank() > other.rank(); }
    // The reason, as the end of a sentence.
    std::string_view why_it_beats(const Claim &other) const {
        if (by_name != other.by_name && standing != Standing::program) {
            return "bears the name of its vendor";
        }
        switch (standing) {
        case Standing::program:
            return "is the program's own";
        case Standing::own:
            return "is part of opdock itself";
        case Standing::beside:
            return "is in opdock's own folder of plugins";
        default:
            return "is signed with a trusted key or listed by its digest";
        }
    }

  private:
    std::tuple<bool, bool, Standing> rank() const { return {standing == Standing::program, by_name, standing}; }
};

// Several plugins may provide one type, but their definitions of it must agree.
bool contradict(const DeviceProvider &a, const DeviceProvider &b) {
    const bool same_word = same_name(a.type, b.type);
    const bool same_number = a.table.dl_device_type == b.table.dl_device_type;
    return (same_word || same_number) && !(same_word && same_number && a.stream_type == b.stream_type);
}

std::string owner_text(const std::string &plugin) {
    return plugin.empty() ? "the host" : "plugin '" + plugin + "'";
}

std::string summary(const DeviceProvider &provider) {
    return fmt::format("'{}' of {} (type {}, stream '{}')", provider.type, owner_text(provider.plugin),
                       provider.table.dl_device_type, provider.stream_type);
}

class Judge {
  public:
    Judge(const Catalog &catalog, const Registration &registration, const PluginIdentity &plugin,
          const std::string &default_plugins)
        : catalog_(catalog), registration_(registration), plugin_(plugin), default_plugins_(default_plugins) {}

    Admission run() {
        for (const OpDeclaration &declaration : registration_.ops) {
            judge(declaration);
        }
        for (const auto &provider : registration_.devices) {
            judge(provider);
        }
        for (const auto &implementation : registration_.implementations) {
            judge(implementation);
        }
        say_of_others_kind();
        judge_signatures();
        judge_looks();
        result_.taken.vendors = registration_.vendors;
        result_.taken.shutdowns = registration_.shutdowns;
        return std::move(result_);
    }

  private:
    std::string vendor_of(const std::string &plugin) const {
        const PluginRecord *record = catalog_.find_plugin(plugin);
        return record != nullptr ? record->vendor : std::string();
    }
    Claim own_claim(bool by_name) const { return {by_name, plugin_.standing}; }
    Claim claim_of(const std::string &plugin, bool by_name) const { return {by_name, catalog_.standing(plugin)}; }
    void leave_out(std::string sentence) { result_.left_out.push_back(std::move(sentence)); }
    void refuse(RejectCode code, std::string message) { result_.errors.push_back({code, std::move(message)}); }

    // One sentence for all ops: a plugin that makes this mistake usually makes it for all of them.
    void say_of_others_kind() {
        constexpr std::size_t most_named = 3;
        for (const auto &[implementation, ops] : of_others_kind_) {
            const auto &[impl_id, kind] = implementation;
            const auto named = std::span(ops).first(std::min(ops.size(), most_named));
            const std::size_t more = ops.size() - named.size();
            leave_out(fmt::format(
                "implementation '{}' for op{} '{}'{} is left out: it is registered as kind {}, which is reserved for "
                "opdock's own plugins and for ops that bear the name of the plugin's vendor ('{}.NAME').\nRegister it "
                "as OPDOCK_KIND_VENDOR. To use it as it is, name plugin '{}' in {}.",
                impl_id, ops.size() == 1 ? "" : "s", fmt::join(named, "', '"),
                more == 0 ? "" : fmt::format(" and {} more", more), kind_name(kind), folded(plugin_.vendor), plugin_.id,
                default_plugins_));
        }
    }

    void judge(const OpDeclaration &declaration) {
        const std::string &name = declaration.signature->name;
        const CatalogOp *op = catalog_.find(name);
        // Checks each form and not only the op's: the plugins that declare the op's form may be unregistered.
        if (op == nullptr || std::any_of(op->forms.begin(), op->forms.end(),
                                         [&](const OpForm &form) { return form.signature == declaration.signature; })) {
            result_.taken.ops.push_back(declaration);
            return;
        }
        const Claim claim = own_claim(owns_op(plugin_.vendor, name));
        std::vector<Admission::Loss> losses;
        for (const OpForm &form : op->forms) {
            std::string why;
            if (compare(*declaration.signature, *form.signature, &why) != Compatibility::conflict) {
                continue;
            }
            for (const std::string &other : form.plugins) {
                const Claim theirs = claim_of(other, owns_op(vendor_of(other), name));
                const std::string contradiction = fmt::format(
                    "op '{}': the signature of plugin '{}' contradicts that of plugin '{}': {}\n"
                    "  '{}' declares {}\n  '{}' declares {}",
                    name, plugin_.id, other, why, plugin_.id, declaration.signature->text, other, form.signature->text);
                if (claim.beats(theirs)) {
                    losses.push_back(
                        {other,
                         fmt::format("{}\nThe op and its implementations are left out, because plugin '{}' {}.",
                                     contradiction, plugin_.id, claim.why_it_beats(theirs)),
                         name, nullptr, nullptr});
                } else if (theirs.by_name && !claim.by_name) {
                    lost_ops_.insert(name);
                    leave_out(fmt::format("{}\nThe op and its implementations are left out, because the op bears the "
                                          "name of the other plugin's vendor.",
                                          contradiction));
                    return;
                } else {
                    refuse(RejectCode::signature_conflict,
                           contradiction + "\nDeclare the op with the same signature, or give your op a name that "
                                           "begins with your vendor's name.");
                    return;
                }
            }
        }
        for (Admission::Loss &loss : losses) {
            lost_by_others_.insert({loss.plugin, name});
            result_.losses.push_back(std::move(loss));
        }
        result_.taken.ops.push_back(declaration);
    }

    void judge(const std::shared_ptr<const DeviceProvider> &provider) {
        std::vector<Admission::Loss> losses;
        for (const auto &other : catalog_.providers) {
            if (!contradict(*provider, *other)) {
                continue;
            }
            const std::string contradiction = fmt::format("{} contradicts {}: a device type has one DLDeviceType and "
                                                          "one type of stream, and a DLDeviceType belongs "
                                                          "to one device type{}",
                                                          summary(*provider), summary(*other),
                                                          provider->table.dl_device_type == kDLExtDev
                                                              ? ". For a device without a DLPack number, the vendor "
                                                                "takes a number from 1000 on (opdock/abi/device.h)"
                                                              : "");
            const Claim theirs = claim_of(other->plugin, false);
            if (own_claim(false).beats(theirs) && !catalog_.in_use) {
                losses.push_back(
                    {other->plugin,
                     fmt::format("{}\nThe type and its implementations are left out, because plugin '{}' {}.",
                                 contradiction, plugin_.id, own_claim(false).why_it_beats(theirs)),
                     "", nullptr, other});
            } else if (plugin_.standing == Standing::program) {
                refuse(RejectCode::conflict, contradiction); // an error, because the program's author can fix it
                return;
            } else {
                lost_types_.push_back(provider->type);
                leave_out(fmt::format("{}\nThe type and its implementations are left out.", contradiction));
                return;
            }
        }
        std::move(losses.begin(), losses.end(), std::back_inserter(result_.losses));
        result_.taken.devices.push_back(provider);
    }

    void judge(const std::shared_ptr<const Implementation> &implementation) {
        const Implementation &one = *implementation;
        const bool is_of_lost_type = std::any_of(lost_types_.begin(), lost_types_.end(),
                                                 [&](const std::string &kind) { return same_name(kind, one.device); });
        if (lost_ops_.contains(one.op) || is_of_lost_type) {
            return; // already reported
        }
        if (one.kind != Kind::vendor && plugin_.standing < Standing::own && !plugin_.named_default &&
            !owns_op(plugin_.vendor, one.op)) {
            of_others_kind_[{one.impl_id, one.kind}].push_back(one.op);
            return;
        }
        const std::string *other = catalog_.implementer(one);
        if (other == nullptr || lost_by_others_.contains({*other, one.op})) {
            result_.taken.implementations.push_back(implementation);
            return;
        }
        const auto by_name = [&](const std::string &vendor) {
            return owns_op(vendor, one.op) || owns_impl_id(vendor, one.impl_id);
        };
        const Claim claim = own_claim(by_name(plugin_.vendor));
        const Claim theirs = claim_of(*other, by_name(vendor_of(*other)));
        if (claim.beats(theirs)) {
            auto lost = find(one, *other);
            std::string sentence = fmt::format(
                "implementation '{}' for op '{}' is left out: plugin '{}' registers this impl_id as well, and "
                "{}. Give one of them another impl_id.",
                lost->impl_id, one.op, plugin_.id, claim.why_it_beats(theirs));
            result_.losses.push_back({*other, std::move(sentence), "", std::move(lost), nullptr});
            result_.taken.implementations.push_back(implementation);
        } else if (plugin_.standing == Standing::program) {
            refuse(RejectCode::conflict,
                   fmt::format("op '{}': plugin '{}' registers impl_id '{}', which plugin '{}' already has. "
                               "Give one of them another impl_id.",
                               one.op, plugin_.id, one.impl_id, *other));
        } else {
            leave_out(fmt::format("implementation '{}' for op '{}' is left out: plugin '{}' has this impl_id, and {}. "
                                  "Give one of them another impl_id.",
                                  one.impl_id, one.op, *other,
                                  theirs.beats(claim) ? theirs.why_it_beats(claim) : "was found first"));
        }
    }

    // Counts visits by a listing of the op, as limited by max_looks_at_implementations and max_looks_at_tuples.
    struct Looks {
        std::size_t implementations = 0;
        std::size_t tuples = 0; // listed by these, one for each that lists none

        void add(const Implementation &one) {
            ++implementations;
            tuples += std::max<std::size_t>(one.dtypes.size(), 1);
        }
    };

    // Checks the limit on the signatures of all plugins together.
    void judge_signatures() {
        if (plugin_.standing >= Standing::own || !result_.errors.empty()) {
            return;
        }
        std::size_t added = 0;
        for (const OpDeclaration &declaration : result_.taken.ops) {
            const CatalogOp *op = catalog_.find(declaration.signature->name);
            const bool is_known =
                op != nullptr && std::any_of(op->forms.begin(), op->forms.end(),
                                             [&](const auto &form) { return form.signature == declaration.signature; });
            added += is_known ? 0 : declaration.signature->text.size();
        }
        if (added != 0 && catalog_.signature_bytes + added > max_declared_bytes_of_all) {
            refuse(RejectCode::too_many_registrations,
                   fmt::format("its signatures have {} bytes in addition to the {} already loaded; at most {} are "
                               "kept. Declare fewer new ops, or leave out other plugins",
                               added, catalog_.signature_bytes, max_declared_bytes_of_all));
        }
    }

    // Hosts visit each implementation of an op for each combination of dtypes, so the product is limited. Plugins of
    // opdock and modules of the program are exempt.
    void judge_looks() {
        if (plugin_.standing >= Standing::own || !result_.errors.empty()) {
            return;
        }
        std::map<std::string, Looks, std::less<>> added;
        for (const auto &implementation : result_.taken.implementations) {
            added[implementation->op].add(*implementation);
        }
        std::size_t implementations = 0;
        std::size_t tuples = 0;
        for (const OpDeclaration &declaration : result_.taken.ops) {
            const std::string &name = declaration.signature->name;
            const CatalogOp *op = catalog_.find(name);
            const auto is_lost = [&](const std::string &plugin) {
                return !lost_by_others_.empty() && lost_by_others_.contains({plugin, name});
            };
            std::vector<OpForm> forms;
            for (const OpForm &form : op != nullptr ? std::span<const OpForm>(op->forms) : std::span<const OpForm>()) {
                if (!std::all_of(form.plugins.begin(), form.plugins.end(), is_lost)) {
                    forms.push_back({form.signature, {}});
                }
            }
            const std::size_t before = number_of_tuples(forms);
            forms.push_back({declaration.signature, {}});
            const std::size_t after = number_of_tuples(forms);
            const std::size_t more = after - std::min(before, after);
            Looks others;
            if (op != nullptr && more != 0) {
                for (const auto &one : op->implementations) {
                    if (!is_lost(one->plugin)) {
                        others.add(*one);
                    }
                }
            }
            const Looks &mine = added[name];
            implementations += after * mine.implementations + more * others.implementations;
            tuples += after * mine.tuples + more * others.tuples;
            if (implementations > max_looks_at_implementations || tuples > max_looks_at_tuples) {
                refuse(RejectCode::too_many_registrations,
                       fmt::format("up to op '{}', which has {} combinations of dtypes here, it adds {} "
                                   "implementations times combinations, and {} combinations that implementations list "
                                   "times those of the op; at most {} and {} are kept. Use fewer implementations of an "
                                   "op or fewer dtype variables, or list no dtypes if an implementation takes all",
                                   name, after, implementations, tuples, max_looks_at_implementations,
                                   max_looks_at_tuples));
                return;
            }
        }
    }

    // The implementation of `plugin` with the same op and impl_id as `one`.
    std::shared_ptr<const Implementation> find(const Implementation &one, const std::string &plugin) const {
        const auto &all = catalog_.find(one.op)->implementations;
        const auto found = std::find_if(all.begin(), all.end(), [&](const auto &candidate) {
            return candidate->plugin == plugin && same_name(candidate->impl_id, one.impl_id);
        });
        return *found; // exists according to the catalog
    }

    const Catalog &catalog_;
    const Registration &registration_;
    const PluginIdentity &plugin_;
    const std::string &default_plugins_;
    Admission result_;
    std::map<std::pair<std::string, Kind>, std::vector<std::string>> of_others_kind_; // ops, by impl_id and kind
    std::set<std::string, std::less<>> lost_ops_;                                     // of the newcomer
    std::vector<std::string> lost_types_;                                             // of the newcomer
    std::set<std::pair<std::string, std::string>> lost_by_others_;                    // plugin and op
};

} // namespace

Admission judge_admission(const Catalog &catalog, const Registration &registration, const PluginIdentity &plugin,
                          const std::string &default_plugins) {
    return Judge(catalog, registration, plugin, default_plugins).run();
}

void admit(Catalog &catalog, const Admission &admission, Standing standing) {
    for (const Admission::Loss &loss : admission.losses) {
        if (!loss.op.empty()) {
            catalog.remove(loss.op, loss.plugin);
        } else if (loss.provider != nullptr) {
            std::vector<std::shared_ptr<const Implementation>> for_kind;
            for (const auto &[name, op] : catalog.ops) {
                std::copy_if(op->implementations.begin(), op->implementations.end(), std::back_inserter(for_kind),
                             [&](const auto &one) {
                                 return one->plugin == loss.plugin && same_name(one->device, loss.provider->type);
                             });
            }
            for (const auto &one : for_kind) {
                catalog.remove(*one);
            }
            catalog.remove(*loss.provider);
        } else if (loss.implementation != nullptr) {
            catalog.remove(*loss.implementation);
        }
    }
    catalog.add(admission.taken, standing);
}

} // namespace opdock::core
