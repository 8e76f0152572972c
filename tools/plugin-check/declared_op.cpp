#include "declared_op.hpp"

#include <algorithm>

#include "opdock/plugin.h"

namespace opdock::plugin_check {
namespace {

thread_local const char *declared = nullptr; // while an entry runs, since it takes no arguments

opdock_status declare(opdock_registry *registry) {
    opdock_op_declaration op = {};
    op.struct_size = OPDOCK_STRUCT_SIZE(opdock_op_declaration, doc);
    op.signature = declared;
    return registry->register_op(registry, &op);
}

} // namespace

void declare_op(Host &host, const std::string &signature) {
    // A vendor's prefix marks an op that this vendor declares.
    const std::string name = signature.substr(0, signature.find('('));
    const size_t dot = name.find('.');
    declared = signature.c_str();
    host.register_module("plugin-check-" + name, dot == std::string::npos ? "opdock" : name.substr(0, dot), declare);
}

} // namespace opdock::plugin_check
