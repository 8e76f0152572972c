#include "inspect/note.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "files/reject.hpp"
#include "text/fork_safe_once.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// A member of the note's JSON object. Does not use nlohmann's own values: their destructor allocates, and ends the
// process if there is no memory.
struct Field {
    enum class Kind { text, numbers, other };
    Kind kind = Kind::other;
    std::string text;
    std::vector<std::uint64_t> numbers; // of an array that contains only numbers
};
using Fields = std::map<std::string, Field, std::less<>>;

class FieldReader : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit FieldReader(Fields &into) : fields_(into) {}

    bool null() override { return other(); }
    bool boolean(bool /*value*/) override { return other(); }
    bool number_integer(number_integer_t /*value*/) override { return other(); }
    bool number_float(number_float_t /*value*/, const string_t & /*text*/) override { return other(); }
    bool binary(binary_t & /*value*/) override { return other(); }
    bool number_unsigned(number_unsigned_t value) override {
        if (depth_ == 2 && field_->kind == Field::Kind::numbers) {
            field_->numbers.push_back(value);
            return true;
        }
        return other();
    }
    bool string(string_t &value) override {
        if (depth_ == 1) {
            field_->kind = Field::Kind::text;
            field_->text = value;
            return true;
        }
        return other();
    }
    bool start_object(std::size_t /*members*/) override {
        ++depth_;
        return depth_ == 1 || (field_ != nullptr && other());
    }
    bool start_array(std::size_t /*elements*/) override {
        ++depth_;
        if (depth_ == 2) {
            field_->kind = Field::Kind::numbers;
            return true;
        }
        return other();
    }
    bool key(string_t &name) override {
        if (depth_ == 1) {
            field_ = &fields_[name];
            *field_ = {}; // of two members with the same name the last one counts
        }
        return true;
    }
    bool end_object() override { return leave(); }
    bool end_array() override { return leave(); }
    bool parse_error(std::size_t /*position*/, const std::string & /*token*/,
                     const nlohmann::detail::exception & /*error*/) override {
        return false;
    }

  private:
    // A value of a type that no field may have. False if it is not inside an object.
    bool other() {
        if (field_ != nullptr) {
            field_->kind = Field::Kind::other;
        }
        return field_ != nullptr;
    }
    bool leave() {
        --depth_;
        return true;
    }

    Fields &fields_;
    Field *field_ = nullptr;
    int depth_ = 0;
};

constexpr std::string_view schema = "opdock.note/1";
constexpr std::size_t longest_text = 128;

[[noreturn]] void malformed(std::string_view plugin, const std::string &what) {
    throw Rejected(RejectCode::malformed_note,
                   fmt::format("the note of '{}' is malformed: {}.\n"
                               "Write it with OPDOCK_NOTE of the plugin SDK, once per plugin.",
                               plugin, what));
}

std::string read_text(std::string_view plugin, const Fields &note, const char *key) {
    const auto field = note.find(key);
    if (field == note.end() || field->second.kind != Field::Kind::text) {
        malformed(plugin, fmt::format("\"{}\" must be a string", key));
    }
    const std::string &text = field->second.text;
    if (text.size() > longest_text) {
        malformed(plugin, fmt::format("\"{}\" is {} bytes long, more than {}", key, text.size(), longest_text));
    }
    if (!is_printable(text)) {
        malformed(plugin, fmt::format("\"{}\" contains a control character", key));
    }
    return text;
}

std::string read_nonempty_text(std::string_view plugin, const Fields &note, const char *key) {
    std::string text = read_text(plugin, note, key);
    if (text.empty()) {
        malformed(plugin, fmt::format("\"{}\" is empty", key));
    }
    return text;
}

std::string read_id(std::string_view plugin, const Fields &note) {
    std::string id = read_nonempty_text(plugin, note, "id");
    if (id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") != std::string::npos) {
        malformed(plugin, fmt::format("the id \"{}\" has characters other than a-z, 0-9, '_', '.' and '-'", id));
    }
    return id;
}

// A name in the spelling of policies.
std::string read_name(std::string_view plugin, const Fields &note, const char *key) {
    std::string name = read_nonempty_text(plugin, note, key);
    if (find_no_name_character(name) != std::string::npos) {
        malformed(plugin, fmt::format("the {} {} has characters other than printable ASCII, or a space or one of {}",
                                      key, quote(name), name_separators));
    }
    return name;
}

// Reads a comma-separated list: "avx2,fma".
std::vector<std::string> read_list(std::string_view plugin, const Fields &note, const char *key) {
    const std::string text = read_text(plugin, note, key);
    std::vector<std::string> items;
    if (text.empty()) {
        return items;
    }
    // No stream: a stream swallows std::bad_alloc and ends early.
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        std::string item = text.substr(at, end - at);
        at = end + 1;
        if (item.empty() || find_no_name_character(item) != std::string::npos) {
            malformed(plugin, fmt::format("\"{}\" must be names in ASCII separated by commas, without spaces, not {}",
                                          key, quote(text)));
        }
        items.push_back(std::move(item));
    }
    return items;
}

