#include "tvm_ffi_manifest.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <tuple>

#include <spdlog/fmt/fmt.h>

#include "cli/exit.hpp"
#include "load/architecture.hpp"
#include "load/registration_fields.hpp"
#include "opdock/plugin.h"
#include "signature/other_names.hpp"
#include "signature/standard_ops.hpp"
#include "text/error.hpp"
#include "tune/yaml_reader.hpp"
#include "tvm_ffi_arguments.hpp"

namespace opdock::plugin_pack {
namespace {

using core::YamlNode;
using Type = YamlNode::Type;

constexpr std::array<std::string_view, 5> plugin_fields = {"plugin", "version", "vendor", "library", "implementations"};
constexpr std::array<std::string_view, 6> own_fields = {"op", "id", "function", "arguments", "knobs", "where"};
constexpr std::array<std::string_view, 11> shared_fields = {
    "module",     "device",  "dtypes",       "architectures", "priority",       "alignment",
    "contiguous", "flatten", "capture_safe", "deterministic", "batch_invariant"};
constexpr std::uint32_t standard_alignment = 16; // needed by kernels that load vectors
constexpr std::int64_t most_alignment = 4096;

const YamlNode *find(const YamlNode &map, std::string_view name) {
    for (const auto &[key, value] : map.entries) {
        if (key.text == name) {
            return &value;
        }
    }
    return nullptr;
}

class ManifestReader : core::YamlReader {
  public:
    ManifestReader(TvmFfiManifest &manifest, std::vector<core::TuneProblem> &problems)
        : YamlReader(problems), manifest_(manifest), problems_(problems) {}

    void read(const YamlNode &root) {
        if (!expect(root, Type::map, "the manifest")) {
            return;
        }
        root_ = &root;
        check_fields(root, plugin_fields);
        manifest_.plugin = id_of_plugin();
        manifest_.version = text(root, "version");
        manifest_.vendor = name(root, "vendor", "");
        if (find(root, "library") != nullptr) {
            manifest_.contents.library = text(root, "library");
        }
        const YamlNode *list = find(root, "implementations");
        if (list == nullptr) {
            complain(root, "expected a field 'implementations'");
        } else if (expect(*list, Type::sequence, "implementations")) {
            for (const YamlNode &one : list->items) {
                read_implementation(one);
            }
        }
    }

  private:
    void check_fields(const YamlNode &map, std::span<const std::string_view> own) const {
        std::vector<std::string_view> known(own.begin(), own.end());
        known.insert(known.end(), shared_fields.begin(), shared_fields.end());
        for (const auto &entry : map.entries) {
            if (std::find(known.begin(), known.end(), entry.key.text) == known.end()) {
                complain(entry.key, "unknown field " + core::quote(entry.key.text) +
                                        core::hint_for(problems_, entry.key.text, known));
            }
        }
    }

    // The field of the implementation, else that of the plugin.
    const YamlNode *find_shared(const YamlNode &map, std::string_view field) const {
        const YamlNode *found = find(map, field);
        return found != nullptr ? found : find(*root_, field);
    }

    // Not empty, and without control characters; "" after reporting a problem.
    std::string text(const YamlNode &map, std::string_view field) const {
        const YamlNode *value = find_shared(map, field);
        if (value == nullptr) {
            complain(map, fmt::format("expected a field '{}'", field));
        } else if (expect(*value, Type::scalar, std::string(field))) {
            if (!value->text.empty() && value->text.size() <= core::max_text_bytes && core::is_printable(value->text)) {
                return value->text;
            }
            complain(*value, fmt::format("{}: expected a text of one line, found {}", field, core::quote(value->text)));
        }
        return {};
    }

    // The text of the field, which `check` validates; its exceptions become problems.
    template<class Check>
    std::string checked(const YamlNode &map, std::string_view field, const std::string &standard, Check check) const {
        const YamlNode *value = find_shared(map, field);
        if (value == nullptr && !standard.empty()) {
            return standard;
        }
        std::string found = text(map, field);
        if (!found.empty()) {
            try {
                check(found);
            } catch (const core::Rejected &rejected) {
                complain(*value, rejected.what());
            }
        }
        return found;
    }

    std::string name(const YamlNode &map, std::string_view field, const std::string &standard) const {
        const std::string label(field);
        return checked(map, field, standard, [&label](const std::string &found) {
            (void)core::copy_identifier(label.c_str(), found.c_str());
        });
    }

