// Environment variables. The input has one line per variable, NAME=VALUE. The first line may be "prefix P", and the
// line "secure" stands for a process with raised privileges.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "message_place.hpp"
#include "policy/policy.hpp"
#include "text/environment.hpp"
#include "text/error.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

struct Input {
    std::string prefix = "PLUGIN_";
    bool secure = false;
    RawEnvironment raw;
};

Input read_input(std::string_view text) {
    constexpr std::string_view prefix_word = "prefix ";
    Input input;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t equals = line.find('=');
        // As in a real environment, a value ends at the first NUL.
        if (line.starts_with(prefix_word)) {
            input.prefix = line.substr(prefix_word.size());
        } else if (line == "secure") {
            input.secure = true;
        } else if (equals != std::string_view::npos) {
            const std::string_view value = line.substr(equals + 1);
            input.raw.emplace(line.substr(0, equals), value.substr(0, value.find('\0')));
        }
    }
    return input;
}

// Checks the error for one variable.
template<class Read>
void try_variable(const Environment &environment, Variable variable, Read read) {
    try {
        read();
    } catch (const Error &error) {
        require(error.status() == OPDOCK_INVALID_POLICY, "a wrong value is a wrong policy");
        opdock::fuzz::check_lines(error.what(), [&](std::string_view line) {
            require(line.starts_with(environment.name(variable) + ", column "), "a line names variable and column");
            require(line.size() < 2048 + environment.prefix.size(), "a line can be shown");
        });
    }
}

void check_vendors(const std::string &value, const Place &place) {
    const std::vector<std::string> vendors = parse_vendors(value, place);
    std::string again;
    for (const std::string &vendor : vendors) {
        again += (again.empty() ? "" : ",") + vendor;
    }
    require(parse_vendors(again, place) == vendors, "a list of vendors reads back as it was");
}

void check_orders(const std::string &value, const Place &place) {
    const auto orders = parse_per_op(value, place);
    std::string again;
    for (const auto &[op, order] : orders) {
        again += (again.empty() ? "" : ";") + op + "=" + order_text(order);
    }
    require(parse_per_op(again, place) == orders, "orders read back as they were");
}

void check_list(const VariableInfo &row, const std::string &value) {
    constexpr std::size_t most_bytes = 64 * 1024;
    constexpr std::size_t most_entries = 1024;
    require(value.size() <= most_bytes, "a value is cut");
    if (row.separators.empty()) {
        return;
    }
    const std::vector<Piece> pieces = split(value, row.separators);
    require(pieces.size() <= most_entries, "a list is cut");
    for (const Piece &piece : pieces) {
        require(piece.offset <= value.size() && value.compare(piece.offset, piece.text.size(), piece.text) == 0,
                "an entry is where it is said to be");
    }
}

void check_values(const Environment &environment) {
    for (const VariableInfo &row : all_variables) {
        const std::string *value = environment.find(row.id);
        if (value == nullptr) {
            continue;
        }
        const Place place = environment.place(row.id);
        check_list(row, *value);
        try_variable(environment, row.id, [&] { environment.is_on(row.id); });
        try_variable(environment, row.id, [&] { check_vendors(*value, place); });
        try_variable(environment, row.id, [&] { check_orders(*value, place); });
        try_variable(environment, row.id, [&] { parse_trust(*value, place); });
    }
    try_variable(environment, Variable::report, [&] { (void)environment.report(); });
    try_variable(environment, Variable::log_level, [&] {
        const std::int32_t level = environment.log_level(OPDOCK_LOG_INFO);
        require(level >= OPDOCK_LOG_DEBUG && level <= OPDOCK_LOG_ERROR, "a level is one of the log's");
    });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const Input input = read_input(opdock::fuzz::text_of(data, size));
    try {
        const Environment environment = make_environment(input.prefix, input.raw, input.secure);
        for (const std::string *folder :
             {&environment.user_data_dir, &environment.user_cache_dir, &environment.user_config_dir}) {
            require(folder->empty() || folder->front() == '/', "a folder of the user's is absolute");
            require(folder->empty() || !input.secure, "raised privileges leave no folder of the user's");
        }
        require(environment.values.empty() || !input.secure, "raised privileges leave no value");
        check_values(environment);
        policy_from_environment(environment);
    } catch (const Error &error) {
        require(error.status() == OPDOCK_INVALID_ARGUMENT || error.status() == OPDOCK_INVALID_POLICY,
                "a wrong prefix or a wrong value");
    }
    return 0;
}
