// What people are told about a package, asked for where the command line does not say it.
#pragma once

#include "request.hpp"

namespace opdock::plugin_pack {

// Of whoever sits at the terminal: what was changed, the models, whom to ask, and what people call the commit, for
// which an empty answer takes what git describes it as. Nothing is asked where stdin or stderr is no terminal, with
// --json and with --no-questions.
void ask_for_missing(Request &request);

} // namespace opdock::plugin_pack
