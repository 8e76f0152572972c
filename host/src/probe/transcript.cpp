#include "probe/transcript.hpp"

#include <vector>

#include "files/reject.hpp"
#include "probe/transcript_format.h"
#include "text/byte_codec.hpp"

namespace opdock::core {
namespace {

[[noreturn]] void unreadable(const char *what) {
    throw Rejected(RejectCode::probe_unreadable, std::string("the record of its registration cannot be read: ") + what +
                                                     ".\nIf opdock was updated, check that all of it was updated; "
                                                     "otherwise the plugin's code wrote where it must not.");
}

// Stand-ins for a plugin's functions until it is opened. They are never called; if they were, they would say so.
template<class Function>
struct StandIn;
template<class... Arguments>
struct StandIn<opdock_status (*)(Arguments...)> {
    static opdock_status function(Arguments... /*unused*/) { return OPDOCK_UNSUPPORTED; }
};
template<class... Arguments>
struct StandIn<void (*)(Arguments...)> {
    static void function(Arguments... /*unused*/) {}
};
template<class... Arguments>
struct StandIn<const void *(*)(Arguments...)> {
    static const void *function(Arguments... /*unused*/) { return nullptr; }
};

template<class Function>
void put_stand_in(Function &function) {
    function = function != nullptr ? &StandIn<Function>::function : nullptr;
}

// The payload of one record, and storage for what its struct points to.
class Payload {
  public:
    explicit Payload(std::span<const std::byte> bytes) : reader_(bytes) {}

    // Null if the plugin passed null.
    template<class T>
    T *begin_struct(T &given) {
        const auto present = reader_.value<uint8_t>();
        if (present > 1) {
            unreadable("a flag is neither 0 nor 1");
        }
        if (present == 0) {
            return nullptr;
        }
        given = reader_.value<T>();
        return &given;
    }

    const char *text() {
        const auto size = reader_.value<uint32_t>();
        if (size == OPDOCK_TRANSCRIPT_NULL_TEXT) {
            return nullptr;
        }
        if (size > OPDOCK_TRANSCRIPT_LONGEST_TEXT) {
            unreadable("a text is longer than a probe sends");
        }
        const char *text = reinterpret_cast<const char *>(reader_.take(size + 1).data());
        if (text[size] != '\0') {
            unreadable("a text is not terminated");
        }
        return text;
    }

    const opdock_knob *const *knobs(uint32_t count) {
        if (count > reader_.left()) {
            unreadable("it has fewer knobs than it says");
        }
        pointers_.reserve(count);
        knobs_.resize(count); // never resized again: pointers into it are handed out
        for (opdock_knob &knob : knobs_) {
            const opdock_knob *given = begin_struct(knob);
            if (given != nullptr) {
                knob.name = text();
                knob.doc = text();
                knob.choices = text();
            }
            pointers_.push_back(given);
        }
        return pointers_.data();
    }

    template<class T>
    T value() {
        return reader_.value<T>();
    }

    // The rest as text.
    std::string rest() {
        if (reader_.left() > OPDOCK_TRANSCRIPT_LONGEST_TEXT) {
            unreadable("a text is longer than a probe sends");
        }
        return reader_.text_of(reader_.left());
    }

    void expect_end() const {
        if (!reader_.at_end()) {
            unreadable("a record is longer than its contents");
        }
    }

