// The calls that a worker is asked for (see Calls, on the other side).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "op-call/signature.hpp"
#include "placed_run.hpp"

namespace opdock::plugin_check {

class WorkerCalls {
  public:
    // `after_call` runs after each call, before anything else is done. Borrows everything.
    WorkerCalls(const Host &host, const Subject &subject, void (*after_call)());

    // Returns the answer's text; sets `bytes` to its number of bytes in the exchange. Throws opdock::Error.
    nlohmann::json handle(const nlohmann::json &request, size_t &bytes);

  private:
    struct Slot {
        Case one;
        std::vector<op_call::Tensors> inputs;
        std::unique_ptr<PlacedRun> placed;
    };
    struct Round {
        opdock_status status;
        std::string message;
        std::vector<Output> outputs;
    };

    void place(const nlohmann::json &request);
    nlohmann::json call(const nlohmann::json &request, size_t &bytes);
    nlohmann::json call_once(Slot &slot, const nlohmann::json &turn, size_t &bytes);
    nlohmann::json call_again(Slot &slot, const nlohmann::json &turn, size_t &bytes);
    nlohmann::json beside(const nlohmann::json &request, size_t &bytes);
    nlohmann::json tune(const nlohmann::json &request);
    bool takes(const nlohmann::json &call) const;
    static Round run_beside(PlacedRun &placed, int calls_before);
    void put(const std::vector<Output> &outputs, size_t &bytes) const;

    const Subject &subject_;
    op_call::Signature signature_;
    Op op_;
    Where where_;
    Policy policy_;
    void (*after_call_)();
    std::map<size_t, Slot> slots_;
};

} // namespace opdock::plugin_check
