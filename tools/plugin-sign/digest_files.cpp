#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/print_document.hpp"
#include "cli/printable.hpp"
#include "commands.hpp"
#include "files/digest.hpp"

namespace opdock::plugin_sign {

int digest_files(const Request &request) {
    using nlohmann::ordered_json;
    ordered_json files = ordered_json::array();
    for (const std::string &path : request.subjects) {
        const std::string digest = core::hex(core::sha256_of(core::PluginFile(std::filesystem::path(path))));
        if (request.json) {
            files.push_back({{"path", path}, {"sha256", digest}});
        } else {
            std::cout << digest << "  " << cli::printable(path) << '\n';
        }
    }
    if (request.json) {
        const ordered_json document = {{"schema", "opdock.plugin-sign.digest/1"}, {"files", std::move(files)}};
        cli::print_in_order(document);
    }
    return cli::exit_fine;
}

} // namespace opdock::plugin_sign
