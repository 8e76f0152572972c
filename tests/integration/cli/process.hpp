// A process of a test: started without a shell, with exactly the environment it is given, and waited for.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opdock::test {

struct Finished {
    std::string program; // its name, without a folder
    int code;            // 128 + N when signal N ended it
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
    // Sends it `signal` once, as soon as `marker` stands in what it wrote to stderr.
    Finished run_and_interrupt(const std::vector<std::string> &arguments, const std::string &marker, int signal) const;
    // With a terminal as its output; `out` is what appeared there, `err` stays empty. 0 columns: it does not know.
    Finished run_on_terminal(const std::vector<std::string> &arguments, unsigned short columns = 0) const;

    // With a terminal of its own, on which each answer is typed once the process waits for one: a question stands there
    // and nothing is shown of what is typed. `out` is what appeared there.
    Finished run_with_terminal(const std::vector<std::string> &arguments,
                               const std::vector<std::string> &answers) const;

  private:
    std::string name() const { return program_.substr(program_.rfind('/') + 1); }
    int start_and_wait(const std::vector<std::string> &arguments, int out, int err) const;
    int start(const std::vector<std::string> &arguments, int out, int err) const; // its process id

    std::string program_;
    std::map<std::string, std::string> environment_;
};

} // namespace opdock::test
