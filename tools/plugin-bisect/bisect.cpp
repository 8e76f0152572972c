#include "bisect.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/interrupt.hpp"
#include "cli/open_host.hpp"
#include "cli/printable.hpp"
#include "cli/program.hpp"
#include "cli/quantities.hpp"
#include "cli/status_line.hpp"
#include "cli/text_file.hpp"
#include "cli/variables.hpp"
#include "measure.hpp"
#include "report.hpp"
#include "run.hpp"
#include "score.hpp"
#include "search.hpp"
#include "state.hpp"
#include "suspects.hpp"

namespace opdock::plugin_bisect {

using nlohmann::json;

namespace {

constexpr size_t most_output = size_t{256} << 20; // limit for a run whose output is read for its score
constexpr uint64_t most_rounds = 3;               // of --repeats runs each, until a verdict is significant

struct Interrupted : std::exception {};

std::string value_of(const std::string &variable) {
    for (const std::string &entry : cli::own_environment()) {
        if (entry.starts_with(variable + "=")) {
            return entry.substr(variable.size() + 1);
        }
    }
    return "";
}

// The settings that the runs depend on: the state of another search is useless.
json search_of(const Request &request) {
    json variables = json::object();
    const std::string level = cli::variable_name("LOG_LEVEL");
    for (const std::string &name : cli::variable_names()) {
        if (const std::string value = value_of(name); !value.empty() && name != level) {
            variables[name] = value;
        }
    }
    return {{"schema", "opdock.plugin-bisect.state/1"},
            {"command", request.command},
            {"directory", std::filesystem::current_path().string()},
            {"score", request.score},
            {"of", request.of},
            {"environment", variables}};
}

std::string number_text(uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(4 - std::min<size_t>(digits.size(), 4), '0') + digits;
}

// Logs each line once: the warnings about a policy are the same for every op.
std::function<void(const std::string &)> once() {
    return [told = std::make_shared<std::set<std::string>>()](const std::string &line) {
        if (told->insert(line).second) {
            cli::write_log_line(line);
        }
    };
}

class Bisection {
  public:
    explicit Bisection(const Request &request)
        : host_(cli::open_host(request.modules, false, once())), request_(request), judge_(request),
          state_(request.state, search_of(request)), per_op_(cli::variable_name("PER_OP")), before_(value_of(per_op_)) {
        check_order(*host_, request.good);
    }

    json run();

  private:
    void find(json &document);
    bool compare_first_runs(json &document);
    void find_suspects(const Trial &as_it_is);
    void check_replaced(const Trial &replaced) const;
    void search(json &document);
    bool is_bad(const Members &active, const Search &search);

    Trial try_policy(const std::string &policy, Members active);
    void repeat(Trial &trial, uint64_t count);
    Run run_once(const std::string &policy, uint64_t repeat);
    Run execute(const std::string &policy, uint64_t repeat);
    void read_output(Run &run) const;
    std::vector<std::string> environment(const std::string &policy) const;

    void tell(const Trial &trial);
    std::string left() const;
    json to_json(const Trial &trial) const;
    json names_of(const Members &members) const;
    json suspects_json() const;

