#include "supervise.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"

extern char **environ; // NOLINT(readability-redundant-declaration): POSIX leaves it to programs

namespace opdock::plugin_check {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;

    int get() const { return number_; }
    void close() {
        if (number_ >= 0) {
            ::close(number_);
            number_ = -1;
        }
    }

  private:
    int number_;
};

[[noreturn]] void fail(const char *what, int error) {
    throw cli::Failure(std::string(what) + ": " + std::generic_category().message(error));
}

// A worker's process, its messages, and what it and the plugin wrote to stderr.
class Process {
  public:
    Process(const std::string &program, const std::string &job) : errors_(memfd_create("stderr", MFD_CLOEXEC)) {
        int ends[2] = {-1, -1};
        if (errors_.get() < 0 || pipe2(ends, O_CLOEXEC) != 0) {
            fail("a process for the plugin cannot be started", errno);
        }
        messages_ = std::make_unique<Descriptor>(ends[0]);
        Descriptor theirs(ends[1]);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, errors_.get(), 2);
        posix_spawn_file_actions_adddup2(&actions, theirs.get(), message_descriptor);
        const std::string option = "--worker";
        char *arguments[] = {const_cast<char *>(program.c_str()), const_cast<char *>(option.c_str()),
                             const_cast<char *>(job.c_str()), nullptr};
        // In a group of its own, with what it may fork.
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes, 0);
        const int error = posix_spawn(&process_, program.c_str(), &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        if (error != 0) {
            fail("a process for the plugin cannot be started", error);
        }
    }

    ~Process() {
        if (process_ > 0) {
            kill(process_, SIGKILL);
            wait();
        }
    }
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    enum class News { line, silence, end };

    // Waits for the next message at most so long.
    News next(std::string &line, double seconds) {
        const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
        for (;;) {
            const size_t end = buffer_.find('\n');
            if (end != std::string::npos) {
                line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                return News::line;
            }
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            if (left <= 0) {
                return News::silence;
            }
            pollfd one = {messages_->get(), POLLIN, 0};
            const int ready = poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
            if (ready < 0 && errno != EINTR) {
                fail("poll", errno);
            }
            if (ready <= 0) {
                continue;
            }
            char bytes[4096];
            const ssize_t count = read(messages_->get(), bytes, sizeof bytes);
            if (count <= 0) {
                return News::end;
            }
            buffer_.append(bytes, static_cast<size_t>(count));
        }
    }

    // Whatever it leaves behind.
    bool ends_within(double seconds) const {
        const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, process_, 0)));
        if (process.get() < 0) {
            fail("a process cannot be watched", errno);
        }
        const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
        for (;;) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            pollfd one = {process.get(), POLLIN, 0};
            const int ready = poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
            if (ready > 0 || left <= 0) {
                return ready > 0;
            }
        }
    }

    // How it ended. What it left behind ends too.
    int wait() {
        siginfo_t info = {};
        while (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
        }
        kill(-process_, SIGKILL); // its number is still its own
        int status = 0;
        while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
        }
        process_ = -1;
        return status;
    }

    void end() { kill(process_, SIGKILL); }

    // The last lines of stderr.
    std::string said() const {
        const off_t size = lseek(errors_.get(), 0, SEEK_END);
        std::string text(static_cast<size_t>(std::min<off_t>(std::max<off_t>(size, 0), 2000)), '\0');
        const ssize_t count = pread(errors_.get(), text.data(), text.size(), size - static_cast<off_t>(text.size()));
        text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
        while (!text.empty() && text.back() == '\n') {
            text.pop_back();
        }
        return text;
    }

  private:
    Descriptor errors_;
    std::unique_ptr<Descriptor> messages_;
    pid_t process_ = -1;
    std::string buffer_;
};

// What there is to say of an implementation, while its messages come in.
class Record {
  public:
    explicit Record(const Job &job) {
        for (const std::string &tuple : job.subject.tuples) {
            ran_of_[tuple] = {};
        }
    }

    void begin(const json &message) { now_ = message; }
    size_t index() const { return now_.at("begin").get<size_t>(); }
    bool is_in_case() const { return !now_.is_null(); }

