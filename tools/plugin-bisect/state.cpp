#include "state.hpp"

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"

namespace opdock::plugin_bisect {

using nlohmann::json;

namespace {

constexpr size_t largest_state = size_t{64} << 20;

[[noreturn]] void fail(const std::string &path, int error) {
    throw cli::Failure(path + ": " + std::generic_category().message(error));
}

[[noreturn]] void refuse(const std::string &path, const std::string &reason) {
    throw cli::Failure("--state " + path + ": " + reason + "; give another file, or remove this one");
}

std::string temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plugin-bisect.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
        fail(pattern, errno);
    }
    return pattern;
}

// A difference between two searches.
std::string difference(const json &one, const json &other) {
    for (const auto &[name, value] : one.items()) {
        if (!other.contains(name) || other.at(name) != value) {
            return name;
        }
    }
    return "schema";
}

bool is_run(const json &line) {
    const auto is_count = [&](const char *name) { return line.contains(name) && line.at(name).is_number_unsigned(); };
    return line.is_object() && line.contains("policy") && line.at("policy").is_string() && is_count("repeat") &&
           is_count("number") && line.contains("exit_code") && line.contains("served");
}

} // namespace

State::State(const std::string &path, const json &search) : path_(path) {
    if (path.empty()) {
        folder_ = temporary_folder();
        path_ = folder_ + "/state";
    } else {
        folder_ = path + ".runs";
        std::error_code error;
        std::filesystem::create_directories(folder_, error);
        if (error) {
            fail(folder_, error.value());
        }
    }
    file_ = core::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (file_.get() < 0) {
        fail(path_, errno);
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
        refuse(path_, "another plugin-bisect is using it");
    }
    read(search);
}

void State::read(const json &search) {
    const std::string text = cli::read_text(path_, largest_state);
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        const json line = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                      text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
        if (begin == 0 && (!line.is_object() || line.value("schema", json()) != search.at("schema"))) {
            refuse(path_, "it is not a state of plugin-bisect");
        }
        if (begin == 0 && line != search) {
            refuse(path_, "it is the state of another search: its '" + difference(search, line) + "' differs");
        }
        if (begin != 0 && !is_run(line)) {
            refuse(path_, "it is damaged");
        }
        begin = end + 1;
        if (line.contains("policy")) {
            keep(line);
        }
    }
    if (begin < text.size() && begin == 0) {
        refuse(path_, "it is not a state of plugin-bisect");
    }
    if (::ftruncate(file_.get(), static_cast<off_t>(begin)) !=
        0) { // drops a line that was being written when its writer ended
        fail(path_, errno);
    }
    if (begin == 0) {
        add(search);
    }
}

const json *State::find(const std::string &policy, uint64_t repeat) const {
    const auto found = runs_.find({policy, repeat});
    return found == runs_.end() ? nullptr : &found->second;
}

void State::keep(const json &run) {
    runs_[{run.at("policy").get<std::string>(), run.at("repeat").get<uint64_t>()}] = run;
}

void State::add(const json &run) {
    const std::string line = run.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::string_view left = line; !left.empty();) {
        const ssize_t written = ::write(file_.get(), left.data(), left.size());
        if (written < 0 && errno != EINTR) {
            fail(path_, errno);
        }
        left.remove_prefix(static_cast<size_t>(written < 0 ? 0 : written));
    }
    if (::fsync(file_.get()) != 0 && errno != EINVAL) {
        fail(path_, errno);
    }
    if (run.contains("policy")) {
        keep(run);
    }
}

} // namespace opdock::plugin_bisect
