#include "registration_script.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

namespace opdock::fuzz {
namespace {

constexpr std::size_t most_items = 2000;       // keeps each input fast
constexpr std::uint32_t most_pointers = 70000; // in an array of knobs; more than a host reads

// Stands in for every function of a plugin: the host only checks that it is not null.
void function() {}

class Item {
  public:
    explicit Item(const ScriptItem &item) : item_(item) {}

    const char *text(const char *name) const {
        const auto field = item_.fields.find(name);
        return field == item_.fields.end() ? nullptr : field->second.c_str();
    }
    template<class T>
    T number(const char *name, T unless_set = 0) const {
        const auto field = item_.fields.find(name);
        if (field == item_.fields.end()) {
            return unless_set;
        }
        T value = 0;
        std::from_chars(field->second.data(), field->second.data() + field->second.size(), value);
        return value;
    }
    template<class Function>
    void set(Function &field, const char *name) const {
        field = is_there(name) ? reinterpret_cast<Function>(&function) : nullptr;
    }
    bool is_there(const char *name) const {
        return item_.fields.contains(name) != item_.fields.contains("all_functions");
    }
    bool is_null() const { return item_.fields.contains("null"); }

  private:
    const ScriptItem &item_;
};

// A copy of a struct in its own allocation, of the size that its struct_size states: reading beyond it is
// a finding.
class Given {
  public:
    template<class Struct>
    explicit Given(const Struct &filled) {
        constexpr std::size_t largest = 4096;
        const std::size_t size = std::clamp<std::size_t>(filled.struct_size, sizeof filled.struct_size, largest);
        memory_ = std::make_unique<std::byte[]>(size);
        std::memcpy(memory_.get(), &filled, std::min(size, sizeof filled));
    }
    template<class Struct>
    const Struct *get() const {
        return reinterpret_cast<const Struct *>(memory_.get());
    }

  private:
    std::unique_ptr<std::byte[]> memory_;
};

void call_vendor(const Item &item, opdock_registry *registry) {
    opdock_vendor vendor = {};
    vendor.struct_size = item.number("struct_size", OPDOCK_STRUCT_SIZE(opdock_vendor, device_query_command));
    vendor.flags = item.number<std::uint32_t>("flags");
    vendor.name = item.text("name");
    vendor.device_name = item.text("device_name");
    vendor.dispatch_key = item.text("dispatch_key");
    vendor.device_query_command = item.text("device_query_command");
    registry->register_vendor(registry, item.is_null() ? nullptr : Given(vendor).get<opdock_vendor>());
}

void call_device(const Item &item, opdock_registry *registry) {
    opdock_device_provider device = {};
    device.struct_size = item.number("struct_size", OPDOCK_STRUCT_SIZE(opdock_device_provider, event_elapsed));
    device.flags = item.number<std::uint32_t>("flags");
    device.required_flags = item.number<std::uint32_t>("required_flags");
    device.dl_device_type = item.number<std::int32_t>("dl_device_type");
    device.device = item.text("device");
    device.stream_type = item.text("stream_type");
    item.set(device.count, "count");
    item.set(device.properties, "properties");
    item.set(device.get_current, "get_current");
    item.set(device.make_current, "make_current");
    item.set(device.allocate, "allocate");
    item.set(device.free, "free");
    item.set(device.copy, "copy");
    item.set(device.stream_create, "stream_create");
    item.set(device.stream_destroy, "stream_destroy");
    item.set(device.stream_synchronize, "stream_synchronize");
    item.set(device.stream_is_capturing, "stream_is_capturing");
    item.set(device.event_create, "event_create");
    item.set(device.event_destroy, "event_destroy");
    item.set(device.event_record, "event_record");
    item.set(device.event_elapsed, "event_elapsed");
    registry->register_device_provider(registry,
                                       item.is_null() ? nullptr : Given(device).get<opdock_device_provider>());
}

void call_op(const Item &item, opdock_registry *registry) {
    opdock_op_declaration op = {};
    op.struct_size = item.number("struct_size", OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc));
    op.flags = item.number<std::uint32_t>("flags");
    op.required_flags = item.number<std::uint32_t>("required_flags");
    op.signature = item.text("signature");
    op.doc = item.text("doc");
    registry->register_op(registry, item.is_null() ? nullptr : Given(op).get<opdock_op_declaration>());
}

opdock_knob knob_of(const Item &item) {
    opdock_knob knob = {};
    knob.struct_size = item.number("struct_size", OPDOCK_STRUCT_SIZE(opdock_knob, choices));
    knob.type = item.number("type", OPDOCK_KNOB_INT);
    knob.name = item.text("name");
    knob.doc = item.text("doc");
    knob.choices = item.text("choices");
    knob.minimum = item.number<std::int64_t>("minimum");
    knob.maximum = item.number<std::int64_t>("maximum");
    knob.default_value = item.number<std::int64_t>("default");
    return knob;
}

// The knobs of an implementation: an array of `count` pointers. If there are fewer knobs, the last pointer is repeated
// to fill it.
class Knobs {
  public:
    Knobs(const std::vector<ScriptItem> &knobs, std::uint32_t count) {
        for (const ScriptItem &knob : knobs) {
            given_.emplace_back(knob_of(Item(knob)));
            null_.push_back(Item(knob).is_null());
        }
        for (std::size_t i = 0; i < knobs.size(); ++i) {
            pointers_.push_back(null_[i] ? nullptr : given_[i].get<opdock_knob>());
        }
        pointers_.resize(std::min(count, most_pointers), pointers_.empty() ? nullptr : pointers_.back());
    }
    const opdock_knob *const *get() const { return pointers_.data(); }

