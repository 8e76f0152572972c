// The vendor's and the user's side of packages, for tests of plugin-pack.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.hpp"

namespace opdock::test {

// A vendor's checkout of a framework, a user's clone of it, and keys.
class Workplace {
  public:
    Workplace() : pack_(PLUGIN_PACK, {}), git_("/usr/bin/env") {
        const char *path = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe): the tests have one thread
        pack_.with("PATH", path == nullptr ? "/usr/bin:/bin" : path);
        git_.with("PATH", path == nullptr ? "/usr/bin:/bin" : path).with("HOME", folder_.path().string());
        for (const char *who : {"AUTHOR", "COMMITTER"}) {
            git_.with(std::string("GIT_") + who + "_NAME", "A").with(std::string("GIT_") + who + "_EMAIL", "a@b.c");
        }
        git({"init", "--quiet", path_of("framework")});
        write("framework/a.py", "one\ntwo\nthree\n");
        write("framework/b.bin", std::string("\0\1\2", 3));
        commit("framework");
        git({"clone", "--quiet", path_of("framework"), path_of("clone")});
        write("framework/a.py", "one\ntwo, adapted\nthree\n");
        write("framework/new dir/c.cu", "new\n");
        run({"keygen", path_of("acme"), "--no-passphrase"});
        run({"keygen", path_of("other"), "--no-passphrase"});
    }

    std::string path_of(const std::string &name) const { return (folder_.path() / name).string(); }
    void write(const std::string &name, const std::string &text) const { folder_.write(name, text); }
    void git(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), "git");
        const Finished finished = git_.run(arguments);
        INFO(finished.err);
        REQUIRE(finished.code == 0);
    }
    void commit(const std::string &repository) const {
        git({"-C", path_of(repository), "add", "--all"});
        git({"-C", path_of(repository), "commit", "--quiet", "--message=change"});
    }
    void in_locale(const std::string &name) { with("LC_ALL", name); }
    void with(const std::string &name, const std::string &value) { pack_.with(name, value); }
    std::string home() const { return pack_.home().path().string(); }
    // Makes the tool find a wrapper around git, which first runs this shell code.
    void with_git_that(const std::string &does) {
        const char *path = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe)
        const std::string before = path == nullptr ? "/usr/bin:/bin" : path;
        write("bin/git", "#!/bin/sh\nPATH='" + before + "'\n" + does + "\nexec git \"$@\"\n");
        std::filesystem::permissions(path_of("bin/git"), std::filesystem::perms::owner_all);
        with("PATH", path_of("bin") + ":" + before);
    }
    Finished run(const std::vector<std::string> &arguments) const { return pack_.run(arguments); }
    Finished patch(const std::string &out, const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"patch",
                                              "--backend",
                                              "fw=" + path_of("framework") + "@HEAD",
                                              "--key",
                                              path_of("acme.key"),
                                              "--out",
                                              path_of(out),
                                              "--task",
                                              "train",
                                              "--device-type",
                                              "Acme_A1"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments);
    }
    std::vector<std::string> unpatching(const std::string &package, const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"unpatch", path_of(package), "--backend", "fw=" + path_of("clone"),
                                              "--out",   path_of("out"),   "--pub",     path_of("acme.pub")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    // Types the answers at a terminal.
    Finished run_with_answers(const std::vector<std::string> &arguments,
                              const std::vector<std::string> &answers) const {
        return pack_.run_with_terminal(arguments, answers);
    }
    Finished unpatch(const std::string &package, const std::vector<std::string> &more = {}) const {
        return run(unpatching(package, more));
    }
    // Starts the process, with its output discarded.
    pid_t start(const std::vector<std::string> &arguments) const {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            std::vector<char *> raw = {const_cast<char *>(PLUGIN_PACK)};
            for (const std::string &argument : arguments) {
                raw.push_back(const_cast<char *>(argument.c_str()));
            }
            raw.push_back(nullptr);
            const int nowhere = open("/dev/null", O_WRONLY);
            dup2(nowhere, STDOUT_FILENO);
            dup2(nowhere, STDERR_FILENO);
            execv(PLUGIN_PACK, raw.data());
            _exit(127);
        }
        return child;
    }
    // Files of a folder by path, without git's own.
    std::map<std::string, std::string> files(const std::string &name) const {
        std::map<std::string, std::string> files;
        for (auto entry = std::filesystem::recursive_directory_iterator(folder_.path() / name);
             entry != std::filesystem::recursive_directory_iterator(); ++entry) {
            if (entry->path().filename() == ".git") {
                entry.disable_recursion_pending();
            } else if (entry->is_regular_file()) {
                files[entry->path().lexically_relative(folder_.path() / name).string()] = read(entry->path());
            }
        }
        return files;
    }
    static std::string read(const std::filesystem::path &file) {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    }

  private:
    TemporaryDirectory folder_;
    Tool pack_;
    Command git_;
};

// Runs plugin-pack with one of two command lines in turn, kills it at a random moment, and checks that the result is
// intact. OPDOCK_KILLS is the number of rounds.
template<class IsWhole>
void kill_in_turn(const Workplace &work, const std::vector<std::string> (&command_lines)[2], const IsWhole &is_whole) {
    const char *count = std::getenv("OPDOCK_KILLS"); // NOLINT(concurrency-mt-unsafe): the tests have one thread
    const int kills = count == nullptr ? 12 : std::atoi(count);
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < kills; ++i) {
        const pid_t child = work.start(command_lines[i % 2]);
        usleep(static_cast<useconds_t>(random() % 300'000)); // at whatever point it then is
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        REQUIRE(is_whole());
    }
}

} // namespace opdock::test
