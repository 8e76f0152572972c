// The contents of plugins, reported by a process that opens them: none of their code runs in this one.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conversation.hpp"

namespace opdock::plugin_check {

class Catalog {
  public:
    // Throws as opening a host does, except for a module that is refused.
    Catalog(const std::string &program, const std::vector<std::string> &modules, double seconds);

    // Host::describe().
    const nlohmann::json &document() const { return document_; }
    // The reason why no host opens in strict mode, or "".
    const std::string &refusal() const { return refusal_; }
    // The lines of the host's log that need attention.
    const std::vector<std::string> &log() const { return log_; }
    // The reason why there is no such device, or "".
    std::string missing(const std::string &device);

  private:
    Reply ask(nlohmann::json request);

    Conversation conversation_;
    nlohmann::json document_;
    std::string refusal_;
    std::vector<std::string> log_;
};

} // namespace opdock::plugin_check
