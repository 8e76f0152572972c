#include "cli/exit.hpp"

#include <csignal>
#include <filesystem>
#include <iostream>

#include "cli/printable.hpp"
#include "text/spelling.hpp"

namespace opdock::cli {

int run_tool(const std::string &tool, const std::function<int()> &body) {
    // The parent process may have set SIG_IGN, and then the exit status of a child would be lost.
    (void)std::signal(SIGCHLD, SIG_DFL);
    try {
        const int code = body();
        std::cout.flush();
        if (!std::cout) {
            throw Failure("cannot write to standard output; is the disk full or the reader gone?");
        }
        return code;
    } catch (const UsageError &error) {
        std::cerr << tool << ": " << printable(error.what()) << "\nTry '" << tool << " --help'.\n";
        return exit_usage;
    } catch (const Failure &failure) {
        std::cout.flush();
        std::cerr << tool << ": " << printable(failure.what()) << '\n';
        return failure.code;
    } catch (const std::filesystem::filesystem_error &error) { // what() contains file names, and is one line
        std::cout.flush();
        std::cerr << tool << ": " << core::visible_line(error.what()) << '\n';
        return exit_absent;
    } catch (const std::exception &error) {
        std::cout.flush();
        std::cerr << tool << ": " << printable(error.what()) << '\n';
        return exit_absent;
    }
}

} // namespace opdock::cli
