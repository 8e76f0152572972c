// A row of the scan cache, which may have been written by anybody with write access to the file.
#include <string>

#include "input.hpp"
#include "probe/scan_cache.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string path = "/opt/acme/libacme.so";
    const std::optional<Scan> scan = decode_scan(opdock::fuzz::bytes_of(data, size), path);
    if (!scan) {
        return 0;
    }
    require(!scan->transcript || scan->note, "a plugin whose registration is kept has a note");
    require(!scan->rejection || scan->rejection->path == path, "a rejection is about the file that was asked for");
    require(!scan->transcript || scan->transcript->stage() == Transcript::Stage::complete,
            "a registration that is kept came to its end");
    may_keep(*scan);
    const std::vector<std::byte> row = encode_scan(*scan);
    const std::optional<Scan> again = decode_scan(row, path);
    require(again.has_value(), "what is written can be read");
    require(encode_scan(*again) == row, "a row reads back as it was");
    return 0;
}
