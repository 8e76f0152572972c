#include "compare.hpp"

#include <algorithm>
#include <vector>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

struct Timed {
    std::string label;
    std::string impl_id;
    Measured measured;

    bool is_of(const Timed &other) const { return label == other.label && impl_id == other.impl_id; }
};

std::vector<Timed> timed_in(const json &document) {
    std::vector<Timed> result;
    for (const json &shape : document.at("shapes")) {
        for (const json &one : shape.at("implementations")) {
            if (one.at("outcome") == "timed") {
                result.push_back({op_call::label_of(shape),
                                  one.at("impl_id").get<std::string>(),
                                  {one.at("microseconds").get<double>(), one.at("spread").get<double>(),
                                   one.at("samples").get<uint64_t>()}});
            }
        }
    }
    return result;
}

json row_of(const Timed *before, const Timed *now) {
    const Timed &any = now != nullptr ? *now : *before;
    json row = {{"label", any.label},
                {"impl_id", any.impl_id},
                {"before", nullptr},
                {"now", nullptr},
                {"ratio", nullptr},
                {"spread", any.measured.spread},
                {"verdict", now != nullptr ? "new" : "gone"}};
    if (before != nullptr) {
        row["before"] = before->measured.microseconds;
    }
    if (now != nullptr) {
        row["now"] = now->measured.microseconds;
    }
    if (before != nullptr && now != nullptr && before->measured.microseconds > 0) {
        const double ratio = now->measured.microseconds / before->measured.microseconds;
        row["ratio"] = ratio;
        row["spread"] = std::max(before->measured.spread, now->measured.spread);
        row["verdict"] = verdict_of(before->measured, now->measured);
    }
    return row;
}

} // namespace

const char *verdict_of(const Measured &before, const Measured &now) {
    constexpr double always = 0.02;
    constexpr uint64_t fewest = 3;
    if (std::min(before.samples, now.samples) < fewest) {
        return "unsure";
    }
    const double ratio = now.microseconds / before.microseconds;
    const double least = 1 + std::max({before.spread, now.spread, always});
    return ratio > least ? "slower" : ratio * least < 1 ? "faster" : "same";
}

json read_document(const std::string &path) {
    json document = json::parse(cli::read_text(path), nullptr, false);
    try {
        if (document.at("schema") == "opdock.plugin-bench/1") {
            timed_in(document); // throws if anything that is compared is missing
            document.at("ceilings").at("copy").at("bytes_per_second").get<double>();
            return document;
        }
    } catch (const json::exception &) { // reported below
    }
    throw cli::Failure(path + ": expected the output of 'plugin-bench --json', a document of opdock.plugin-bench/1");
}

json compare(const json &before, const json &now) {
    const std::vector<Timed> old = timed_in(before);
    const std::vector<Timed> timed = timed_in(now);
    const auto find = [](const std::vector<Timed> &list, const Timed &wanted) {
        const auto found = std::find_if(list.begin(), list.end(), [&](const Timed &one) { return one.is_of(wanted); });
        return found == list.end() ? nullptr : &*found;
    };
    json rows = json::array();
    for (const Timed &one : timed) {
        rows.push_back(row_of(find(old, one), &one));
    }
    for (const Timed &one : old) {
        if (find(timed, one) == nullptr) {
            rows.push_back(row_of(&one, nullptr));
        }
    }
    const auto copied = [](const json &document) {
        return document.at("ceilings").at("copy").at("bytes_per_second").get<double>();
    };
    return {{"device", before.value("device", "")},
            {"model", before.value("model", "")},
            {"cold", before.value("cold", false)},
            {"copy_ratio", copied(now) / copied(before)},
            {"rows", std::move(rows)}};
}

bool compares_anything(const json &comparison) {
    const json &rows = comparison.at("rows");
    return std::any_of(rows.begin(), rows.end(), [](const json &row) { return !row.at("ratio").is_null(); });
}

bool is_too_slow(const json &comparison, double ratio) {
    const json &rows = comparison.at("rows");
    return ratio > 0 && std::any_of(rows.begin(), rows.end(), [&](const json &row) {
               return row.at("verdict") == "slower" && row.at("ratio").get<double>() > ratio;
           });
}

} // namespace opdock::plugin_bench
