#include "observe/trace_file.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "opdock/opdock.h"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr double nanoseconds_per_microsecond = 1000;

template<class T>
T value_at(std::string_view bytes, uint64_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// The header, with sizes checked against the size of the file.
TraceHeader header_of(std::string_view bytes, const std::string &name) {
    const auto fail = [&](const std::string &why) {
        throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("{}: {}", name, why));
    };
    if (bytes.size() < trace_header_bytes || std::memcmp(bytes.data(), trace_magic.data(), trace_magic.size()) != 0) {
        fail("expected a trace that an opdock host was writing");
    }
    const auto header = value_at<TraceHeader>(bytes, 0);
    const uint64_t rest = bytes.size() - trace_header_bytes;
    if (header.record_bytes != sizeof(TraceRecord) || !std::has_single_bit(header.n_records) ||
        header.n_records > rest / sizeof(TraceRecord) ||
        header.text_bytes > rest - header.n_records * sizeof(TraceRecord)) {
        fail("the trace is cut short, or its header is damaged");
    }
    constexpr double slowest_clock = 1e9; // nanoseconds per tick; keeps times finite
    if (!(header.nanoseconds_per_tick > 0 && header.nanoseconds_per_tick <= slowest_clock)) {
        fail("the header of the trace is damaged: it has no clock rate");
    }
    return header;
}

TracedCall call_of(std::string_view entry) {
    TracedCall call;
    for (std::string *into : {&call.op, &call.impl_id, &call.device, &call.arguments, &call.config}) {
        const size_t end = std::min(entry.find('\0'), entry.size());
        *into = visible_line(entry.substr(0, end));
        entry.remove_prefix(std::min(end + 1, entry.size()));
    }
    return call;
}

// All entries up to the first inconsistent one.
std::vector<TracedCall> calls_of(std::string_view texts) {
    std::vector<TracedCall> calls;
    while (texts.size() >= sizeof(uint32_t)) {
        const auto size = value_at<uint32_t>(texts, 0);
        texts.remove_prefix(sizeof size);
        if (size > texts.size()) {
            break;
        }
        calls.push_back(call_of(texts.substr(0, size)));
        texts.remove_prefix(std::min<size_t>((size_t{size} + 3) / 4 * 4, texts.size()));
    }
    if (!calls.empty()) {
        calls[undescribed_call] = {};
    }
    return calls;
}

std::string quoted(const std::string &text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The text common to all events of a call, up to their times:
// `{"name":"gelu","cat":"default.cpu","ph":"X"`, and the members of "args".
struct CommonText {
    std::string head;
    std::string args;
};

CommonText common_text(const TracedCall &call) {
    const bool is_described = !call.op.empty();
    CommonText text;
    text.head = fmt::format(R"({{"name":{},"cat":{},"ph":"X")", quoted(is_described ? call.op : "other calls"),
                            quoted(is_described ? call.impl_id : "opdock"));
    for (const auto &[name, value] : {std::pair("implementation", &call.impl_id), std::pair("call", &call.arguments),
                                      std::pair("config", &call.config), std::pair("device", &call.device)}) {
        if (!value->empty()) {
            text.args += fmt::format(R"({}"{}":{})", text.args.empty() ? "" : ",", name, quoted(*value));
        }
    }
    return text;
}

} // namespace

Trace read_trace(std::string_view bytes, const std::string &name) {
    const TraceHeader header = header_of(bytes, name);
    Trace trace;
    trace.process = header.process;
    const uint64_t text_begin = trace_header_bytes + header.n_records * sizeof(TraceRecord);
    trace.calls = calls_of(bytes.substr(text_begin, std::min(header.text_used, header.text_bytes)));
    if (trace.calls.empty()) {
        trace.calls.emplace_back();
    }
    const auto microseconds = [&](double ticks) {
        return ticks * header.nanoseconds_per_tick / nanoseconds_per_microsecond;
    };
    for (uint64_t place = 0; place < header.n_records; ++place) {
        const auto record = value_at<TraceRecord>(bytes, trace_header_bytes + place * sizeof(TraceRecord));
        if (record.number == 0) {
            continue;
        }
        if (record.check != check_of(record) || ((record.number - 1) & (header.n_records - 1)) != place) {
            ++trace.broken;
            continue;
        }
        const bool has_device_time = record.device_check == device_check_of(record.number, record.device_nanoseconds);
        const auto since_start = static_cast<double>(static_cast<int64_t>(record.begin - header.start_ticks));
        trace.events.push_back(
            {record.call < trace.calls.size() ? record.call : undescribed_call, record.thread, record.status,
             static_cast<double>(header.start_nanoseconds) / nanoseconds_per_microsecond + microseconds(since_start),
             microseconds(static_cast<double>(record.duration)),
             has_device_time ? static_cast<double>(record.device_nanoseconds) / nanoseconds_per_microsecond : -1});
    }
    trace.overwritten = header.claimed > header.n_records ? header.claimed - header.n_records : 0;
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const TraceEvent &a, const TraceEvent &b) { return a.begin < b.begin; });
    return trace;
}

std::string chrome_json(const Trace &trace) {
    std::vector<CommonText> common;
    common.reserve(trace.calls.size());
    for (const TracedCall &call : trace.calls) {
        common.push_back(common_text(call));
    }
    std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    auto to = std::back_inserter(text);
    const char *separator = "\n";
    for (const TraceEvent &event : trace.events) {
        const CommonText &call = common.at(event.call);
        fmt::format_to(to, R"({}{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{})", separator, call.head,
                       trace.process, event.thread, event.begin, event.duration, call.args);
        const char *comma = call.args.empty() ? "" : ",";
        if (event.device_time >= 0) {
            fmt::format_to(to, R"({}"device_us":{:.3f})", comma, event.device_time);
            comma = ",";
        }
        if (event.status != OPDOCK_OK) {
            fmt::format_to(to, R"({}"status":"{}")", comma, opdock_status_name(event.status));
        }
        text += "}}";
        separator = ",\n";
    }
    fmt::format_to(to, "\n],\n\"otherData\":{{\"producer\":\"opdock\",\"overwritten\":{},\"broken\":{}}}}}\n",
                   trace.overwritten, trace.broken);
    return text;
}

} // namespace opdock::core
