// A plugin's note: the JSON inside the ELF note. It is judged by a host of today and by one of a later ABI, which
// accepts more notes.
#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "files/reject.hpp"
#include "input.hpp"
#include "inspect/note.hpp"

using namespace opdock::core;
using nlohmann::json;
using opdock::fuzz::require;

namespace {

std::string joined(const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names) {
        text += (text.empty() ? "" : ",") + name;
    }
    return text;
}

bool same(const Note &one, const Note &other) {
    return one.abi == other.abi && one.oldest_host == other.oldest_host && one.id == other.id &&
           one.version == other.version && one.vendor == other.vendor && one.devices == other.devices &&
           one.cpu_features == other.cpu_features;
}

json written(const Note &note) {
    return {{"schema", "opdock.note/1"},
            {"abi", {note.abi.major, note.abi.minor}},
            {"oldest_host", {note.oldest_host.major, note.oldest_host.minor}},
            {"id", note.id},
            {"version", note.version},
            {"vendor", note.vendor},
            {"devices", joined(note.devices)},
            {"cpu_features", joined(note.cpu_features)}};
}

void read_as(AbiVersion host, std::string_view text) {
    try {
        const Note note = parse_note("libfuzzed.so", text, host);
        require(note.oldest_host <= note.abi, "a plugin does not need a host newer than its SDK");
        require(!note.id.empty() && !note.version.empty() && !note.vendor.empty() && !note.devices.empty(),
                "a note that is taken says who the plugin is");
        require(note.id.size() <= 128 && note.version.size() <= 128 && note.vendor.size() <= 128, "names are short");
        require(!judge_abi("libfuzzed.so", note.abi, note.oldest_host, host), "a note that is taken fits the host");
        require(same(parse_note("libfuzzed.so", written(note).dump(), host), note), "a note reads back as it was");
        judge_cpu_features("libfuzzed.so", note.cpu_features, {"avx2", "fma"});
    } catch (const Rejected &rejected) {
        require(rejected.code() == RejectCode::malformed_note || rejected.code() == RejectCode::abi_mismatch,
                "a note is rejected as a note");
        require(std::string_view(rejected.what()).find("libfuzzed.so") != std::string_view::npos,
                "a rejection names the plugin");
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = opdock::fuzz::text_of(data, size);
    read_as(host_abi, text);
    read_as({1, 3}, text);
    return 0;
}
