// Plugins with one to eight changed bytes. This process is the host that finds, tries and lists them. It must not die,
// and may accept only what a probe reported.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include <nlohmann/json.hpp>

#include "installation.hpp"
#include "stress.hpp"

namespace opdock::stress {
namespace {

std::string content_of(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string change(Stress &stress, std::string bytes) {
    // Half of the changes hit the headers, names and notes, where most can go wrong.
    const std::size_t end = stress.below(2) == 0 ? std::min<std::size_t>(bytes.size(), 2048) : bytes.size();
    for (std::uint32_t left = 1 + stress.below(8); left > 0; --left) {
        bytes[stress.below(end)] = static_cast<char>(stress.below(256));
    }
    return bytes;
}

void check(Stress &stress) {
    const Installation place;
    const std::string path = place.plugin("libgood.so", "changed.so");
    const std::string whole = content_of(path);
    std::map<std::string, std::uint64_t> outcomes;
    for (std::uint64_t done = 0; done < stress.rounds; ++done) {
        std::filesystem::remove(path);
        std::ofstream(path, std::ios::binary) << change(stress, whole);
        const auto status = [&] {
            const auto host = quiet_host({{"PLUGIN_SCAN_CACHE", "off"}}, {path});
            const nlohmann::json plugin = host->describe()["plugins"][0];
            (void)host->describe().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
            return plugin["status"].get<std::string>() + " " + plugin["code"].get<std::string>();
        }();
        ++outcomes[status];
        stress.progress(done);
    }
    std::string said;
    for (const auto &[status, count] : outcomes) {
        said += ", " + std::to_string(count) + " " + status;
    }
    stress.checked(std::to_string(stress.rounds) + " changed plugins" + said);
}

} // namespace

const Claim corruption = {"corruption",
                          "A plugin with random bytes changed ends its probe at worst, never the host that looks for "
                          "plugins.",
                          20'000, check};

} // namespace opdock::stress