AbiVersion read_version(std::string_view plugin, const Fields &note, const char *key) {
    constexpr std::uint64_t largest = 65535;
    const auto field = note.find(key);
    if (field != note.end() && field->second.kind == Field::Kind::numbers && field->second.numbers.size() == 2) {
        const std::uint64_t major = field->second.numbers[0];
        const std::uint64_t minor = field->second.numbers[1];
        if (major <= largest && minor <= largest) {
            return {static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(minor)};
        }
    }
    malformed(plugin, fmt::format("\"{}\" must be [major, minor]", key));
}

} // namespace

std::string to_text(AbiVersion version) {
    return fmt::format("{}.{}", version.major, version.minor);
}

Note parse_note(std::string_view plugin, std::string_view text, AbiVersion host) {
    Fields parsed;
    FieldReader reader(parsed);
    if (!nlohmann::json::sax_parse(text, &reader)) {
        malformed(plugin, "it is not a JSON object");
    }
    if (const std::string found = read_text(plugin, parsed, "schema"); found != schema) {
        malformed(plugin, fmt::format("its schema is \"{}\", this host reads \"{}\"", found, schema));
    }
    Note note;
    note.abi = read_version(plugin, parsed, "abi");
    note.oldest_host = read_version(plugin, parsed, "oldest_host");
    if (note.oldest_host > note.abi) {
        malformed(plugin, fmt::format("it asks for a host of ABI {} or newer, but was built for {}",
                                      to_text(note.oldest_host), to_text(note.abi)));
    }
    if (const auto reason = judge_abi(plugin, note.abi, note.oldest_host, host)) {
        throw Rejected(RejectCode::abi_mismatch, *reason);
    }
    note.id = read_id(plugin, parsed);
    note.version = read_nonempty_text(plugin, parsed, "version");
    note.vendor = read_name(plugin, parsed, "vendor");
    note.devices = read_list(plugin, parsed, "devices");
    note.cpu_features = read_list(plugin, parsed, "cpu_features");
    if (note.devices.empty()) {
        malformed(plugin, "\"devices\" is empty");
    }
    return note;
}

std::optional<std::string> judge_abi(std::string_view plugin, AbiVersion built_for, AbiVersion oldest_host,
                                     AbiVersion host) {
    if (built_for.major != host.major) {
        const std::string oldest = host.minor == 0 ? "" : fmt::format("{}.0 to ", host.major);
        return fmt::format("plugin '{}' was built for ABI {}; this host supports {}{}.\n"
                           "Rebuild it with the opdock {}.x SDK, or install opdock {}.x.",
                           plugin, to_text(built_for), oldest, to_text(host), host.major, built_for.major);
    }
    if (oldest_host > host) {
        return fmt::format("plugin '{}' needs a host of ABI {} or newer; this host has {}.\n"
                           "Install a newer opdock, or a build of the plugin for ABI {}.",
                           plugin, to_text(oldest_host), to_text(host), to_text(host));
    }
    return std::nullopt;
}

namespace {

std::set<std::string> read_cpu_features() {
    std::ifstream file("/proc/cpuinfo");
    file.exceptions(std::ios::badbit); // running out of memory must not look like "no features", permanently
    for (std::string line; std::getline(file, line);) {
        // "flags : fpu vme ..." on x86, "Features : fp asimd ..." on Arm; the same for every core.
        if (line.starts_with("flags") || line.starts_with("Features")) {
            std::istringstream words(line.substr(std::min(line.find(':') + 1, line.size())));
            words.exceptions(std::ios::badbit);
            return {std::istream_iterator<std::string>(words), {}};
        }
    }
    return {};
}

constinit ForkSafeOnce<std::set<std::string>> cpu_features; // cached: the file is long if there are many CPUs

} // namespace

const std::set<std::string> &machine_cpu_features() {
    return cpu_features.get(read_cpu_features);
}

std::optional<std::string> judge_cpu_features(std::string_view plugin, const std::vector<std::string> &needed,
                                              const std::set<std::string> &present) {
    std::string missing;
    for (const std::string &feature : needed) {
        if (!present.contains(feature)) {
            missing += missing.empty() ? feature : ", " + feature;
        }
    }
    if (missing.empty()) {
        return std::nullopt;
    }
    return fmt::format("plugin '{}' needs CPU features that /proc/cpuinfo does not list on this machine: {}.\n"
                       "Use it on a machine that has them, or ask its vendor for a build without them.",
                       plugin, missing);
}

} // namespace opdock::core
