#include "probe/scan_cache.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <SQLiteCpp/SQLiteCpp.h>
#include <spdlog/fmt/fmt.h>
#include <sqlite3.h>

#include "files/database.hpp"
#include "opdock_version.hpp"
#include "probe/transcript_format.h"
#include "text/byte_codec.hpp"

namespace opdock::core {
namespace {

constexpr DatabaseFormat format = {0x6f70646b, 3, // "opdk"
                                   "CREATE TABLE scans (path TEXT NOT NULL, host TEXT NOT NULL, scan BLOB NOT NULL, "
                                   "check_sum INTEGER NOT NULL, PRIMARY KEY (path, host)) WITHOUT ROWID"};

constexpr std::size_t most_bytes = 256 << 20; // of all rows; a thousand plugins need some MiB

// Rows of other host versions depend on what those versions understand; they are kept beside ours.
std::string this_host() {
    return fmt::format("{} {} {}", version, to_text(host_abi), int{OPDOCK_TRANSCRIPT_VERSION});
}

// FNV-1a on words: SQLite does not detect a changed byte within a value. Each step is a bijection of the sum, so every
// single change is detected.
std::int64_t check_sum(std::span<const std::byte> bytes) {
    std::uint64_t sum = 0xcbf29ce484222325u ^ bytes.size();
    while (!bytes.empty()) {
        std::uint64_t word = 0;
        const std::size_t count = std::min(sizeof word, bytes.size());
        std::memcpy(&word, bytes.data(), count);
        sum = (sum ^ word) * 0x100000001b3u;
        bytes = bytes.subspan(count);
    }
    return static_cast<std::int64_t>(sum);
}

std::span<const std::byte> blob_of(const SQLite::Column &column) {
    return {static_cast<const std::byte *>(column.getBlob()), static_cast<std::size_t>(column.getBytes())};
}

std::string not_used(const std::string &why) {
    return fmt::format("is not used: {}. Plugins are tried again each time, and a plugin that ends its process is "
                       "opened again by the next process",
                       why);
}

} // namespace

std::vector<std::byte> encode_scan(const Scan &scan) {
    ByteWriter writer;
    writer.value(scan.identity.device);
    writer.value(scan.identity.inode);
    writer.value(scan.identity.size);
    writer.value(scan.identity.modified);
    writer.value(scan.identity.changed);
    writer.value(scan.deaths);
    writer.value(scan.interruptions);
    writer.text(scan.build_id);
    writer.value(static_cast<std::uint8_t>(scan.note.has_value()));
    if (scan.note) {
        writer.value(scan.note->abi.major);
        writer.value(scan.note->abi.minor);
        writer.value(scan.note->oldest_host.major);
        writer.value(scan.note->oldest_host.minor);
        writer.text(scan.note->id);
        writer.text(scan.note->version);
        writer.text(scan.note->vendor);
        writer.texts(scan.note->devices);
        writer.texts(scan.note->cpu_features);
    }
    writer.texts(scan.weaknesses);
    writer.texts(scan.remarks);
    writer.text(scan.libraries.soname);
    writer.texts(scan.libraries.names);
    for (const std::optional<std::string> &folders : {scan.libraries.rpath, scan.libraries.runpath}) {
        writer.value(static_cast<std::uint8_t>(folders.has_value()));
        writer.text(folders.value_or(""));
    }
    writer.value(static_cast<std::int32_t>(scan.rejection ? static_cast<int>(scan.rejection->code) : 0));
    writer.text(scan.rejection ? scan.rejection->message : "");
    writer.bytes(scan.transcript ? std::span<const std::byte>(scan.transcript->bytes()) : std::span<const std::byte>());
    for (const CallDeath &death : scan.call_deaths) { // up to the end of the record
        writer.text(death.op);
        writer.text(death.impl_id);
        writer.value(death.count);
    }
    return writer.take();
}

std::optional<Note> decode_note(ByteReader &reader) {
    if (reader.value<std::uint8_t>() == 0) {
        return {};
    }
    Note note;
    note.abi.major = reader.value<std::uint32_t>();
    note.abi.minor = reader.value<std::uint32_t>();
    note.oldest_host.major = reader.value<std::uint32_t>();
    note.oldest_host.minor = reader.value<std::uint32_t>();
    note.id = reader.text();
    note.version = reader.text();
    note.vendor = reader.text();
    note.devices = reader.texts();
    note.cpu_features = reader.texts();
    return note;
}

std::optional<std::string> decode_folders(ByteReader &reader) {
    const bool is_there = reader.value<std::uint8_t>() != 0;
    std::string text = reader.text();
    return is_there ? std::optional(std::move(text)) : std::nullopt;
}

std::optional<Scan> decode_scan(std::span<const std::byte> bytes, const std::string &path) {
    try {
        ByteReader reader(bytes);
        Scan scan;
        scan.identity.device = reader.value<std::uint64_t>();
        scan.identity.inode = reader.value<std::uint64_t>();
        scan.identity.size = reader.value<std::uint64_t>();
        scan.identity.modified = reader.value<std::int64_t>();
        scan.identity.changed = reader.value<std::int64_t>();
        scan.deaths = reader.value<std::uint32_t>();
        scan.interruptions = reader.value<std::uint32_t>();
        scan.build_id = reader.text();
        scan.note = decode_note(reader);
        scan.weaknesses = reader.texts();
        scan.remarks = reader.texts();
        scan.libraries.soname = reader.text();
        scan.libraries.names = reader.texts();
        scan.libraries.rpath = decode_folders(reader);
        scan.libraries.runpath = decode_folders(reader);
        const auto code = reader.value<std::int32_t>();
        std::string message = reader.text();
        const auto sent = reader.bytes();
        while (!reader.at_end()) {
            if (scan.call_deaths.size() == most_call_deaths) {
                return {};
            }
            CallDeath &death = scan.call_deaths.emplace_back();
            death.op = reader.text();
            death.impl_id = reader.text();
            death.count = reader.value<std::uint32_t>();
        }
        if (code != 0) {
            const std::vector<RejectCode> codes = all_reject_codes();
            const auto known = static_cast<RejectCode>(code);
            if (std::find(codes.begin(), codes.end(), known) == codes.end()) {
                return {};
            }
            scan.rejection = Rejection{known, path, std::move(message)};
        }
        if (!sent.empty()) {
            auto transcript = Transcript::parse({sent.begin(), sent.end()});
            if (!scan.note || transcript.stage() != Transcript::Stage::complete) {
                return {};
            }
            scan.transcript = std::make_shared<const Transcript>(std::move(transcript));
        }
        return scan;
    } catch (const ShortBytes &) {
        return {};
    } catch (const Rejected &) { // from Transcript::parse
        return {};
    }
}

bool may_keep(const Scan &scan) {
    if (!scan.rejection) {
        return true;
    }
    switch (scan.rejection->code) {
    case RejectCode::too_large:
    case RejectCode::not_elf:
    case RejectCode::wrong_machine:
    case RejectCode::truncated:
    case RejectCode::malformed_elf:
    case RejectCode::no_note:
    case RejectCode::malformed_note:
    case RejectCode::abi_mismatch:
    case RejectCode::entry_missing:
    case RejectCode::too_many_registrations:
    case RejectCode::bad_soname:
        return true;
    default:
        return is_quarantine(scan.rejection->code);
    }
}

ScanCache::ScanCache(std::string folder, const Log &log, const std::string &only_path)
    : file_(folder.empty() ? std::string() : std::move(folder) + "/scans.sqlite"), log_(log) {
    read(only_path);
}

void ScanCache::warn(const std::string &what) {
    if (!std::exchange(warned_, true)) {
        log_.warning(fmt::format("The cache of scanned plugins {}.", what));
    }
}

void ScanCache::read(const std::string &only_path) {
    std::error_code unreachable; // reported when there is something to save
    if (file_.empty() || !std::filesystem::exists(file_, unreachable)) {
        return; // created when there is something to save
    }
    const Notice notice = [this](const std::string &what) { warn(what); };
    try {
        const auto database = open_database(file_, format, notice);
        SQLite::Statement query(*database, fmt::format("SELECT path, scan, check_sum FROM scans WHERE host = ?{}",
                                                       only_path.empty() ? "" : " AND path = ?"));
        query.bind(1, this_host());
        if (!only_path.empty()) {
            query.bind(2, only_path);
        }
        std::size_t bytes = 0;
        while (query.executeStep()) {
            const auto scan = blob_of(query.getColumn(1));
            bytes += scan.size();
            if (bytes > most_bytes) {
                throw SQLite::Exception("it has more plugins than any machine", SQLITE_CORRUPT);
            }
            if (check_sum(scan) == query.getColumn(2).getInt64()) {
                rows_.insert_or_assign(query.getColumn(0).getString(), std::vector(scan.begin(), scan.end()));
            }
        }
    } catch (const DatabaseError &error) {
        warn(not_used(error.what()));
    } catch (const SQLite::Exception &error) {
        if (is_damage(error)) {
            rows_.clear();
            set_aside_damaged(file_, notice);
        }
        warn(not_used(fmt::format("'{}': {}", file_, error.what())));
    }
}

std::optional<Scan> ScanCache::find(const std::string &path, const FileIdentity &identity) const {
    std::optional<Scan> scan = find_any(path);
    return scan && scan->identity == identity ? scan : std::nullopt;
}

std::optional<Scan> ScanCache::find_any(const std::string &path) const {
    const auto row = rows_.find(path);
    return row == rows_.end() ? std::nullopt : decode_scan(row->second, path);
}

void ScanCache::keep(const std::string &path, const Scan &scan) {
    if (file_.empty() || !may_keep(scan)) {
        return;
    }
    std::vector<std::byte> row = encode_scan(scan);
    const auto known = rows_.find(path);
    if (known == rows_.end() || known->second != row) {
        rows_.insert_or_assign(path, std::move(row));
        changed_.push_back(path);
    }
}

void ScanCache::forget_rejection(const std::string &path) {
    const std::optional<Scan> scan = find_any(path);
    if (scan && scan->rejection && is_quarantine(scan->rejection->code)) {
        rows_.erase(path);
        std::erase(changed_, path);
    }
}

void ScanCache::forget_all() {
    rows_.clear();
    changed_.clear();
    forget_ = true;
}

void ScanCache::save() {
    if (file_.empty() || (changed_.empty() && !forget_)) {
        return;
    }
    const Notice notice = [this](const std::string &what) { warn(what); };
    try {
        const auto database = open_database(file_, format, notice);
        Transaction transaction(*database, true);
        if (forget_) {
            database->exec("DELETE FROM scans");
        }
        SQLite::Statement insert(*database, "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?)");
        for (const std::string &path : changed_) {
            const std::vector<std::byte> &scan = rows_.at(path);
            insert.bind(1, path);
            insert.bind(2, this_host());
            insert.bind(3, scan.data(), static_cast<int>(scan.size()));
            insert.bind(4, check_sum(scan));
            insert.exec();
            insert.reset();
        }
        transaction.commit();
        changed_.clear();
        forget_ = false;
    } catch (const DatabaseError &error) {
        warn(not_used(error.what()));
    } catch (const SQLite::Exception &error) {
        if (is_damage(error)) {
            set_aside_damaged(file_, notice);
        }
        warn(not_used(fmt::format("'{}' cannot be written: {}", file_, error.what())));
    }
}

} // namespace opdock::core
