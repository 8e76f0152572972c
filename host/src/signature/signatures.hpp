// Parsed signatures, cached by text: a thousand plugins declare the same few ops.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "signature/signature.hpp"

namespace opdock::core {

class Signatures {
  public:
    // Throws Error like parse_signature.
    std::shared_ptr<const Signature> parse(const std::string &text) {
        std::shared_ptr<const Signature> &slot = known_[text];
        if (!slot) {
            slot = std::make_shared<const Signature>(parse_signature(text));
        }
        return slot;
    }

  private:
    std::unordered_map<std::string, std::shared_ptr<const Signature>> known_;
};

} // namespace opdock::core
