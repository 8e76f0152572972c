#include "cli/gnuplot.hpp"

#include <cctype>
#include <csignal>
#include <cstring>
#include <system_error>

#include "cli/exit.hpp"
#include "cli/program.hpp"

namespace opdock::cli {
namespace {

ProgramRun run(const std::string &argument, const std::string &script = {}) {
    if (!script.empty()) {
        std::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c): a gnuplot that ends early says why on its stderr
    }
    try {
        return run_program({{"gnuplot", argument}, own_environment()}, script);
    } catch (const std::system_error &error) {
        throw Failure(error.code() == std::errc::no_such_file_or_directory
                          ? "--plot needs gnuplot, which is not in PATH; on Debian and Ubuntu, install gnuplot-nox"
                          : std::string("--plot: ") + error.what());
    }
}

} // namespace

std::string gnuplot_text(const std::string &text) {
    std::string result = "\"";
    for (const char c : text) {
        const bool is_plain =
            std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr(" _.,:;=/[]()*+-", c) != nullptr;
        result += is_plain && c != '\0' ? c : '?';
    }
    return result + "\"";
}

void require_gnuplot() {
    (void)run("--version");
}

std::string run_gnuplot(const std::string &script) {
    ProgramRun finished = run("-", script);
    if (finished.code != 0 || finished.out.find("</svg>") == std::string::npos) {
        throw Failure("--plot: gnuplot failed: " + finished.err);
    }
    return std::move(finished.out);
}

void check_plot_name(const std::string &path) {
    if (const size_t dot = path.rfind('.'); dot != std::string::npos && path.substr(dot) != ".svg") {
        throw UsageError("--plot " + path + ": the plot is SVG; name a file that ends in .svg");
    }
}

} // namespace opdock::cli
