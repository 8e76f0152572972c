#include "files/bounded_file.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "text/error.hpp"

namespace opdock::core {

std::string read_bounded_file(const std::string &path, opdock_status status, std::size_t most_bytes) {
    const auto fail = [&](const std::string &reason) { throw Error(status, path + ": " + reason); };
    const auto fail_errno = [&](const char *action) {
        fail(std::string(action) + ": " + std::generic_category().message(errno));
    };

    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) {
        fail_errno("cannot open");
    }
    struct stat information = {};
    if (fstat(file.get(), &information) != 0) {
        fail_errno("cannot stat");
    }
    if (!S_ISREG(information.st_mode)) {
        fail("expected a regular file");
    }
    std::string text;
    char buffer[16 * 1024];
    for (;;) {
        const ssize_t count = TEMP_FAILURE_RETRY(read(file.get(), buffer, sizeof buffer));
        if (count == 0) {
            return text;
        }
        if (count < 0) {
            fail_errno("cannot read");
        }
        text.append(buffer, static_cast<std::size_t>(count));
        if (text.size() > most_bytes) { // checked while reading: the file may grow, and the size may be wrong (/proc)
            text.resize(most_bytes);
            const auto line = std::count(text.begin(), text.end(), '\n') + 1;
            const std::size_t column = text.size() - (text.rfind('\n') + 1) + 1; // npos + 1 is 0
            throw Error(status, path + ":" + std::to_string(line) + ":" + std::to_string(column) +
                                    ": the file is longer than " + std::to_string(most_bytes) + " bytes; shorten it");
        }
    }
}

} // namespace opdock::core
