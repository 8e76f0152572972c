#include "cli/text_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/exit.hpp"

namespace opdock::cli {

std::string read_text(const std::string &path, size_t most) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        throw Failure(path + ": it is a folder, and a file is expected");
    }
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::string text;
    char buffer[65536];
    while (file && text.size() <= most) {
        file.read(buffer, sizeof buffer);
        text.append(buffer, static_cast<size_t>(file.gcount()));
    }
    if (!file.eof() && text.size() <= most) {
        throw Failure(path + ": " + (errno != 0 ? std::generic_category().message(errno) : "cannot be read"));
    }
    if (text.size() > most) {
        throw Failure(path + ": is larger than " + std::to_string(most >> 20) + " MiB");
    }
    return text;
}

} // namespace opdock::cli