  private:
    ByteReader reader_;
    std::vector<opdock_knob> knobs_;
    std::vector<const opdock_knob *> pointers_;
};

void read_vendor(Payload &payload, opdock_registry *registry) {
    opdock_vendor vendor;
    const opdock_vendor *given = payload.begin_struct(vendor);
    if (given != nullptr) {
        vendor.name = payload.text();
        vendor.device_name = payload.text();
        vendor.dispatch_key = payload.text();
        vendor.device_query_command = payload.text();
    }
    if (registry != nullptr) {
        registry->register_vendor(registry, given);
    }
}

void read_device(Payload &payload, opdock_registry *registry) {
    opdock_device_provider device;
    const opdock_device_provider *given = payload.begin_struct(device);
    if (given != nullptr) {
        device.device = payload.text();
        device.stream_type = payload.text();
        device.user_data = nullptr;
        put_stand_in(device.count);
        put_stand_in(device.properties);
        put_stand_in(device.get_current);
        put_stand_in(device.make_current);
        put_stand_in(device.allocate);
        put_stand_in(device.free);
        put_stand_in(device.copy);
        put_stand_in(device.stream_create);
        put_stand_in(device.stream_destroy);
        put_stand_in(device.stream_synchronize);
        put_stand_in(device.stream_is_capturing);
        put_stand_in(device.event_create);
        put_stand_in(device.event_destroy);
        put_stand_in(device.event_record);
        put_stand_in(device.event_elapsed);
        put_stand_in(device.stream_callback);
    }
    if (registry != nullptr) {
        registry->register_device_provider(registry, given);
    }
}

void read_op(Payload &payload, opdock_registry *registry) {
    opdock_op_declaration op;
    const opdock_op_declaration *given = payload.begin_struct(op);
    if (given != nullptr) {
        op.signature = payload.text();
        op.doc = payload.text();
    }
    if (registry != nullptr) {
        registry->register_op(registry, given);
    }
}

void read_impl(Payload &payload, opdock_registry *registry) {
    opdock_impl impl;
    const opdock_impl *given = payload.begin_struct(impl);
    if (given != nullptr) {
        impl.op = payload.text();
        impl.impl_id = payload.text();
        impl.vendor = payload.text();
        impl.device = payload.text();
        impl.dtypes = payload.text();
        impl.architectures = payload.text();
        impl.user_data = nullptr;
        if (impl.knobs != nullptr && impl.n_knobs < OPDOCK_TRANSCRIPT_MOST_REGISTRATIONS) {
            impl.knobs = payload.knobs(impl.n_knobs);
        }
        put_stand_in(impl.kernel);
        put_stand_in(impl.available);
        put_stand_in(impl.supports);
        put_stand_in(impl.heuristic);
        put_stand_in(impl.device_init);
        put_stand_in(impl.device_fini);
        put_stand_in(impl.plan_create);
        put_stand_in(impl.plan_destroy);
        put_stand_in(impl.workspace_size);
        put_stand_in(impl.get_extension);
    }
    if (registry != nullptr) {
        registry->register_impl(registry, given);
    }
}

void read_shutdown(Payload &payload, opdock_registry *registry) {
    void (*function)(void *) = payload.value<uint8_t>() != 0 ? &StandIn<void (*)(void *)>::function : nullptr;
    if (registry != nullptr) {
        registry->register_shutdown(registry, function, nullptr);
    }
}

// Reads one call of the entry, and makes it unless `registry` is null. False for a record of another kind.
bool read_call(uint8_t kind, Payload &payload, opdock_registry *registry) {
    switch (kind) {
    case OPDOCK_RECORD_VENDOR:
        read_vendor(payload, registry);
        break;
    case OPDOCK_RECORD_DEVICE:
        read_device(payload, registry);
        break;
    case OPDOCK_RECORD_OP:
        read_op(payload, registry);
        break;
    case OPDOCK_RECORD_IMPL:
        read_impl(payload, registry);
        break;
    case OPDOCK_RECORD_SHUTDOWN:
        read_shutdown(payload, registry);
        break;
    case OPDOCK_RECORD_FAIL: {
        const std::string text = payload.rest();
        if (registry != nullptr) {
            registry->fail(registry, OPDOCK_FAILED, text.c_str());
        }
        break;
    }
    case OPDOCK_RECORD_HOST_FAIL: {
        const std::string text = payload.rest();
        if (registry != nullptr && registry->host != nullptr) { // null if only the registration is wanted
            registry->host->fail(registry->host, OPDOCK_FAILED, text.c_str());
        }
        break;
    }
    default:
        return false;
    }
    payload.expect_end();
    return true;
}

UsedLibrary read_library(Payload &payload) {
    const auto file = payload.value<opdock_transcript_library>();
    return {payload.rest(), {file.device, file.inode, file.size, file.modified, file.changed}};
}

struct Record {
    uint8_t kind;
    std::span<const std::byte> payload;
};

// The next record, or nullopt if the remaining bytes hold no complete one.
std::optional<Record> next_record(ByteReader &reader) {
    constexpr size_t header = 5;
    if (reader.left() < header) {
        return {};
    }
    const auto kind = reader.value<uint8_t>();
    const auto size = reader.value<uint32_t>();
    if (size > reader.left()) {
        return {};
    }
    return Record{kind, reader.take(size)};
}

void check_hello(Payload payload) {
    const auto hello = payload.value<opdock_transcript_hello>();
    if (hello.version != OPDOCK_TRANSCRIPT_VERSION || hello.vendor_size != sizeof(opdock_vendor) ||
        hello.device_size != sizeof(opdock_device_provider) || hello.op_size != sizeof(opdock_op_declaration) ||
        hello.impl_size != sizeof(opdock_impl) || hello.knob_size != sizeof(opdock_knob)) {
        unreadable("it comes from a plugin-probe of another version of opdock");
    }
    payload.expect_end();
}

} // namespace

Transcript Transcript::parse(std::vector<std::byte> bytes) {
    Transcript transcript;
    transcript.bytes_ = std::move(bytes);
    try {
        transcript.read();
    } catch (const ShortBytes &error) {
        unreadable(error.what());
    }
    return transcript;
}

void Transcript::read() {
    ByteReader reader(bytes_);
    bool greeted = false;
    while (const std::optional<Record> record = next_record(reader)) {
        Payload payload(record->payload);
        const bool ended = stage_ == Stage::open_failed || stage_ == Stage::no_entry;
        if (!greeted) {
            if (record->kind != OPDOCK_RECORD_HELLO) {
                unreadable("it does not begin like a transcript");
            }
            check_hello(payload);
            greeted = true;
        } else if (record->kind == OPDOCK_RECORD_OPEN_FAILED && stage_ == Stage::begun) {
            loader_text_ = payload.rest();
            stage_ = Stage::open_failed;
        } else if (record->kind == OPDOCK_RECORD_OPENED && stage_ == Stage::begun) {
            payload.expect_end();
            stage_ = Stage::opened;
        } else if (record->kind == OPDOCK_RECORD_NO_ENTRY && stage_ == Stage::opened) {
            payload.expect_end();
            stage_ = Stage::no_entry;
        } else if (stage_ == Stage::opened && read_call(record->kind, payload, nullptr)) {
        } else if (record->kind == OPDOCK_RECORD_RETURNED && stage_ == Stage::opened) {
            (void)payload.value<opdock_status>();
            payload.expect_end();
            stage_ = Stage::returned;
        } else if (record->kind == OPDOCK_RECORD_CHANGED && stage_ == Stage::returned) {
            changes_.push_back(payload.rest());
        } else if (record->kind == OPDOCK_RECORD_LIBRARY && stage_ == Stage::returned &&
                   libraries_.size() < OPDOCK_TRANSCRIPT_MOST_LIBRARIES) {
            libraries_.push_back(read_library(payload));
        } else if (record->kind == OPDOCK_RECORD_END && (stage_ == Stage::returned || ended)) {
            payload.expect_end();
            if (!ended) {
                stage_ = Stage::complete;
            }
            if (!reader.at_end()) {
                unreadable("it continues after its end");
            }
        } else {
            unreadable("a record is in the wrong place");
        }
    }
}

opdock_status Transcript::replay(opdock_registry *registry) const {
    ByteReader reader(bytes_);
    opdock_status status = OPDOCK_FAILED;
    while (const std::optional<Record> record = next_record(reader)) {
        Payload payload(record->payload);
        if (!read_call(record->kind, payload, registry) && record->kind == OPDOCK_RECORD_RETURNED) {
            status = payload.value<opdock_status>();
        }
    }
    return status;
}

} // namespace opdock::core