    void end(const json &message) {
        const auto kind = message.at("kind").get<std::string>();
        const auto tuple = now_.at("dtypes").get<std::string>();
        ++counts_[kind];
        if (kind == "ran") {
            ++(now_.at("empty").get<bool>() ? ran_of_[tuple].ran_empty : ran_of_[tuple].ran);
        } else if (kind == "declined") {
            ran_of_[tuple].declined += 1;
            ran_of_[tuple].why = message.at("reason").get<std::string>();
            ++declines_[ran_of_[tuple].why];
        } else if (kind == "skipped") {
            last_skip_ = message.at("reason").get<std::string>();
        }
        counts_["compared"] += message.at("compared").get<bool>() ? 1 : 0;
        counts_["configs"] += message.at("configs").get<uint64_t>();
        counts_["configs_left_out"] += message.at("left_out").get<uint64_t>();
        for (const auto &[output, error] : message.at("errors").items()) {
            double &worst = worst_[tuple][output];
            worst = std::max(worst, error.get<double>());
        }
        for (const json &finding : message.at("findings")) {
            add(finding.at("check").get<std::string>(), finding.at("message").get<std::string>());
        }
        now_ = nullptr;
    }

    // What the case that is running, or all of it, did wrong.
    void add(const std::string &check, const std::string &message) {
        const std::string tuple = is_in_case() ? now_.at("dtypes").get<std::string>() : "";
        for (json &old : findings_) {
            const bool is_same = is_in_case() ? old.at("case").is_number() : old.at("message") == message;
            if (is_same && old.at("check") == check) {
                old["also"] = old.at("also").get<uint64_t>() + 1;
                std::vector<std::string> others = old.at("also_dtypes");
                if (tuple != old.at("dtypes") && std::find(others.begin(), others.end(), tuple) == others.end()) {
                    old["also_dtypes"].push_back(tuple);
                }
                return;
            }
        }
        findings_.push_back({{"check", check},
                             {"message", message},
                             {"case", is_in_case() ? now_.at("begin") : json(nullptr)},
                             {"label", is_in_case() ? now_.at("label") : json("")},
                             {"dtypes", tuple},
                             {"also", 0},
                             {"also_dtypes", json::array()}});
    }
    void leave_case() {
        ++counts_["ran"];
        ++ran_of_[now_.at("dtypes").get<std::string>()].ran;
        now_ = nullptr;
    }
    void note(const std::string &text) { notes_.push_back(text); }

    // What only all cases together show.
    void conclude(bool is_whole) {
        for (const auto &[tuple, one] : ran_of_) {
            if (is_whole && one.ran == 0 && one.declined > 0) {
                add("declines-all", "it lists the dtypes " + tuple + " and declines every call with them" +
                                        (one.ran_empty == 0 ? "" : " that has elements") + ": " + one.why);
            }
        }
        if (is_whole && counts_["ran"] + counts_["declined"] == 0 && counts_["skipped"] > 0) {
            note("no call that could be made up was one: " + last_skip_);
        }
    }

    json result(const Job &job) const {
        const auto count = [&](const char *what) {
            const auto found = counts_.find(what);
            return found == counts_.end() ? uint64_t{0} : found->second;
        };
        return {{"op", job.subject.op},
                {"impl_id", job.subject.impl_id},
                {"device", job.subject.device},
                {"dtypes", job.subject.tuples},
                {"deterministic", job.subject.deterministic},
                {"ran", count("ran")},
                {"declined", count("declined")},
                {"skipped", count("skipped")},
                {"compared", count("compared")},
                {"configs", count("configs")},
                {"configs_left_out", count("configs_left_out")},
                {"declines", declines_},
                {"worst", worst_},
                {"findings", findings_},
                {"notes", notes_}};
    }

  private:
    struct OfTuple {
        uint64_t ran = 0;
        uint64_t ran_empty = 0; // those without elements
        uint64_t declined = 0;
        std::string why;
    };

    json now_ = nullptr; // the message that began the case
    std::map<std::string, uint64_t> counts_;
    std::map<std::string, OfTuple> ran_of_;
    std::map<std::string, std::map<std::string, double>> worst_;
    std::map<std::string, uint64_t> declines_; // reason, how often
    std::string last_skip_;
    json findings_ = json::array();
    std::vector<std::string> notes_;
};

// Whose names opdock gives, and for which it has a reference.
bool is_standard(const std::string &op) {
    return op.find('.') == std::string::npos;
}

