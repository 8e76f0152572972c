// Colour, for terminals.
#pragma once

#include <string>
#include <string_view>

namespace opdock::cli {

enum class Tint { plain, heading, good, bad, doubtful, quiet };

class Paint {
  public:
    explicit Paint(bool on) : on_(on) {}

    std::string operator()(Tint tint, std::string_view text) const;

  private:
    bool on_;
};

// Whether stdout is a terminal whose user did not ask for no colour (NO_COLOR, TERM=dumb).
bool colour_is_welcome();

} // namespace opdock::cli
