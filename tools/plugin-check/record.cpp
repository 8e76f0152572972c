#include "record.hpp"

#include <algorithm>

namespace opdock::plugin_check {

using nlohmann::json;

namespace {

// Advice on what to try first, or "". Each check has one finding, of its smallest case; contiguous ones come first.
std::string remedy_for(const std::string &check, Layout layout) {
    const bool is_strided = layout == Layout::padded || layout == Layout::transposed || layout == Layout::scattered ||
                            layout == Layout::mixed;
    const bool is_of_memory = check == "wrong" || check == "unwritten" || check == "out-of-bounds" || check == "crash";
    if (is_strided && is_of_memory) {
        return ". Its tensors are not contiguous: use their strides, or declare that the kernel needs contiguous "
               "tensors (needs_contiguous)";
    }
    if (check == "out-of-bounds") {
        return ". Check the kernel's bounds against the sizes of this call, also in its last block";
    }
    if (check == "unwritten") {
        return ". Write each element of an output, also in the last block";
    }
    if (check == "input-changed") {
        return ". Leave inputs unchanged, and keep intermediate results in a workspace";
    }
    if (check == "wrong" || check == "failed") {
        return ". Fix the kernel for such a call, or decline the call in a `supports` function";
    }
    if (check == "config") {
        return ". Fix the kernel for this config, or exclude the config by `where` in the tune file";
    }
    if (check == "not-deterministic") {
        return ". Compute in the same order each time, or do not declare the implementation deterministic";
    }
    return check == "not-batch-invariant" ? ". Compute a row in the same order in every batch, or do not declare the "
                                            "implementation batch invariant"
                                          : "";
}

// Avoids a second full stop after a plugin's own text.
std::string with_remedy(const std::string &message, const std::string &check, Layout layout) {
    const std::string remedy = remedy_for(check, layout);
    return message + (message.ends_with('.') && !remedy.empty() ? remedy.substr(1) : remedy);
}

} // namespace

Record::Record(const Subject &subject) : subject_(subject) {
    for (const std::string &tuple : subject.tuples) {
        ran_of_[tuple] = {};
    }
}

void Record::begin(const Case &one, std::string label) {
    now_ = &one;
    label_ = std::move(label);
}

void Record::end(const Outcome &outcome, const Extent &extent) {
    if (now_->exercise == Exercise::configs && outcome.kind == Outcome::Kind::declined) { // no call was declined
        const std::string text = "its knobs were tried only with their defaults: " + outcome.reason;
        if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) {
            note(text);
        }
        now_ = nullptr;
        return;
    }
    OfTuple &of_tuple = ran_of_[now_->tuple];
    const bool has_elements = !is_empty(now_->shapes);
    switch (outcome.kind) {
    case Outcome::Kind::ran:
        ++counts_["ran"];
        extent_.elements = std::max(extent_.elements, extent.elements);
        extent_.dims = std::max(extent_.dims, extent.dims);
        ++(has_elements ? of_tuple.ran : of_tuple.ran_empty);
        break;
    case Outcome::Kind::declined:
        ++counts_["declined"];
        ++of_tuple.declined;
        of_tuple.why = outcome.reason;
        ++declines_[outcome.reason];
        break;
    case Outcome::Kind::skipped:
        ++counts_["skipped"];
        of_tuple.skipped += has_elements ? 1 : 0;
        of_tuple.why_skip = outcome.reason;
        break;
    }
    if (outcome.compared) {
        ++counts_["compared"];
        ++(has_elements ? of_tuple.compared : of_tuple.compared_empty);
    }
    counts_["configs"] += outcome.configs;
    counts_["configs_left_out"] += outcome.configs_left_out;
    for (const auto &[output, error] : outcome.errors) {
        double &worst = worst_[now_->tuple][output];
        worst = std::max(worst, error);
    }
    for (const Finding &finding : outcome.findings) {
        add(finding.check, finding.message);
    }
    now_ = nullptr;
}

void Record::add(const std::string &check, const std::string &message) {
    const std::string tuple = now_ != nullptr ? now_->tuple : "";
    if (now_ != nullptr) {
        ran_of_[tuple].has_findings = true;
    }
    for (json &old : findings_) {
        const bool is_same = now_ != nullptr ? old.at("case").is_number() : old.at("message") == message;
        if (is_same && old.at("check") == check) {
            old["also"] = old.at("also").get<uint64_t>() + 1;
            std::vector<std::string> others = old.at("also_dtypes");
            if (tuple != old.at("dtypes").get_ref<const std::string &>() &&
                std::find(others.begin(), others.end(), tuple) == others.end()) {
                old["also_dtypes"].push_back(tuple);
            }
            return;
        }
    }
    findings_.push_back({{"check", check},
                         {"message", now_ != nullptr ? with_remedy(message, check, now_->layout) : message},
                         {"case", now_ != nullptr ? json(now_->index) : json(nullptr)},
                         {"label", now_ != nullptr ? label_ : ""},
                         {"dtypes", tuple},
                         {"also", 0},
                         {"also_dtypes", json::array()}});
}

void Record::leave_case() {
    ++counts_["ran"];
    ++ran_of_[now_->tuple].ran;
    now_ = nullptr;
}

void Record::conclude(const std::vector<std::string> &tuples, bool has_reference) {
    for (const std::string &tuple : tuples) {
        const OfTuple &one = ran_of_[tuple];
        const std::string lists = tuple.empty() ? "the implementation" : "lists the dtypes " + tuple + " and";
        const std::string with_them = tuple.empty() ? "" : " with them";
        if (one.ran == 0 && one.declined > 0) {
            add("declines-all", lists + " declines every call" + with_them +
                                    (one.ran_empty == 0 ? "" : " that has elements") + ": " + one.why);
            continue;
        }
        const bool is_compared = one.compared > 0 || (one.compared_empty > 0 && one.ran + one.skipped == 0);
        const bool is_tried = has_reference ? is_compared : one.ran + one.ran_empty > 0;
        if (!is_tried && !one.has_findings) {
            const std::string &why = one.why_skip.empty() ? one.why : one.why_skip;
            add("not-tried", (tuple.empty() ? "no call" : "lists the dtypes " + tuple + ", but no call with them") +
                                 (has_reference ? " was compared" : " could be generated") +
                                 (why.empty() ? "" : ": " + why));
        }
    }
}

json Record::result() const {
    const auto count = [&](const char *what) {
        const auto found = counts_.find(what);
        return found == counts_.end() ? uint64_t{0} : found->second;
    };
    return {{"op", subject_.op},
            {"impl_id", subject_.impl_id},
            {"device", subject_.device},
            {"dtypes", subject_.tuples},
            {"deterministic", subject_.deterministic},
            {"batch_invariant", subject_.batch_invariant},
            {"ran", count("ran")},
            {"declined", count("declined")},
            {"skipped", count("skipped")},
            {"most_elements", extent_.elements},
            {"most_dims", extent_.dims},
            {"compared", count("compared")},
            {"configs", count("configs")},
            {"configs_left_out", count("configs_left_out")},
            {"declines", declines_},
            {"worst", worst_},
            {"findings", findings_},
            {"notes", notes_}};
}

} // namespace opdock::plugin_check
