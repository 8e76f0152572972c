#include "contender.hpp"

#include "op-call/requested.hpp"

namespace opdock::plugin_bench {
namespace {

// A batch of runs for opdock_device_time.
struct Batch {
    const Prepared &prepared;
    Rotation &rotation;
    opdock_call call;
    size_t runs;
};

opdock_status run(void *user_data) {
    Batch &batch = *static_cast<Batch *>(user_data);
    for (size_t i = 0; i < batch.runs; ++i) {
        batch.call.data = batch.rotation.next();
        const opdock_status status = batch.prepared.run(batch.call);
        if (status != OPDOCK_OK) {
            return opdock_prepared_failed(batch.prepared.c(), status);
        }
    }
    return OPDOCK_OK;
}

} // namespace

Contender::Contender(const Host &host, const std::string &op, const std::string &impl_id,
                     const op_call::PlacedCall &call, DLDevice device)
    : host_(host), device_(device), prepared_(op_call::prepare_for(host, op, impl_id, call.args())) {
    if (prepared_.workspace_size() != 0) {
        workspace_.emplace(host, device, prepared_.workspace_size());
    }
}

double Contender::sample(Rotation &rotation, size_t runs) const {
    rotation.put_back();
    const uint64_t bytes = prepared_.workspace_size();
    Batch batch{prepared_,
                rotation,
                {OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, prepared_.n_data(), 0, nullptr, nullptr,
                 workspace_ ? workspace_->get() : nullptr, bytes},
                runs};
    double microseconds = 0;
    detail::check(opdock_device_time(host_.c(), device_, nullptr, run, &batch, &microseconds));
    return microseconds / static_cast<double>(runs);
}

} // namespace opdock::plugin_bench
