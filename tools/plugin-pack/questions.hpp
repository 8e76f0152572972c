// Questions for the description of a package, if the command line does not give it.
#pragma once

#include "request.hpp"

namespace opdock::plugin_pack {

// Asks the user at the terminal: what was changed, the models, the contact, and the name of the commit, for which an
// empty answer takes git's description. Asks nothing if stdin or stderr is no terminal, with --json and with
// --no-questions.
void ask_for_missing(Request &request);

} // namespace opdock::plugin_pack
