#include "observe/process_file.hpp"

#include <unistd.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::string_view process_number = "%p";

} // namespace

ProcessFile::ProcessFile(std::string_view name, const Place &place) : name_(name), first_process_(::getpid()) {
    if (!name.starts_with('/') || name.ends_with('/') || !is_printable(name)) {
        reject(place, 0,
               "expected the absolute path of a file, such as /var/tmp/opdock-%p, where %p stands for the process id; "
               "found " +
                   quote(name));
    }
}

std::optional<std::string> ProcessFile::path() const {
    const pid_t process = ::getpid();
    if (process != first_process_ && name_.find(process_number) == std::string::npos) {
        return std::nullopt;
    }
    const std::string number = std::to_string(process);
    std::string path = name_;
    for (std::size_t at = 0; (at = path.find(process_number, at)) != std::string::npos; at += number.size()) {
        path.replace(at, process_number.size(), number);
    }
    return path;
}

} // namespace opdock::core
