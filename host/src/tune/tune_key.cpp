#include "tune/tune_key.hpp"

#include <algorithm>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

std::vector<std::string_view> views(const std::vector<std::string> &texts) {
    return {texts.begin(), texts.end()};
}

} // namespace

TuneKey::TuneKey(const TuneVariables &variables) {
    for (const size_t size : variables.sizes()) {
        parts_.push_back({size, {Bucket::Kind::log2}});
    }
    for (const size_t presence : variables.presences()) {
        parts_.push_back({presence, {Bucket::Kind::exact}});
    }
}

TuneKey::TuneKey(const TuneSection &section, const TuneVariables &variables, std::vector<TuneProblem> &problems) {
    for (const auto &[name, bucket] : section.key) {
        const std::optional<size_t> variable = variables.find(name.text);
        if (!variable) {
            add_problem(problems, {name.place, fmt::format("key: the op has no {}{}", quote(name.text),
                                                           hint_for(problems, name.text, views(variables.names())))});
        } else if (!variables.is_whole(*variable)) {
            add_problem(problems, {name.place, fmt::format("key: {} is not an integer", quote(name.text))});
        } else {
            parts_.push_back({*variable, bucket});
        }
    }
}

std::string TuneKey::of(const TuneVariables &variables, std::span<const double> values) const {
    std::string text;
    for (const Part &part : parts_) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", variables.names()[part.variable],
                            part.bucket.of(static_cast<int64_t>(std::clamp(values[part.variable], -0x1p53, 0x1p53))));
    }
    return text;
}

std::optional<std::string> TuneKey::of(const TuneVariables &variables, const TuneSection::Pinned &pinned,
                                       std::vector<TuneProblem> &problems) const {
    std::vector<double> values(variables.names().size());
    std::vector<bool> given(values.size());
    for (const NamedValue &value : pinned.key) {
        const std::optional<size_t> variable = variables.find(value.name.text);
        const bool in_key = variable && std::any_of(parts_.begin(), parts_.end(),
                                                    [&](const Part &part) { return part.variable == *variable; });
        if (!in_key) {
            add_problem(problems, {value.name.place, fmt::format("{} is not in the key of this section ({})",
                                                                 quote(value.name.text), text(variables))});
            return {};
        }
        if (value.value.value < 0 && !variables.may_be_negative(*variable)) {
            add_problem(problems, {value.value.place, fmt::format("{} is negative", quote(value.name.text))});
            return {};
        }
        values[*variable] = static_cast<double>(value.value.value);
        given[*variable] = true;
    }
    for (const Part &part : parts_) {
        if (!given[part.variable]) {
            add_problem(problems,
                        {pinned.place, fmt::format("the key lacks {}; the key of this section is {}",
                                                   quote(variables.names()[part.variable]), text(variables))});
            return {};
        }
    }
    return of(variables, values);
}

std::string TuneKey::text(const TuneVariables &variables) const {
    std::string text;
    for (const Part &part : parts_) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", variables.names()[part.variable], part.bucket.text());
    }
    return text;
}

std::vector<std::pair<PlacedText, Bucket>> TuneKey::spelled(const TuneVariables &variables) const {
    std::vector<std::pair<PlacedText, Bucket>> parts;
    for (const Part &part : parts_) {
        parts.emplace_back(PlacedText{variables.names()[part.variable], {}}, part.bucket);
    }
    return parts;
}

} // namespace opdock::core