    std::string id_of_plugin() const {
        std::string found = name(*root_, "plugin", "");
        if (found.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") != std::string::npos) {
            complain(*find(*root_, "plugin"),
                     "plugin: expected lower-case letters, digits and _.-, found " + core::quote(found));
        }
        return found;
    }

    std::int64_t number(const YamlNode &map, std::string_view field, std::int64_t least, std::int64_t most,
                        std::int64_t standard) const {
        const YamlNode *value = find_shared(map, field);
        const auto found = value == nullptr ? std::nullopt : whole(*value, std::string(field));
        if (found && (found->value < least || found->value > most)) {
            complain(*value, fmt::format("{}: expected {} to {}, found {}", field, least, most, found->value));
            return standard;
        }
        return found ? found->value : standard;
    }

    bool is_set(const YamlNode &map, std::string_view field, bool standard = false) const {
        return number(map, field, 0, 1, standard ? 1 : 0) != 0;
    }

    // Nothing after reporting a problem.
    std::optional<core::Signature> signature_of(const YamlNode &map) const {
        const std::string written = text(map, "op");
        if (written.empty()) {
            return {};
        }
        const YamlNode &node = *find(map, "op");
        const bool is_signature = written.find('(') != std::string::npos;
        const std::string_view standard = core::standard_signature(core::standard_name(written));
        if (!is_signature && standard.empty()) {
            complain(node, "op: " + core::quote(written) + " is not a standard op" + core::other_name_hint(written) +
                               "; describe your own op by its signature");
            return {};
        }
        try {
            return core::parse_signature(is_signature ? std::string_view(written) : standard);
        } catch (const core::Error &error) {
            complain(node, std::string("op: ") + error.what());
            return {};
        }
    }

    void read_implementation(const YamlNode &map) {
        if (!expect(map, Type::map, "an implementation")) {
            return;
        }
        check_fields(map, own_fields);
        const std::optional<core::Signature> signature = signature_of(map);
        tvm_ffi::Implementation made;
        made.id = name(map, "id", manifest_.vendor.empty() ? "vendor" : "vendor." + manifest_.vendor);
        made.device = name(map, "device", "");
        made.module = text(map, "module");
        made.function = text(map, "function");
        made.architectures = architectures(map);
        made.priority = static_cast<std::int32_t>(number(map, "priority", std::numeric_limits<std::int32_t>::min(),
                                                         std::numeric_limits<std::int32_t>::max(), 0));
        made.alignment = static_cast<std::uint32_t>(number(map, "alignment", 0, most_alignment, standard_alignment));
        if ((made.alignment & (made.alignment - 1)) != 0) {
            complain(*find_shared(map, "alignment"), "alignment: expected a power of two");
        }
        set_flags(made, map);
        if (!signature) {
            return;
        }
        made.signature = signature->text;
        for (std::size_t i = 0; i < signature->n_params(); ++i) {
            if (i >= signature->inputs.size() || signature->parameter(i).mut) {
                made.written.push_back(static_cast<std::uint32_t>(i));
            }
        }
        if (find_shared(map, "dtypes") != nullptr) {
            made.dtypes = checked(map, "dtypes", "", [&](const std::string &found) {
                bool is_told = false;
                (void)core::parse_dtypes(found, *signature, is_told);
            });
        }
        ArgumentReader(problems_, *signature, made)
            .read(map, find(map, "knobs"), find(map, "arguments"), is_set(map, "flatten"));
        if (find(map, "where") != nullptr) {
            made.limits = limits(map, *signature);
        }
        add(std::move(made), map);
    }

    // Clauses in the syntax of signatures, which a valid call need not fulfil.
    std::vector<tvm_ffi::Limit> limits(const YamlNode &map, const core::Signature &signature) const {
        const std::string written = text(map, "where");
        const bool has_clauses = signature.text.find(" where ") != std::string::npos;
        std::vector<tvm_ffi::Limit> found;
        try {
            const core::Signature longer =
                core::parse_signature(signature.text + (has_clauses ? ", " : " where ") + written);
            if (longer.allowed_dtypes != signature.allowed_dtypes) {
                complain(*find(map, "where"), "where: dtypes are limited by 'dtypes'");
            }
            for (std::size_t i = signature.constraints.size(); i < longer.constraints.size(); ++i) {
                found.push_back(limit_of(longer, longer.constraints[i]));
            }
        } catch (const core::Error &error) {
            complain(*find(map, "where"), std::string("where: ") + error.what());
        }
        return found;
    }

