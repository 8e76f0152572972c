#include "live_process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/variables.hpp"
#include "files/descriptor.hpp"
#include "host/live_socket.hpp"

namespace opdock::plugin_ls {
namespace {

using core::Descriptor;
using nlohmann::json;

std::string reason() {
    return std::generic_category().message(errno);
}

// $XDG_RUNTIME_DIR of the process, as its host reads it.
std::string runtime_folder_of(const std::string &process) {
    std::ifstream file(process + "/environ");
    if (!file.is_open()) {
        throw cli::Failure("'" + process + "/environ' cannot be read: " + reason() +
                           "; only the user who runs a process can ask it");
    }
    constexpr std::string_view name = "XDG_RUNTIME_DIR=";
    std::string folder;
    for (std::string entry; std::getline(file, entry, '\0');) {
        folder = entry.starts_with(name) ? entry.substr(name.size()) : folder;
    }
    return folder.starts_with('/') ? folder : "";
}

std::string socket_of(const std::string &name) {
    const std::string process = "/proc/" + name.substr(0, name.find('.'));
    struct stat status = {};
    if (::stat(process.c_str(), &status) != 0) {
        throw cli::Failure("there is no process " + name.substr(0, name.find('.')));
    }
    return core::live_socket_path(core::live_socket_folder(runtime_folder_of(process), status.st_uid), name);
}

Descriptor connect_to(const std::string &name) {
    const std::string path = socket_of(name);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        throw cli::Failure("'" + path + "' is too long for the path of a socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0 ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0) {
        throw cli::Failure("process " + name + " cannot be asked through '" + path + "': " + reason() +
                           (errno == ENOENT ? "; its open host answers only if the process was started with " +
                                                  cli::variable_name("LIVE") + "=1"
                                            : ""));
    }
    return socket;
}

std::string read_all(const Descriptor &socket, const std::string &name) {
    constexpr timeval patience = {30, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string text;
    char part[16384];
    for (ssize_t size = 0; (size = ::recv(socket.get(), part, sizeof part, 0)) != 0;) {
        if (size < 0 && errno != EINTR) {
            throw cli::Failure("process " + name + " gave no answer within 30 seconds");
        }
        text.append(part, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    }
    return text;
}

} // namespace

bool is_process_name(const std::string &text) {
    constexpr const char *digits = "0123456789";
    const size_t point = std::min(text.find('.'), text.size());
    const std::string_view host = std::string_view(text).substr(std::min(point + 1, text.size()));
    return point != 0 && text.find_first_not_of(digits) == (point == text.size() ? std::string::npos : point) &&
           (point == text.size() || (!host.empty() && host.find_first_not_of(digits) == std::string_view::npos));
}

json ask_process(const std::string &name, const json &question) {
    const Descriptor socket = connect_to(name);
    const std::string line = question.dump() + "\n";
    if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
        throw cli::Failure("process " + name + " cannot be asked: " + reason());
    }
    json answer = json::parse(read_all(socket, name), nullptr, false);
    if (answer.is_discarded()) {
        throw cli::Failure("process " + name + " gave no answer; it has ended or belongs to another user");
    }
    if (answer.is_object() && answer.contains("error")) {
        throw cli::Failure("process " + name + ": " + answer.at("error").get<std::string>());
    }
    return answer;
}

} // namespace opdock::plugin_ls