  private:
    std::vector<Given> given_;
    std::vector<bool> null_;
    std::vector<const opdock_knob *> pointers_;
};

void call_impl(const ScriptItem &script, opdock_registry *registry) {
    const Item item(script);
    opdock_impl impl = {};
    impl.struct_size = item.number("struct_size", OPDOCK_STRUCT_SIZE(opdock_impl, get_extension));
    impl.flags = item.number<std::uint32_t>("flags");
    impl.required_flags = item.number<std::uint32_t>("required_flags");
    impl.kind = item.number("kind", OPDOCK_KIND_VENDOR);
    impl.op = item.text("op");
    impl.impl_id = item.text("impl_id");
    impl.vendor = item.text("vendor");
    impl.device = item.text("device");
    impl.dtypes = item.text("dtypes");
    impl.architectures = item.text("architectures");
    impl.priority = item.number<std::int32_t>("priority");
    impl.alignment = item.number<std::uint32_t>("alignment");
    impl.tune_version = item.number<std::uint32_t>("tune_version");
    impl.n_knobs = item.number("n_knobs", static_cast<std::uint32_t>(script.knobs.size()));
    const Knobs knobs(script.knobs, impl.n_knobs);
    impl.knobs = item.text("no_knobs") != nullptr ? nullptr : knobs.get();
    item.set(impl.kernel, "kernel");
    item.set(impl.available, "available");
    item.set(impl.supports, "supports");
    item.set(impl.heuristic, "heuristic");
    item.set(impl.device_init, "device_init");
    item.set(impl.device_fini, "device_fini");
    item.set(impl.plan_create, "plan_create");
    item.set(impl.plan_destroy, "plan_destroy");
    item.set(impl.workspace_size, "workspace_size");
    item.set(impl.get_extension, "get_extension");
    registry->register_impl(registry, item.is_null() ? nullptr : Given(impl).get<opdock_impl>());
}

bool begins_item(std::string_view line) {
    return line == "vendor" || line == "device" || line == "op" || line == "impl" || line == "shutdown" ||
           line == "fail" || line == "return";
}

} // namespace

std::vector<ScriptItem> read_script(std::string_view text) {
    std::vector<ScriptItem> script;
    ScriptItem *current = nullptr;
    for (std::size_t items = 0; !text.empty() && items < most_items;) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (begins_item(line)) {
            current = &script.emplace_back(ScriptItem{std::string(line), {}, {}});
            ++items;
        } else if (line == "knob" && !script.empty() && script.back().word == "impl") {
            current = &script.back().knobs.emplace_back(ScriptItem{std::string(line), {}, {}});
            ++items;
        } else if (current != nullptr) {
            const std::size_t space = std::min(line.find(' '), line.size());
            current->fields[std::string(line.substr(0, space))] = line.substr(std::min(space + 1, line.size()));
        }
    }
    return script;
}

opdock_status run_script(const std::vector<ScriptItem> &script, opdock_registry *registry) {
    opdock_status status = OPDOCK_OK;
    for (const ScriptItem &call : script) {
        const Item item(call);
        if (call.word == "vendor") {
            call_vendor(item, registry);
        } else if (call.word == "device") {
            call_device(item, registry);
        } else if (call.word == "op") {
            call_op(item, registry);
        } else if (call.word == "impl") {
            call_impl(call, registry);
        } else if (call.word == "shutdown") {
            registry->register_shutdown(
                registry, item.is_null() ? nullptr : [](void *) {}, nullptr);
        } else if (call.word == "fail") {
            registry->fail(registry, item.number("status", OPDOCK_FAILED), item.text("message"));
        } else {
            status = item.number("status", OPDOCK_FAILED);
        }
    }
    return status;
}

} // namespace opdock::fuzz