std::string indented(const std::string &text) {
    std::string lines;
    for (const char c : text) {
        lines += c;
        if (c == '\n') {
            lines += "  ";
        }
    }
    return lines;
}

std::string ending(int status, const std::string &fault, const std::string &said) {
    std::string text = WIFSIGNALED(status)
                           ? "it ended the process by " + std::string(strsignal(WTERMSIG(status)))
                           : "it ended the process with exit code " + std::to_string(WEXITSTATUS(status));
    if (!fault.empty()) {
        text = fault;
    }
    return said.empty() ? text : text + "\n  " + indented(said);
}

} // namespace

json check_implementation(const std::string &program, const Job &job, const Limits &limits,
                          const Progressed &progressed) {
    const auto begin = Clock::now();
    Record record(job);
    Job rest = job;
    size_t total = 0;
    size_t done = 0;
    bool has_reference = true;
    bool is_whole = job.only < 0;
    for (int deaths = 0, goes_on = 1; goes_on != 0;) {
        goes_on = 0;
        Process worker(program, as_json(rest).dump());
        std::string fault;
        bool is_done = false;
        bool exits = false; // after all cases
        std::string line;
        Process::News news = Process::News::line;
        // A process that it left behind may keep the pipe open.
        while (!is_done && (news = worker.next(line, limits.case_seconds)) == Process::News::line) {
            const json message = json::parse(line, nullptr, false);
            if (!message.is_object()) {
                continue; // the plugin's own, by mistake
            }
            if (message.contains("cases")) {
                total = job.only < 0 ? message.at("cases").get<size_t>() : 1;
                has_reference = message.at("has_reference").get<bool>();
            } else if (message.contains("begin")) {
                record.begin(message);
            } else if (message.contains("copy")) {
                record.add("process", message.at("copy").get<std::string>());
            } else if (message.contains("end")) {
                record.end(message);
                ++done;
            } else if (message.contains("fault")) {
                fault = message.at("fault").get<std::string>();
            } else if (message.contains("problem")) {
                record.add("not-tried", message.at("problem").get<std::string>());
                is_done = true;
            } else if (message.contains("done")) {
                is_done = true;
                exits = true;
            }
            if (!progressed(done, total)) {
                worker.end();
                is_whole = false;
                is_done = true;
                exits = false; // it is ended
            }
        }
        const bool hangs = !is_done && news == Process::News::silence;
        if (hangs) {
            worker.end();
        }
        const bool hangs_at_exit = exits && !worker.ends_within(limits.case_seconds);
        if (hangs_at_exit) {
            record.add("exit", "after its last call the process did not end for " +
                                   std::to_string(static_cast<int>(limits.case_seconds)) + " s");
            worker.end();
        }
        const int status = worker.wait();
        if (exits && !hangs_at_exit && WIFSIGNALED(status)) {
            record.add("exit", "after its last call, as the process ended: " + ending(status, "", worker.said()));
        }
        if (is_done) {
            break;
        }
        if (!record.is_in_case()) {
            record.add("crash", "before any call: " + ending(status, fault, worker.said()));
            break;
        }
        rest.first = record.index() + 1;
        if (hangs) {
            record.add("hang", "it has not returned after " + std::to_string(static_cast<int>(limits.case_seconds)) +
                                   " s; --timeout gives it longer");
        } else {
            record.add(fault.empty() ? "crash" : "out-of-bounds",
                       ending(status, fault, fault.empty() ? worker.said() : ""));
        }
        record.leave_case();
        ++done;
        if (++deaths < limits.most_deaths && job.only < 0) {
            goes_on = 1;
        } else if (rest.first < total) {
            record.note("after " + std::to_string(deaths) + " ends of the process the other " +
                        std::to_string(total - rest.first) + " cases were left out");
            is_whole = false;
        }
    }
    if (!has_reference && is_standard(job.subject.op)) {
        record.add("not-compared",
                   "there is no reference implementation here to compare its values with: name opdock's "
                   "plugin 'reference' with --modules");
    } else if (!has_reference) {
        record.note("its values were not compared: no plugin here brings a reference implementation of the op");
    }
    record.conclude(is_whole);
    json result = record.result(job);
    result["cases"] = total;
    result["has_reference"] = has_reference;
    result["seconds"] = std::chrono::duration<double>(Clock::now() - begin).count();
    return result;
}

} // namespace opdock::plugin_check
