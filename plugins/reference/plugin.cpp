// The plugin 'reference': every op exactly as defined, in double precision, one element after the other. It accepts any
// strides and rounds once, when it stores, so it can be trusted when a faster implementation is in doubt.
#include "opdock/plugin.hpp"

#include <string_view>
#include <utility>

#include "ops/ops.hpp"

OPDOCK_NOTE("reference", "1.0.0", "opdock", "cpu", "")

namespace reference {

opdock::Impl Plugin::implementation(const char *dtypes, opdock_kernel kernel) {
    opdock::Impl impl("reference.cpp");
    impl.kind(OPDOCK_KIND_REFERENCE).deterministic().batch_invariant().dtypes(dtypes).kernel(kernel);
    return impl;
}

opdock::OpDeclaration Plugin::with_f64(const opdock::OpDeclaration &op) {
    std::string signature(op.signature);
    for (const char *variable : {"T", "U"}) {
        if (signature.find(std::string(": ") + variable + "[") != std::string::npos)
            signature.append(signature.find(" where ") == std::string::npos ? " where " : ", ")
                .append(variable)
                .append(" in f32|f16|bf16|f64");
    }
    opdock::OpDeclaration wider = op;
    wider.signature = signatures_.emplace_back(std::move(signature));
    return wider;
}

void Plugin::add(const opdock::OpDeclaration &op, const opdock::Impl &impl) {
    registry_.implement(op, impl);
}

void Plugin::add(const opdock::OpDeclaration &op, const char *dtypes, opdock_kernel kernel,
                 decltype(opdock_impl::supports) supports) {
    const bool takes_f64 = std::string_view(dtypes).find("f64") != std::string_view::npos;
    add(takes_f64 ? with_f64(op) : op, implementation(dtypes, kernel).supports(supports));
}

} // namespace reference

namespace {

void register_all(opdock::Registry &registry) {
    reference::Plugin plugin(registry);
    reference::add_activation(plugin);
    reference::add_attention(plugin);
    reference::add_divergence(plugin);
    reference::add_dropout(plugin);
    reference::add_elementwise(plugin);
    reference::add_gated(plugin);
    reference::add_indexing(plugin);
    reference::add_linear(plugin);
    reference::add_loss(plugin);
    reference::add_moe(plugin);
    reference::add_normalization(plugin);
    reference::add_optimizer(plugin);
    reference::add_quantize(plugin);
    reference::add_rope(plugin);
    reference::add_sampling(plugin);
    reference::add_softmax(plugin);
}

} // namespace

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, register_all);
}
