#include "measure.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace opdock::plugin_bisect {

using nlohmann::json;

json to_json(const Run &run) {
    json served = json::array();
    for (const Suspect &one : run.served) {
        served.push_back({one.op, one.impl_id});
    }
    return {{"number", run.number},
            {"repeat", run.repeat},
            {"exit_code", run.exit_code},
            {"timed_out", run.timed_out},
            {"score", run.score ? json(*run.score) : json()},
            {"seconds", run.seconds},
            {"out", run.out},
            {"err", run.err},
            {"served", served}};
}

Run run_from(const json &kept) {
    Run run;
    run.number = kept.at("number").get<uint64_t>();
    run.repeat = kept.at("repeat").get<uint64_t>();
    run.exit_code = kept.at("exit_code").get<int>();
    run.timed_out = kept.at("timed_out").get<bool>();
    if (!kept.at("score").is_null()) {
        run.score = kept.at("score").get<double>();
    }
    run.seconds = kept.at("seconds").get<double>();
    run.out = kept.at("out").get<std::string>();
    run.err = kept.at("err").get<std::string>();
    for (const auto &one : kept.at("served")) {
        run.served.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>()});
    }
    run.remembered = true;
    return run;
}

Sample sample_of(const Trial &trial, const Request &request) {
    Sample sample;
    sample.of = request.score.empty() ? 1 : request.of;
    for (const Run &run : trial.runs) {
        if (request.score.empty()) {
            sample.values.push_back(run.exit_code == 0 && !run.timed_out ? 0 : 1);
        } else if (run.score) {
            sample.values.push_back(*run.score);
        }
    }
    return sample;
}

bool Judge::has_failed(const Trial &trial) const {
    return !request_.score.empty() &&
           std::any_of(trial.runs.begin(), trial.runs.end(), [](const Run &run) { return !run.score; });
}

std::optional<bool> Judge::is_bad_alone(const Trial &trial) const {
    const double mean = sample_of(trial, request_).mean();
    if (has_failed(trial)) {
        return true;
    }
    if (request_.score.empty()) {
        return mean > 0;
    }
    return request_.at_least  ? std::optional(mean < *request_.at_least)
           : request_.at_most ? std::optional(mean > *request_.at_most)
                              : std::nullopt;
}

bool Judge::is_bad(const Trial &trial) const {
    if (!request_.score.empty()) {
        if (const std::optional<bool> bad = is_bad_alone(trial)) {
            return *bad;
        }
    }
    if (has_failed(bad_)) { // and this trial has not
        return false;
    }
    const double bad = sample_of(bad_, request_).mean();
    const double good = sample_of(good_, request_).mean();
    const double own = sample_of(trial, request_).mean();
    const double middle = (bad + good) / 2;
    return bad < good ? own < middle : own > middle;
}

std::optional<double> Judge::difference(const Trial &one, const Trial &other) const {
    const bool says_once = request_.score.empty() && one.runs.size() == 1 && other.runs.size() == 1;
    return says_once || has_failed(one) || has_failed(other)
               ? std::nullopt
               : p_value(sample_of(one, request_), sample_of(other, request_));
}

Judge::Fault Judge::compare(Trial &as_it_is, Trial &replaced) {
    bad_ = as_it_is;
    good_ = replaced;
    as_it_is.p = replaced.p = difference(as_it_is, replaced);
    const bool differs = !as_it_is.p || *as_it_is.p < request_.alpha;
    as_it_is.is_certain = replaced.is_certain = differs;
    as_it_is.is_bad = is_bad_alone(as_it_is).value_or(true);
    if (!as_it_is.is_bad) {
        return Fault::good_as_it_is;
    }
    const bool is_worse =
        request_.score.empty() && sample_of(replaced, request_).mean() >= sample_of(as_it_is, request_).mean();
    replaced.is_bad = is_worse || (!request_.score.empty() && is_bad_alone(replaced).value_or(false));
    return replaced.is_bad ? Fault::not_in_ops : differs ? Fault::none : Fault::not_significant;
}

void Judge::judge(Trial &trial) const {
    trial.is_bad = is_bad(trial);
    trial.p = difference(trial, trial.is_bad ? good_ : bad_);
    trial.is_certain = !trial.p || *trial.p < request_.alpha;
}

} // namespace opdock::plugin_bisect
