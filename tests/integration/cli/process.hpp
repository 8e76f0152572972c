// A child process: started without a shell, with exactly the given environment, and waited for.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opdock::test {

struct Finished {
    std::string program; // its name, without the folder
    int code;            // 128 + N if signal N ended it
    std::string out;
    std::string err;
};

class Command {
  public:
    explicit Command(std::string program);

    Command &with(const std::string &name, const std::string &value) {
        environment_[name] = value;
        return *this;
    }

    Finished run(const std::vector<std::string> &arguments) const;
    // Sends `signal` once, as soon as `marker` appears in the process's stderr.
    Finished run_and_interrupt(const std::vector<std::string> &arguments, const std::string &marker, int signal) const;
    // Runs it with its output on a terminal; `out` is the terminal's text, `err` stays empty. 0 columns: width unknown.
    Finished run_on_terminal(const std::vector<std::string> &arguments, unsigned short columns = 0) const;

    // Runs it on a terminal of its own and types each answer once the process waits for it: a question is shown, and
    // typed text is not echoed. `out` is the terminal's text.
    Finished run_with_terminal(const std::vector<std::string> &arguments,
                               const std::vector<std::string> &answers) const;

  private:
    std::string name() const { return program_.substr(program_.rfind('/') + 1); }
    int start_and_wait(const std::vector<std::string> &arguments, int out, int err) const;
    int start(const std::vector<std::string> &arguments, int out, int err) const; // returns the process id

    std::string program_;
    std::map<std::string, std::string> environment_;
};

} // namespace opdock::test