    std::optional<Host> host_; // until the suspects are known
    const Request &request_;
    Judge judge_;
    State state_;
    const std::string per_op_; // the variable's name
    const std::string before_; // its value in the user's environment
    const cli::Interrupts interrupts_;
    cli::StatusLine status_;
    Suspects suspects_;
    bool is_log_read_ = false;
    json trials_ = json::array();
    uint64_t runs_ = 0;
    uint64_t remembered_ = 0;
    double seconds_ = 0; // for these runs
    size_t most_left_ = 0;
};

std::vector<std::string> Bisection::environment(const std::string &policy) const {
    const std::string level = cli::variable_name("LOG_LEVEL");
    const std::string wanted = value_of(level) == "DEBUG" ? "DEBUG" : "INFO"; // which logs who serves
    std::vector<std::string> variables = cli::own_environment();
    std::erase_if(variables, [&](const std::string &entry) {
        return entry.starts_with(level + "=") || (policy != before_ && entry.starts_with(per_op_ + "="));
    });
    variables.push_back(level + "=" + wanted);
    if (policy != before_) {
        variables.push_back(per_op_ + "=" + policy);
    }
    return variables;
}

void Bisection::read_output(Run &run) const {
    const std::string err = cli::read_text(run.err, most_output);
    run.served = served_in(err);
    if (request_.score.empty() || run.exit_code != 0 || run.timed_out) {
        return;
    }
    const std::regex pattern = score_pattern(request_.score);
    run.score = find_score(cli::read_text(run.out, most_output), pattern, request_.of);
    if (!run.score) {
        run.score = find_score(err, pattern, request_.of);
    }
}

Run Bisection::execute(const std::string &policy, uint64_t repeat) {
    Run run;
    run.number = state_.runs() + 1;
    run.repeat = repeat;
    const std::string file = state_.folder() + "/" + number_text(run.number);
    run.out = file + ".out";
    run.err = file + ".err";
    const Ended ended =
        run_command(request_.command, environment(policy), run.out, run.err, request_.timeout, [&](double seconds) {
            status_.show("run " + std::to_string(runs_ + 1) + "  " + std::to_string(static_cast<int>(seconds)) + " s" +
                         left());
            return interrupts_.signal() == 0;
        });
    if (ended.interrupted) {
        throw Interrupted();
    }
    run.exit_code = ended.code;
    run.timed_out = ended.timed_out;
    run.seconds = ended.seconds;
    read_output(run);
    json kept = plugin_bisect::to_json(run);
    kept["policy"] = policy;
    state_.add(kept);
    return run;
}

Run Bisection::run_once(const std::string &policy, uint64_t repeat) {
    const json *known = state_.find(policy, repeat);
    Run run = known != nullptr ? run_from(*known) : execute(policy, repeat);
    ++runs_;
    remembered_ += run.remembered ? 1 : 0;
    seconds_ += run.seconds;
    return run;
}

void Bisection::repeat(Trial &trial, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
        if (interrupts_.signal() != 0) {
            throw Interrupted();
        }
        trial.runs.push_back(run_once(trial.policy, trial.runs.size() + 1));
    }
}

Trial Bisection::try_policy(const std::string &policy, Members active) {
    Trial trial;
    trial.policy = policy;
    trial.active = std::move(active);
    repeat(trial, request_.repeats);
    return trial;
}

// "  at most 4 runs to a verdict, about 3 min", estimated from the duration of the runs so far.
std::string Bisection::left() const {
    if (most_left_ == 0 || runs_ == 0) {
        return "";
    }
    const double each = seconds_ / static_cast<double>(runs_);
    const double seconds = each * static_cast<double>(most_left_ * request_.repeats);
    return "  at most " + cli::counted(most_left_ * request_.repeats, "run") + " to a verdict, about " +
           (seconds < 120 ? std::to_string(std::lround(std::ceil(seconds))) + " s"
                          : std::to_string(std::lround(std::ceil(seconds / 60))) + " min");
}

void Bisection::tell(const Trial &trial) {
    status_.clear();
    const uint64_t last = runs_;
    const uint64_t first = last - trial.runs.size() + 1;
    std::cerr << "run " + (first == last ? "" : std::to_string(first) + " to ") + std::to_string(last) + ": " +
                     cli::printable_line(trial_text(to_json(trial), suspects_.all.size())) + left() + "\n"
              << std::flush;
}

json Bisection::names_of(const Members &members) const {
    json names = json::array();
    for (const size_t member : members) {
        names.push_back({{"op", suspects_.all[member].op}, {"impl_id", suspects_.all[member].impl_id}});
    }
    return names;
}

json Bisection::to_json(const Trial &trial) const {
    json runs = json::array();
    for (const Run &run : trial.runs) {
        json one = plugin_bisect::to_json(run);
        one.erase("served");
        one["remembered"] = run.remembered;
        runs.push_back(std::move(one));
    }
    const Sample sample = sample_of(trial, request_);
    const bool failed = sample.values.size() < trial.runs.size();
    return {{"environment", trial.policy == before_ ? json::object() : json::object({{per_op_, trial.policy}})},
            {"active", names_of(trial.active)},
            {"verdict", trial.is_bad ? "bad" : "good"},
            {"mean", request_.score.empty() || failed || sample.values.empty() ? json() : json(sample.mean())},
            {"of", request_.of == 0 ? json() : json(request_.of)},
            {"p", trial.p ? json(*trial.p) : json()},
            {"significant", trial.p ? json(trial.is_certain) : json()},
            {"runs", runs}};
}

json Bisection::suspects_json() const {
    json suspects = json::array();
    for (const Suspect &one : suspects_.all) {
        suspects.push_back({{"op", one.op}, {"impl_id", one.impl_id}, {"others", suspects_.others.at(one.op)}});
    }
    return suspects;
}

void Bisection::find_suspects(const Trial &as_it_is) {
    std::set<Suspect> served;
    for (const Run &run : as_it_is.runs) {
        served.insert(run.served.begin(), run.served.end());
    }
    is_log_read_ = !served.empty();
    std::optional<std::vector<Suspect>> told;
    if (is_log_read_) {
        told.emplace(served.begin(), served.end());
    }
    suspects_ = suspects_of(*host_, told, request_.good, request_.ops);
    host_.reset();
}

// A policy set by the program itself takes precedence over the environment's.
void Bisection::check_replaced(const Trial &replaced) const {
    for (const Run &run : replaced.runs) {
        for (const Suspect &one : run.served) {
            if (std::find(suspects_.all.begin(), suspects_.all.end(), one) != suspects_.all.end()) {
                throw cli::Failure("'" + one.impl_id + "' serves '" + one.op + "' despite " + per_op_ + "='" +
                                   replaced.policy + "', according to the log of a run (" + run.err +
                                   "): the program sets its own policy, or `enforce` in /etc/opdock/policy.yaml sets "
                                   "one, or the program reads variables with another prefix (--prefix)");
            }
        }
    }
}

// Returns true if there is anything to search.
bool Bisection::compare_first_runs(json &document) {
    Trial as_it_is = try_policy(before_, {});
    find_suspects(as_it_is);
    as_it_is.active.resize(suspects_.all.size());
    std::iota(as_it_is.active.begin(), as_it_is.active.end(), size_t{0});
    const std::optional<bool> bad = judge_.is_bad_alone(as_it_is);
    as_it_is.is_bad = bad.value_or(true);
    tell(as_it_is);
    document["as_it_is"] = to_json(as_it_is);
    if (bad == false || suspects_.all.empty()) {
        document["result"] = bad == false ? "good-as-it-is" : "no-suspects";
        return false;
    }
    Trial replaced = try_policy(suspects_.per_op({}, before_), {});
    if (is_log_read_) {
        check_replaced(replaced);
    }
    const Judge::Fault fault = judge_.compare(as_it_is, replaced);
    tell(replaced);
    document["as_it_is"] = to_json(as_it_is);
    document["replaced"] = to_json(replaced);
    document["result"] = fault == Judge::Fault::good_as_it_is ? "good-as-it-is"
                         : fault == Judge::Fault::not_in_ops  ? "not-in-ops"
                                                              : "not-significant";
    return fault == Judge::Fault::none;
}

bool Bisection::is_bad(const Members &active, const Search &search) {
    most_left_ = search.most_left();
    Trial trial = try_policy(suspects_.per_op(active, before_), active);
    judge_.judge(trial);
    for (uint64_t round = 1; !trial.is_certain && round < most_rounds; ++round) {
        repeat(trial, request_.repeats);
        judge_.judge(trial);
    }
    most_left_ -= most_left_ > 0 ? 1 : 0;
    tell(trial);
    trials_.push_back(to_json(trial));
    return trial.is_bad;
}

void Bisection::search(json &document) {
    json culprits = json::array();
    const auto named = [&](const Culprit &culprit) {
        culprits.push_back({{"members", names_of(culprit.members)}});
        document["culprits"] = culprits; // kept if the search is interrupted
    };
    Search search(
        suspects_.all.size(), [&](const Members &active) { return is_bad(active, search); }, named);
    const Found found = search.run(request_.first);
    Members innocent(suspects_.all.size());
    std::iota(innocent.begin(), innocent.end(), size_t{0});
    bool is_single = true;
    for (size_t i = 0; i < found.culprits.size(); ++i) {
        const Culprit &culprit = found.culprits[i];
        culprits[i]["named_after"] = 2 + culprit.tests;
        is_single = is_single && culprit.members.size() == 1;
        std::erase_if(innocent, [&](size_t one) {
            return std::find(culprit.members.begin(), culprit.members.end(), one) != culprit.members.end();
        });
    }
    document["culprits"] = culprits;
    document["result"] = is_single ? "found" : "no-single-op";
    document["remedy"] = json::object({{per_op_, suspects_.per_op(innocent, before_)}});
    document["remedy_tested"] = found.rest_is_good;
}

void Bisection::find(json &document) {
    document["result"] = "interrupted";
    document["culprits"] = json::array();
    try {
        if (compare_first_runs(document)) {
            document["result"] = "interrupted";
            search(document);
        }
    } catch (const Interrupted &) {
        document["signal"] = interrupts_.signal();
    }
}

json Bisection::run() {
    json document = {{"schema", "opdock.plugin-bisect/1"}, {"command", request_.command}};
    document["criterion"] = {
        {"score", request_.score.empty() ? json() : json(request_.score)},
        {"at_least", request_.at_least ? json(*request_.at_least) : json()},
        {"at_most", request_.at_most ? json(*request_.at_most) : json()},
        {"of", request_.of == 0 ? json() : json(request_.of)},
        {"repeats", request_.repeats},
        {"alpha", request_.alpha},
        {"test", name_of(method_for(sample_of({}, request_)))},
    };
    find(document);
    document["suspects"] = suspects_json();
    json not_suspected = json::array();
    for (const Cleared &one : suspects_.not_suspected) {
        not_suspected.push_back({{"op", one.who.op}, {"impl_id", one.who.impl_id}, {"reason", one.reason}});
    }
    document["not_suspected"] = not_suspected;
    document["ops_from"] = is_log_read_ ? "log" : "plugins";
    document["trials"] = trials_;
    document["runs"] = runs_;
    document["remembered"] = remembered_;
    document["seconds"] = seconds_;
    document["state"] = state_.path();
    document["folder"] = state_.folder();
    return document;
}

} // namespace

json bisect(const Request &request) {
    return Bisection(request).run();
}

} // namespace opdock::plugin_bisect
