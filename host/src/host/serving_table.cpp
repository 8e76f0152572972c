#include "host/serving_table.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "host/host.hpp"
#include "host/text_table.hpp"
#include "signature/dtype.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// "f32 bf16", at most a few.
std::string dtypes_text(const std::vector<std::string> &tuples) {
    constexpr size_t most = 3;
    std::string text;
    for (size_t i = 0; i < std::min(tuples.size(), most); ++i) {
        text += (text.empty() ? "" : " ") + tuples[i];
    }
    return tuples.size() <= most ? text : text + " and " + std::to_string(tuples.size() - most) + " more";
}

// `device` is any device of the type.
void add_served(const CallHost &host, const CatalogOp &op, const std::string &type, DLDevice device,
                const PolicyStack &policy, std::vector<ServedCalls> &served) {
    struct Alike {
        std::string impl_id, rule;
        std::vector<std::string> dtypes;
    };
    std::vector<Alike> alike;
    std::string nobody; // why nobody serves
    for (const std::vector<uint32_t> &tuple : all_tuples(*op.signature)) {
        const Decision decision = host.decide(op, policy, host.listing_key(host.catalog(), device, tuple), device);
        if (decision.chain.empty()) {
            for (const Dropped &dropped : decision.dropped) {
                const bool says_more = dropped.rule != Rule::device && dropped.rule != Rule::dtypes;
                nobody = says_more ? dropped.impl_id + ": " + dropped.reason : nobody;
            }
            continue;
        }
        const Kept &first = decision.chain.front();
        auto same = std::find_if(alike.begin(), alike.end(), [&](const Alike &one) {
            return one.impl_id == first.impl_id && one.rule == first.rule;
        });
        if (same == alike.end()) {
            same = alike.insert(alike.end(), {first.impl_id, first.rule, {}});
        }
        same->dtypes.push_back(tuple_text(tuple));
    }
    std::stable_sort(alike.begin(), alike.end(),
                     [](const Alike &a, const Alike &b) { return a.dtypes.size() > b.dtypes.size(); });
    std::string others;
    for (size_t i = 1; i < alike.size(); ++i) {
        others += (others.empty() ? "" : "; ") + dtypes_text(alike[i].dtypes) + ": " + alike[i].impl_id;
    }
    if (alike.empty()) {
        served.push_back({op.name, type, "nothing", nobody, ""});
    } else {
        served.push_back({op.name, type, alike[0].impl_id, alike[0].rule, others});
    }
}

} // namespace

std::string serving_table(std::span<const ServedCalls> served) {
    if (served.empty()) {
        return "  no op has an implementation\n";
    }
    std::vector<std::vector<std::string>> rows = {{"op", "device", "served by", "because of", "other dtypes"}};
    for (const ServedCalls &one : served) {
        rows.push_back({one.op, one.device, one.impl_id, one.rule, one.others});
    }
    return text_table(std::move(rows));
}

std::vector<ServedCalls> Host::serving() const {
    const Catalog &now = catalog();
    const PolicyStack policy = process_policy();
    std::vector<ServedCalls> served;
    for (const auto &[name, op] : now.ops) {
        std::set<std::string> types; // case-folded
        for (const auto &implementation : op->implementations) {
            types.insert(folded(implementation->device));
        }
        for (const std::string &type : types) {
            if (const std::optional<DLDevice> first =
                    find_device(now.providers, type)) { // otherwise there is no such device
                add_served(*this, *op, type, *first, policy, served);
            }
        }
    }
    return served;
}

} // namespace opdock::core
