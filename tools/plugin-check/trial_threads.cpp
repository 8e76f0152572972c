// Several calls at once.
#include <barrier>
#include <thread>

#include "trial.hpp"

namespace opdock::plugin_check {

using op_call::Tensors;

// Each thread has numbers of its own, so that a buffer they share shows.
struct Trial::Worker {
    Case one;
    bool at_end = false;
    std::vector<Tensors> inputs;
    std::optional<Results> expected;
    std::unique_ptr<PlacedRun> placed;
    std::vector<Output> alone;
    std::vector<Finding> findings;
};

opdock_status Trial::begin(Worker &worker, std::string &message) const {
    const Op op = host_.op(subject_.op);
    worker.inputs = draw(worker.one);
    if (reference_.exists()) {
        worker.expected = reference_.run(worker.one, worker.inputs, {}, message);
    }
    worker.placed = std::make_unique<PlacedRun>(where_, op, signature_, worker.one, worker.inputs, subject_.alignment,
                                                worker.at_end);
    opdock_status status = worker.placed->prepare(op, policy_, message);
    status = status == OPDOCK_OK ? worker.placed->run(PlacedRun::poisons[0], message) : status;
    if (status == OPDOCK_OK) {
        worker.alone = worker.placed->written();
    }
    return status;
}

void Trial::run_beside(Worker &worker, const std::string &others) const {
    // What one thread sets between another's setting and using it shows more often where they do nothing else.
    const int calls = worker.one.beside.empty() ? 0 : 4;
    std::string message;
    opdock_status status = OPDOCK_OK;
    for (int call = 0; call < calls && status == OPDOCK_OK; ++call) {
        status = worker.placed->run_on(message);
    }
    status = status == OPDOCK_OK ? worker.placed->run(PlacedRun::poisons[0], message) : status;
    if (status != OPDOCK_OK) {
        worker.findings.push_back({"threads", "beside " + others + " it returned " + status_text(status, message)});
        return;
    }
    const std::vector<Output> found = worker.placed->written();
    if (same_bits(worker.alone, found)) {
        return;
    }
    Outcome judged;
    if (worker.expected) {
        judge(worker.one, worker.inputs, found, *worker.expected, judged);
    }
    if (subject_.deterministic || !judged.findings.empty()) {
        worker.findings.push_back(
            {"threads", "beside " + others + " its result is another one than alone" +
                            (judged.findings.empty() ? "" : ": " + judged.findings.front().message)});
    }
}

Outcome Trial::run_threads(const Case &one) const {
    const int rounds = one.beside.empty() ? 8 : 4;
    Outcome outcome;
    std::vector<Worker> workers(settings_.threads);
    for (size_t i = 0; i < workers.size(); ++i) {
        Worker &worker = workers[i];
        worker.one = one;
        worker.one.seed += i;
        worker.at_end = i % 2 == 0;
        const size_t turn = i % (one.beside.size() + 1);
        worker.one.shapes = turn == 0 ? one.shapes : one.beside[turn - 1];
        std::string message;
        opdock_status status = begin(worker, message);
        if (is_decline(status) && turn != 0) {
            worker.one.shapes = one.shapes;
            status = begin(worker, message);
        }
        if (status != OPDOCK_OK) {
            take_status(outcome, status, message);
            return outcome;
        }
    }

    const std::string others =
        std::to_string(workers.size() - 1) + " other threads" + (one.beside.empty() ? "" : ", some of other shapes,");
    std::barrier together(static_cast<std::ptrdiff_t>(workers.size()));
    std::vector<std::thread> threads;
    threads.reserve(workers.size());
    for (Worker &worker : workers) {
        threads.emplace_back([&] {
            for (int round = 0; round < rounds; ++round) {
                together.arrive_and_wait();
                run_beside(worker, others);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (Worker &worker : workers) {
        if (!worker.findings.empty()) {
            outcome.findings.push_back(worker.findings.front());
            break;
        }
    }
    outcome.compared = reference_.exists();
    return outcome;
}

} // namespace opdock::plugin_check
