#include "plot.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "report.hpp"

namespace opdock::plugin_tune {
namespace {

using nlohmann::json;

// A file in memory, for a process to read or write.
class MemoryFile {
  public:
    explicit MemoryFile(const char *name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
        if (descriptor_ < 0) {
            throw cli::Failure(std::string("--plot: ") + std::generic_category().message(errno));
        }
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;

    int descriptor() const { return descriptor_; }

    void write(const std::string &text) const {
        for (size_t done = 0; done < text.size();) {
            const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
            if (written < 0 && errno != EINTR) {
                throw cli::Failure(std::string("--plot: ") + std::generic_category().message(errno));
            }
            done += static_cast<size_t>(written < 0 ? 0 : written);
        }
        lseek(descriptor_, 0, SEEK_SET);
    }

    std::string read() const {
        lseek(descriptor_, 0, SEEK_SET);
        std::string text;
        std::array<char, 65536> buffer{};
        for (ssize_t n = 0; (n = ::read(descriptor_, buffer.data(), buffer.size())) > 0;) {
            text.append(buffer.data(), static_cast<size_t>(n));
        }
        return text;
    }

  private:
    int descriptor_;
};

// Of a plugin's strings only what means nothing to gnuplot.
std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (const char c : text) {
        const bool is_plain =
            std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr(" _.,:;=/[]()*+-", c) != nullptr;
        result += is_plain && c != '\0' ? c : '?';
    }
    return result + "\"";
}

} // namespace

std::string find_gnuplot() {
    const char *path = secure_getenv("PATH");
    std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        std::string program = (std::filesystem::path(folder) / "gnuplot").string();
        if (!folder.empty() && access(program.c_str(), X_OK) == 0) {
            return program;
        }
    }
    throw cli::Failure("--plot needs gnuplot, which is not in PATH; Debian and Ubuntu have it in gnuplot-nox");
}

std::string plot_script(const json &document) {
    std::ostringstream data;
    size_t count = 0;
    for (const json &shape : document.at("shapes")) {
        if (shape.value("outcome", "") != "tuned") {
            continue;
        }
        const double before = shape.at("before").at("microseconds").get<double>();
        const double best = shape.at("best").value("microseconds", before);
        std::ostringstream remark;
        remark.precision(3);
        remark << before << " to " << best << " us  " << config_text(shape.at("best").at("config"));
        data << ++count << ' ' << quoted(label_of(shape) + "  " + shape.value("impl_id", "")) << ' '
             << (best > 0 ? before / best : 1) << ' ' << quoted(remark.str()) << '\n';
    }
    if (count == 0) {
        return "";
    }
    std::ostringstream script;
    script
        << "set terminal svg noenhanced size 1000," << 130 + 36 * count << " background '#ffffff'\n"
        << "$shapes << END\n"
        << data.str() << "END\n"
        << "set title " << quoted("What tuning gained on " + document.value("device", "")) << "\n"
        << "set xlabel 'times as fast as before (median of one run)'\n"
        << "set xrange [0:*]\nset offsets graph 0.0, graph 0.45, 0, 0\n"
        << "set yrange [" << count << ".6:0.4]\n"
        << "set grid xtics\nset style fill solid 0.8 noborder\nset arrow from 1, graph 0 to 1, graph 1 nohead lc rgb "
           "'#5f6368'\n"
        << "plot $shapes using ($3/2):1:($3/2):(0.3):ytic(2) with boxxyerror lc rgb '#1a73e8' notitle, \\\n"
        << "     '' using 3:1:4 with labels left offset 0.5,0 notitle\n";
    return script.str();
}

std::string run_gnuplot(const std::string &gnuplot, const std::string &script) {
    const MemoryFile in("script");
    const MemoryFile out("drawing");
    const MemoryFile err("complaints");
    in.write(script);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.descriptor(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
    std::string name = "gnuplot";
    std::string from_stdin = "-";
    char *const arguments[] = {name.data(), from_stdin.data(), nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, gnuplot.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        throw cli::Failure("--plot: " + gnuplot + ": " + std::generic_category().message(error));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    std::string drawing = out.read();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || drawing.find("</svg>") == std::string::npos) {
        throw cli::Failure("--plot: gnuplot failed: " + err.read());
    }
    return drawing;
}

} // namespace opdock::plugin_tune
