#include "files/digest.hpp"
#include "request.hpp"

int main(int argc, char **argv) {
    return opdock::cli::run_tool("plugin-pack", [&] {
        opdock::core::prepare_sodium();
        return opdock::plugin_pack::tool.run({argv + 1, argv + argc});
    });
}
