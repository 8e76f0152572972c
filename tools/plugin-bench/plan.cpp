#include "plan.hpp"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "op-call/requested.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;
using op_call::Job;

class Planner {
  public:
    Planner(const Host &host, const Request &request)
        : host_(host), request_(request), device_(host.device(request.device)),
          kind_(request.device.substr(0, request.device.find(':'))), document_(json::parse(host.describe())) {}

    Plan plan() {
        Plan plan;
        if (request_.all) {
            add_all(plan);
        } else if (!request_.shapes.empty()) {
            add_file(plan);
        } else {
            Job job = op_call::job_of(
                host_, {request_.ops.front(), "", request_.inputs, request_.attributes, request_.outputs});
            op_call::check_call(host_, job, device_);
            add(plan, std::move(job));
        }
        check_implementations(plan);
        return plan;
    }

  private:
    // The implementations that were requested, on any device.
    std::vector<json> implementations_of(const std::string &op, const std::vector<std::string> &wanted) const {
        std::vector<json> result;
        for (const json &one : document_.at("ops")) {
            for (const json &implementation : one.at("implementations")) {
                if (one.at("op") == op && cli::is_wanted(wanted, implementation.at("impl_id").get<std::string>())) {
                    result.push_back(implementation);
                }
            }
        }
        return result;
    }

    std::vector<json> implementations_of(const Job &job) const {
        return implementations_of(
            job.subject.op, job.subject.impl.empty() ? request_.impls : std::vector<std::string>{job.subject.impl});
    }
    bool runs_here(const json &implementation) const {
        return cli::same_name(implementation.at("device").get<std::string>(), kind_);
    }

    std::vector<Timing> contenders_of(const Job &job) const {
        std::vector<Timing> contenders;
        for (const json &one : implementations_of(job)) {
            if (runs_here(one)) {
                contenders.push_back({one.at("impl_id").get<std::string>(), one.at("kind").get<std::string>()});
            }
        }
        return contenders;
    }

    // Device types with a requested implementation: "cuda, rocm".
    std::string devices_of(const Job &job) const {
        std::set<std::string> types;
        for (const json &one : implementations_of(job)) {
            types.insert(one.at("device").get<std::string>());
        }
        std::string text;
        for (const std::string &type : types) {
            text += (text.empty() ? "" : ", ") + type;
        }
        return text;
    }

    void add_file(Plan &plan) const {
        op_call::FileJobs found =
            op_call::jobs_of_file(host_, request_.shapes, device_, request_.runs_elsewhere ? std::string() : kind_);
        for (const op_call::LeftOutCall &one : found.left_out) {
            plan.left_out.push_back({one.subject.op, one.subject.place + ": " + one.reason});
        }
        for (Job &job : found.jobs) {
            if (job.subject.is_recorded() && contenders_of(job).empty()) {
                plan.left_out.push_back(
                    {job.subject.op, job.subject.place + ": no implementation on " + request_.device});
            } else {
                add(plan, std::move(job));
            }
        }
    }

    void add(Plan &plan, Job job) const {
        std::vector<Timing> contenders = contenders_of(job);
        if (contenders.empty()) {
            for (const std::string &impl : request_.impls) {
                op_call::only(host_, job.subject.op, impl); // throws if there is none
            }
            const std::string elsewhere = devices_of(job);
            throw cli::Failure((job.subject.place.empty() ? "" : job.subject.place + ": ") + "'" + job.subject.op +
                               "' has no such implementation on " + request_.device +
                               (elsewhere.empty() ? "; 'plugin-ls --op " + job.subject.op + "' lists the available ones"
                                                  : ", only on " + elsewhere + "; see --device"));
        }
        plan.entries.push_back({std::move(job), std::move(contenders)});
    }

    // Each name given by --impl must belong to an implementation that runs.
    void check_implementations(const Plan &plan) const {
        for (const std::string &impl : request_.impls) {
            const auto has_it = [&](const Entry &entry) {
                return std::any_of(entry.contenders.begin(), entry.contenders.end(),
                                   [&](const Timing &one) { return cli::same_name(one.impl_id, impl); });
            };
            if (!plan.entries.empty() && std::none_of(plan.entries.begin(), plan.entries.end(), has_it)) {
                op_call::only(host_, plan.entries.front().job.subject.op, impl); // throws if there is none
                throw cli::Failure("--impl " + impl + ": it runs none of the shapes on " + request_.device);
            }
        }
    }

    // Every tuple of dtypes that at least one of them takes.
    static std::vector<std::string> tuples_of(const std::vector<json> &implementations) {
        std::vector<std::string> tuples;
        for (const json &one : implementations) {
            for (const auto &tuple : one.at("dtypes").get<std::vector<std::string>>()) {
                if (std::find(tuples.begin(), tuples.end(), tuple) == tuples.end()) {
                    tuples.push_back(tuple);
                }
            }
        }
        return tuples;
    }

    void add_builtin(Plan &plan, const std::string &op) const {
        const std::vector<json> implementations = implementations_of(op, request_.impls);
        if (implementations.empty()) {
            plan.left_out.push_back(
                {op, "no implementation on " + request_.device + (request_.impls.empty() ? "" : " with that name")});
            return;
        }
        std::vector<Job> jobs;
        std::string reason;
        for (const std::string &dtypes : op_call::builtin_dtypes(tuples_of(implementations))) {
            for (const op_call::BuiltinSize &size : op_call::builtin_sizes) {
                const auto takes = [&](const Job &job) { op_call::check_call(host_, job, device_); };
                if (auto job = op_call::builtin_job(host_, {op, "", {}, {}}, dtypes, size, takes, reason)) {
                    op_call::add_new(jobs, std::move(*job));
                }
            }
        }
        for (Job &job : jobs) {
            add(plan, std::move(job));
        }
        if (jobs.empty()) {
            plan.left_out.push_back({op, reason});
        }
    }

    void add_all(Plan &plan) const {
        for (const std::string &op : request_.ops) {
            host_.op(op); // throws if there is none
        }
        for (const json &one : document_.at("ops")) {
            const auto op = one.at("op").get<std::string>();
            const bool is_named = std::find(request_.ops.begin(), request_.ops.end(), op) != request_.ops.end();
            if (is_named || (request_.ops.empty() && !implementations_of(op, request_.impls).empty())) {
                add_builtin(plan, op);
            }
        }
    }

    const Host &host_;
    const Request &request_;
    const DLDevice device_;
    const std::string kind_;
    const json document_;
};

} // namespace

Plan plan(const Host &host, const Request &request) {
    return Planner(host, request).plan();
}

} // namespace opdock::plugin_bench
