// Compares implementations of ops with the cases that write_cases.py wrote.
//
//     numerics --module libopdock_reference.so --cases FOLDER --op gelu --impl reference.cpp
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <string_view>

#include "settings.hpp"
#include "subject.hpp"

namespace {

numerics::Settings chosen;

// Parses our own options; doctest ignores options that it does not know.
bool parse(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--list") {
            chosen.list = true;
            continue;
        }
        if (option == "--any-values") {
            chosen.any_values = true;
            continue;
        }
        if (option != "--module" && option != "--cases" && option != "--op" && option != "--impl")
            continue;
        if (++i == argc) {
            std::cerr << "numerics: " << option << " needs a value\n";
            return false;
        }
        if (option == "--module")
            chosen.modules.emplace_back(argv[i]);
        else if (option == "--cases")
            chosen.cases = argv[i];
        else
            (option == "--op" ? chosen.op : chosen.impl_id) = argv[i];
    }
    return true;
}

} // namespace

const numerics::Settings &numerics::settings() {
    return chosen;
}

int main(int argc, char **argv) {
    if (!parse(argc, argv))
        return 2;
    if (chosen.list) {
        const auto host = numerics::open_host(chosen.modules);
        for (const numerics::Implementation &implementation : numerics::implementations(*host))
            std::cout << implementation.op << " " << implementation.impl_id << "\n";
        return 0;
    }
    return doctest::Context(argc, argv).run();
}
