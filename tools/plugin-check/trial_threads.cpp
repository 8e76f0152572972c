// Makes several calls at once.
#include "cli/quantities.hpp"
#include "trial.hpp"

namespace opdock::plugin_check {

using op_call::Tensors;

// Each thread has its own numbers, which reveals a buffer that threads share.
struct Trial::Thread {
    Case one;
    bool at_end = false;
    std::vector<Tensors> inputs;
    std::optional<Results> expected;
    std::vector<Output> alone;
};

Answer Trial::begin(Thread &thread, size_t slot) const {
    thread.inputs = draw(thread.one);
    calls_.begin(slot, thread.one, thread.inputs, {{false, thread.at_end, thread.one.layout, 0}});
    std::string why;
    if (reference_.exists()) {
        thread.expected = reference_.run(thread.one, thread.inputs, {}, why);
    }
    Answer answer = std::move(calls_.answers(slot).front());
    thread.alone = answer.outputs;
    return answer;
}

std::string Trial::find_beside(const Thread &thread, const Answer &answer, const std::string &others) const {
    if (answer.status != OPDOCK_OK) {
        return "beside " + others + " the call returned " + status_text(answer.status, answer.message);
    }
    if (same_bits(thread.alone, answer.outputs)) {
        return "";
    }
    Outcome judged;
    if (thread.expected) {
        judge(thread.one, thread.inputs, answer.outputs, *thread.expected, judged);
    }
    if (!subject_.deterministic && judged.findings.empty()) {
        return "";
    }
    return "beside " + others + " the result differs from the result alone" +
           (judged.findings.empty() ? "" : ": " + judged.findings.front().message);
}

Outcome Trial::run_threads(const Case &one) const {
    const int rounds = one.beside.empty() ? 8 : 4;
    // State that one thread changes while another one relies on it shows more often if the threads do nothing else.
    const int calls_before = one.beside.empty() ? 0 : 4;
    Outcome outcome;
    std::vector<Thread> threads(settings_.threads);
    for (size_t i = 0; i < threads.size(); ++i) {
        Thread &thread = threads[i];
        thread.one = one;
        thread.one.seed += i;
        thread.at_end = i % 2 == 0;
        const size_t turn = i % (one.beside.size() + 1);
        thread.one.shapes = turn == 0 ? one.shapes : one.beside[turn - 1];
        Answer answer = begin(thread, i);
        if (is_decline(answer.status) && turn != 0) {
            thread.one.shapes = one.shapes;
            answer = begin(thread, i);
        }
        if (answer.status != OPDOCK_OK) {
            take_status(outcome, answer.status, answer.message, thread.expected.has_value());
            return outcome;
        }
        if (thread.expected) {
            judge(thread.one, thread.inputs, thread.alone, *thread.expected, outcome);
        }
        if (!outcome.findings.empty()) {
            return outcome;
        }
    }

    const std::string others =
        cli::counted(threads.size() - 1, "other thread") + (one.beside.empty() ? "" : ", some with other shapes,");
    const std::vector<std::vector<Answer>> answers = calls_.beside(rounds, calls_before);
    for (size_t i = 0; i < threads.size() && outcome.findings.empty(); ++i) {
        for (size_t round = 0; round < answers[i].size() && outcome.findings.empty(); ++round) {
            if (std::string message = find_beside(threads[i], answers[i][round], others); !message.empty()) {
                outcome.findings.push_back({"threads", std::move(message)});
            }
        }
    }
    outcome.compared = reference_.exists();
    return outcome;
}

} // namespace opdock::plugin_check
