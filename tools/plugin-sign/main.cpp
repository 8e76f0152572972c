#include "files/digest.hpp"
#include "request.hpp"

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-sign", [&] {
        opdock::core::prepare_sodium();
        return opdock::plugin_sign::tool.run({argv + 1, argv + argc});
    });
}