    static tvm_ffi::Limit limit_of(const core::Signature &signature, const core::Constraint &constraint) {
        using Kind = core::Constraint::Kind;
        static_assert(static_cast<int>(Kind::in) == static_cast<int>(tvm_ffi::Limit::Kind::in) &&
                      static_cast<int>(Kind::less) == static_cast<int>(tvm_ffi::Limit::Kind::less));
        tvm_ffi::Limit limit;
        limit.text = core::print_constraint(signature, constraint);
        limit.kind = static_cast<tvm_ffi::Limit::Kind>(constraint.kind);
        limit.left = terms_of(signature, constraint.left);
        for (const core::Expression &right : constraint.right) {
            limit.right.push_back(terms_of(signature, right));
        }
        return limit;
    }

    static std::vector<tvm_ffi::Term> terms_of(const core::Signature &signature, const core::Expression &expression) {
        static_assert(static_cast<int>(core::Term::Kind::remainder) ==
                      static_cast<int>(tvm_ffi::Term::Kind::remainder));
        std::vector<tvm_ffi::Term> terms;
        for (const core::Term &term : expression) {
            const bool is_dim = term.kind == core::Term::Kind::dim;
            terms.push_back({static_cast<tvm_ffi::Term::Kind>(term.kind), term.value,
                             is_dim ? signature.dim_names[static_cast<std::size_t>(term.value)] : ""});
        }
        return terms;
    }

    void set_flags(tvm_ffi::Implementation &made, const YamlNode &map) const {
        made.flags = (is_set(map, "deterministic") ? OPDOCK_IMPL_DETERMINISTIC : 0) |
                     (is_set(map, "capture_safe") ? OPDOCK_IMPL_CAPTURE_SAFE : 0) |
                     (is_set(map, "batch_invariant") ? OPDOCK_IMPL_BATCH_INVARIANT : 0);
        const bool is_contiguous = is_set(map, "contiguous", true);
        made.required_flags = is_contiguous ? OPDOCK_IMPL_NEEDS_CONTIGUOUS : 0;
        if (!is_contiguous && is_set(map, "flatten")) {
            complain(*find_shared(map, "contiguous"), "contiguous: only contiguous tensors can be flattened");
        }
    }

    std::string architectures(const YamlNode &map) const {
        if (find_shared(map, "architectures") == nullptr) {
            return {};
        }
        std::string found = text(map, "architectures");
        for (const std::string &pattern : core::split(found, '|')) {
            if (!found.empty() && !core::is_architecture_pattern(pattern)) {
                complain(*find_shared(map, "architectures"),
                         "architectures: " + core::quote(pattern) +
                             " is not an architecture; expected for example sm_90a|sm_100+");
            }
        }
        return found;
    }

    void add(tvm_ffi::Implementation made, const YamlNode &map) {
        const std::string op = made.signature.substr(0, made.signature.find('('));
        for (const tvm_ffi::Implementation &other : manifest_.contents.implementations) {
            if (other.signature.substr(0, other.signature.find('(')) == op && core::same_name(other.id, made.id)) {
                complain(map, "op '" + op + "' has two implementations with the id '" + made.id +
                                  "'; give one of them another 'id'");
            }
        }
        manifest_.devices.insert(made.device);
        manifest_.contents.implementations.push_back(std::move(made));
    }

    TvmFfiManifest &manifest_;
    std::vector<core::TuneProblem> &problems_;
    const YamlNode *root_ = nullptr;
};

} // namespace

TvmFfiManifest parse_tvm_ffi_manifest(std::string_view text, const std::string &name) {
    TvmFfiManifest manifest;
    std::vector<core::TuneProblem> problems;
    ManifestReader(manifest, problems).read(core::parse_bounded_yaml(text, name, OPDOCK_INVALID_ARGUMENT));
    const auto place = [](const core::TuneProblem &problem) {
        return std::tie(problem.place.line, problem.place.column, problem.message);
    };
    std::sort(problems.begin(), problems.end(), [&](const auto &a, const auto &b) { return place(a) < place(b); });
    const auto again = std::unique(problems.begin(), problems.end(),
                                   [&](const auto &a, const auto &b) { return place(a) == place(b); });
    problems.erase(again, problems.end()); // reported again through an alias
    std::string faults;
    for (const core::TuneProblem &problem : problems) {
        faults += fmt::format("{}{}:{}:{}: {}", faults.empty() ? "" : "\n", name, problem.place.line,
                              problem.place.column, problem.message);
    }
    if (!faults.empty()) {
        throw cli::Failure(faults);
    }
    return manifest;
}

} // namespace opdock::plugin_pack
