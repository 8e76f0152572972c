#include "supervise.hpp"

#include <optional>

#include "cli/quantities.hpp"
#include "record.hpp"
#include "replayed.hpp"
#include "rows.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

class Supervision {
  public:
    Supervision(const std::string &program, const Host &host, const Plan &plan, const Limits &limits, Record &record,
                const Progressed &progressed)
        : plan_(plan), subject_(plan.subject), limits_(limits), record_(record), progressed_(progressed),
          signature_(op_call::signature_of(host.op(plan.subject.op))),
          calls_(program, Job{plan.modules, plan.subject}, host, signature_, limits.case_seconds, waiting()) {
        if (!plan.subject.reference.empty()) {
            Subject subject = plan.subject;
            subject.impl_id = plan.subject.reference;
            subject.device = "cpu";
            subject.alignment = 0;
            reference_calls_.emplace(program, Job{plan.modules, subject}, host, signature_, limits.case_seconds,
                                     waiting());
        }
        reference_ = std::make_unique<Reference>(host, signature_, reference_calls_ ? &*reference_calls_ : nullptr);
        Settings settings = plan.settings;
        settings.pinned = resolve(
            plan.pins, signature_, [&](const Shapes &shapes) { return reference_->takes(shapes); }, subject_);
        if (settings.replayed != nullptr) {
            subject_.tuples = tuples_of(*settings.replayed, subject_, signature_);
        }
        trial_ = std::make_unique<Trial>(subject_, signature_, settings, *reference_, calls_);
    }

    bool has_reference() const { return reference_->exists(); }
    // The tuples that the pinned shapes and attributes leave.
    const std::vector<std::string> &tuples() const { return subject_.tuples; }
    bool has_rows() const { return !row_dim(signature_).empty(); }
    const op_call::Signature &signature() const { return signature_; }
    size_t total() const { return total_; }
    uint64_t calls() const { return calls_.count(); }

    // Returns true if no case was left out.
    bool run() {
        std::vector<Case> cases;
        try {
            cases = trial_->cases(plan_.seed);
        } catch (const Ended &ended) {
            if (!ended.check.empty()) {
                record_.add(ended.check, ended.what());
            }
            return false;
        } catch (const NotTried &problem) {
            record_.add("not-tried", problem.what());
            return false;
        }
        if (plan_.only >= 0) {
            std::erase_if(cases, [&](const Case &one) { return one.index != static_cast<size_t>(plan_.only); });
        }
        total_ = cases.size();
        for (const Case &one : cases) {
            if (!progressed_(done_, total_, 0)) {
                return false;
            }
            if (!run_case(one)) {
                return false;
            }
            ++done_;
        }
        if (!progressed_(done_, total_, 0)) {
            return false;
        }
        if (const std::string problem = calls_.finish(); !problem.empty()) {
            record_.add("exit", problem);
        }
        return plan_.only < 0;
    }

  private:
    Waiting waiting() {
        return [this](double seconds) { return progressed_(done_, total_, seconds); };
    }

    // Returns false if no further case is to be tried.
    bool run_case(const Case &one) {
        record_.begin(one, label_of(one, signature_));
        calls_.begin_case();
        if (reference_calls_) {
            reference_calls_->begin_case();
        }
        try {
            const Outcome outcome = trial_->run(one);
            add_copies();
            record_.end(outcome, extent_of(one, signature_));
            return true;
        } catch (const NotTried &problem) {
            record_.forget_case();
            record_.add("not-tried", problem.what());
            return false;
        } catch (const Ended &ended) {
            return goes_on_after(ended, one);
        } catch (const op_call::NoMemory &error) {
            record_.forget_case();
            record_.add("not-tried", error.what());
            return false;
        }
    }

    bool goes_on_after(const Ended &ended, const Case &one) {
        if (ended.check.empty() || ended.before_any_call) {
            record_.forget_case();
            if (!ended.check.empty()) {
                record_.add(ended.check, ended.what());
            }
            return false;
        }
        add_copies();
        record_.add(ended.check, ended.what());
        record_.leave_case();
        if (++deaths_ < limits_.most_deaths) {
            return true;
        }
        if (one.index + 1 < total_) {
            const size_t left = total_ - one.index - 1;
            record_.note("after " + cli::counted(deaths_, "failure") + " of the process " +
                         (left == 1 ? "the last case was" : "the other " + std::to_string(left) + " cases were") +
                         " left out");
        }
        return one.index + 1 >= total_;
    }

    void add_copies() {
        if (calls_.was_copied()) {
            record_.add("process", "a process forked by the call returned from the call as well");
        }
    }

    const Plan &plan_;
    Subject subject_; // restricted to the dtypes that are tried
    const Limits &limits_;
    Record &record_;
    const Progressed &progressed_;
    const op_call::Signature signature_;
    Calls calls_;
    std::optional<Calls> reference_calls_;
    std::unique_ptr<Reference> reference_;
    std::unique_ptr<Trial> trial_;
    size_t total_ = 0;
    size_t done_ = 0;
    int deaths_ = 0;
};

} // namespace

json check_implementation(const std::string &program, OwnReferences &own, const Plan &plan, const Limits &limits,
                          const Progressed &progressed) {
    const auto begin = Clock::now();
    Record record(plan.subject);
    size_t total = 0;
    uint64_t calls = 0;
    bool has_reference = true;
    try {
        own.declare(plan.subject.signature);
        Supervision supervision(program, own.host, plan, limits, record, progressed);
        has_reference = supervision.has_reference();
        const bool is_whole = supervision.run();
        total = supervision.total();
        calls = supervision.calls();
        if (!has_reference && is_standard(plan.subject.op)) {
            record.add("not-compared", "there is no reference implementation to compare its values with" +
                                           (own.missing.empty() ? std::string() : ": " + own.missing));
        } else if (!has_reference) {
            record.note("its values were not compared: neither the plugin nor a plugin named with --modules brings a "
                        "reference implementation of the op");
        }
        for (const std::string &name : appended_to_standard(supervision.signature())) {
            record.note("'" + name +
                        "' was left out of all calls or had its default: it is not part of the standard op, and the "
                        "reference does not know it");
        }
        if (plan.subject.batch_invariant && !supervision.has_rows()) {
            record.note("batch invariance was not tried: the signature does not say what the rows are");
        }
        if (plan.subject.brings_reference) {
            record.note("its values were compared with those of '" + plan.subject.reference +
                        "', which the same plugin brings");
        }
        if (is_whole) {
            record.conclude(supervision.tuples(), has_reference);
        }
    } catch (const Error &error) {
        record.add("not-tried", error.what());
    }
    json result = record.result();
    result["cases"] = total;
    result["calls"] = calls;
    result["has_reference"] = has_reference;
    result["seconds"] = std::chrono::duration<double>(Clock::now() - begin).count();
    return result;
}

} // namespace opdock::plugin_check
