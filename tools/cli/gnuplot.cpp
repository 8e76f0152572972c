#include "cli/gnuplot.hpp"

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "files/spawn.hpp"
#include "text/spelling.hpp"

namespace opdock::cli {
namespace {

// A file in memory, for a process to read or write.
class MemoryFile {
  public:
    explicit MemoryFile(const char *name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
        if (descriptor_ < 0) {
            throw Failure(std::string("--plot: ") + std::generic_category().message(errno));
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
                throw Failure(std::string("--plot: ") + std::generic_category().message(errno));
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

std::string find_gnuplot() {
    const char *path = secure_getenv("PATH");
    std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        std::string program = (std::filesystem::path(folder) / "gnuplot").string();
        if (!folder.empty() && access(program.c_str(), X_OK) == 0) {
            return program;
        }
    }
    throw Failure("--plot needs gnuplot, which is not in PATH; Debian and Ubuntu have it in gnuplot-nox");
}

std::string run_gnuplot(const std::string &gnuplot, const std::string &script) {
    const MemoryFile in("script");
    const MemoryFile out("drawing");
    const MemoryFile err("complaints");
    in.write(script);
    core::Spawn spawn;
    spawn.give(in.descriptor(), STDIN_FILENO);
    spawn.give(out.descriptor(), STDOUT_FILENO);
    spawn.give(err.descriptor(), STDERR_FILENO);
    std::string name = gnuplot;
    std::string from_stdin = "-";
    char *const arguments[] = {name.data(), from_stdin.data(), nullptr};
    pid_t child = 0;
    if (const int error = spawn.run(arguments, environ, &child); error != 0) {
        throw Failure("--plot: " + core::visible_line(gnuplot) + ": " + std::generic_category().message(error));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    std::string drawing = out.read();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || drawing.find("</svg>") == std::string::npos) {
        throw Failure("--plot: gnuplot failed: " + err.read());
    }
    return drawing;
}

void check_plot_name(const std::string &path) {
    if (const size_t dot = path.rfind('.'); dot != std::string::npos && path.substr(dot) != ".svg") {
        throw UsageError("--plot " + path + ": it writes SVG; name a file that ends in .svg");
    }
}

} // namespace opdock::cli
