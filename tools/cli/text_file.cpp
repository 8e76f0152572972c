#include "cli/text_file.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"

namespace opdock::cli {

Input::Input(const std::string &path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {
    struct stat status = {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
        fail(std::generic_category().message(errno));
    }
    if (S_ISDIR(status.st_mode)) {
        fail("this is a folder; expected a file");
    }
    is_silent_pipe_ = S_ISFIFO(status.st_mode);
    size_ = S_ISREG(status.st_mode) ? static_cast<size_t>(status.st_size) : 0;
    // Standard input may be the terminal that the tool runs on. Another device, such as a file of the kernel, may be
    // silent without an end.
    struct stat standard = {};
    waits_ = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
             (S_ISCHR(status.st_mode) && ::fstat(STDIN_FILENO, &standard) == 0 && S_ISCHR(standard.st_mode) &&
              standard.st_rdev == status.st_rdev);
}

Input::~Input() {
    close();
}

void Input::close() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
    descriptor_ = -1;
}

// Called from the constructor too, after which no destructor runs.
void Input::fail(const std::string &reason) {
    close();
    throw Failure(path_ + ": " + reason);
}

size_t Input::read(void *into, size_t most) {
    for (;;) {
        const ssize_t got = ::read(descriptor_, into, most);
        if (got == 0 && is_silent_pipe_) {
            fail("no process writes to this pipe");
        }
        if (got >= 0) {
            is_silent_pipe_ = false;
            return static_cast<size_t>(got);
        }
        if (errno == EAGAIN && !waits_) {
            fail("it cannot be read; expected a file or a pipe");
        }
        if (errno == EAGAIN) { // the pipe has a writer that has not written yet
            pollfd readable = {descriptor_, POLLIN, 0};
            (void)::poll(&readable, 1, -1);
        } else if (errno != EINTR) {
            fail(std::generic_category().message(errno));
        }
    }
}

void Input::read_rest(std::string &text, size_t most) {
    text.reserve(std::min(size_, most) + 1); // growth would hold the text twice during a reallocation
    char buffer[65536];
    while (const size_t got = read(buffer, sizeof buffer)) {
        text.append(buffer, got);
        if (text.size() > most) {
            fail("is larger than " + std::to_string(most >> 20) + " MiB");
        }
    }
}

std::string read_text(const std::string &path, size_t most) {
    std::string text;
    Input(path).read_rest(text, most);
    return text;
}

} // namespace opdock::cli
