#include "command_line.hpp"

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

namespace gpu_tests {

void parse(const std::vector<std::string> &arguments, const Options &options) {
    for (size_t i = 0; i < arguments.size(); i += 2) {
        const auto option = options.find(arguments[i]);
        if (option == options.end()) {
            throw WrongUsage("unknown option '" + arguments[i] + "'. See --help");
        }
        if (i + 1 == arguments.size()) {
            throw WrongUsage(arguments[i] + " needs a value. See --help");
        }
        option->second(arguments[i + 1]);
    }
}

int number_of(const std::string &option, const std::string &value, int smallest) {
    try {
        size_t end = 0;
        const int found = std::stoi(value, &end);
        if (end == value.size() && found >= smallest) {
            return found;
        }
    } catch (const std::logic_error &) { // not a number, or too large: reported below
    }
    throw WrongUsage(option + " " + value + ": expected a number from " + std::to_string(smallest));
}

int run_program(const char *name, const char *usage, int argc, char **argv,
                const std::function<int(const std::vector<std::string> &arguments)> &run) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    try {
        if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
            std::cout << usage;
            return 0;
        }
        return run(arguments);
    } catch (const WrongUsage &error) {
        std::cerr << name << ": " << error.what() << "\n";
        return 2;
    } catch (const std::exception &error) {
        std::cerr << name << ": " << error.what() << "\n";
        return 1;
    }
}

void write_json(const std::string &path, const nlohmann::json &document) {
    if (path.empty()) {
        return;
    }
    std::FILE *file = std::fopen(path.c_str(), "w");
    const std::string text = document.dump(1) + "\n";
    const bool is_written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
    if ((file != nullptr && std::fclose(file) != 0) || !is_written) {
        throw std::runtime_error("--json " + path + ": it cannot be written");
    }
}

} // namespace gpu_tests
