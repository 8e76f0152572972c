// inflate SIZE: unpacks stdin. Exits with 1 if the data is damaged or has another size.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "inflate.hpp"

int main(int count, char **arguments) try {
    const std::string packed{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    std::cout << opdock::triton::inflate(packed, count == 2 ? std::stoul(arguments[1]) : 0);
    return 0;
} catch (const std::exception &error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
