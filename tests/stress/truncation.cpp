// A plugin truncated at each of its bytes, and the verdict of inspection. If it is accepted, it goes on to the probe,
// and if accepted there, into the list.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "inspect/inspect.hpp"
#include "installation.hpp"
#include "paths.hpp"
#include "stress.hpp"

namespace opdock::stress {
namespace {

// The two kinds of plugins that linkers write: with a section table at the end, or a segment.
constexpr const char *fixtures[] = {"libgood.so", "libold_hash_table.so"};

void truncate_each(Stress &stress, const Installation &place, const std::string &fixture, std::uint64_t step,
                   std::map<std::string, std::uint64_t> &outcomes) {
    const std::string path = place.plugin(fixture, "truncated.so");
    const std::uint64_t size = std::filesystem::file_size(path);
    core::LibraryVersions versions;
    if (core::inspect(path, versions).rejection) {
        stress.violated(fixture + " is rejected whole");
        return;
    }
    // From the end, so that the file only gets shorter. The last and the first bytes are all tried, whatever the step.
    for (std::uint64_t length = size; length-- > 0;) {
        const bool is_near_end = length + 128 >= size || length < 128;
        if (!is_near_end && step > 1 && stress.below(step) != 0) {
            continue;
        }
        if (truncate(path.c_str(), static_cast<off_t>(length)) != 0) {
            throw std::runtime_error("truncate");
        }
        const core::Inspection inspection = core::inspect(path, versions);
        if (inspection.rejection) {
            ++outcomes[core::code_text(inspection.rejection->code)];
        } else {
            const test::MadeHost host(place.environment(), "/nonexistent", {path});
            stress.violated(fixture + " of " + std::to_string(length) + " of " + std::to_string(size) +
                            " bytes is taken by inspection");
        }
        stress.progress(size - length, size);
    }
}

void check(Stress &stress) {
    const Installation place;
    std::map<std::string, std::uint64_t> outcomes;
    std::uint64_t size = 0;
    for (const char *fixture : fixtures) {
        size += std::filesystem::file_size(opdock::test::fixtures_folder() / fixture);
    }
    const std::uint64_t step = std::max<std::uint64_t>(1, size / std::max<std::uint64_t>(1, stress.rounds));
    std::string said;
    for (const char *fixture : fixtures) {
        truncate_each(stress, place, fixture, step, outcomes);
    }
    std::uint64_t lengths = 0;
    for (const auto &[code, count] : outcomes) {
        said += (said.empty() ? "" : ", ") + code + " " + std::to_string(count);
        lengths += count;
    }
    stress.checked(std::to_string(lengths) + " lengths of " + std::to_string(std::size(fixtures)) +
                   " plugins, rejected with " + said);
}

} // namespace

const Claim truncation = {"truncation",
                          "Each length that is shorter than a plugin is rejected before any of it runs. (Fewer rounds: "
                          "so many lengths, and the 128 at each end.)",
                          1'000'000, check};

} // namespace opdock::stress
