#include "questions.hpp"

#include <iostream>

#include <unistd.h>

#include "cli/exit.hpp"
#include "package.hpp"
#include "text/setting_text.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

std::string answer_to(const std::string &question) {
    std::cerr << question << ": " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    if (std::cin.eof()) { // Ctrl-D: an empty answer
        std::cerr << '\n';
        std::cin.clear();
    }
    if (!is_utf8(answer)) {
        throw cli::Failure("the answer is not UTF-8; write it in that encoding");
    }
    return answer;
}

std::vector<std::string> at_commas(const std::string &text) {
    std::vector<std::string> parts;
    for (const core::Piece &piece : core::split(text, ",")) {
        if (!piece.text.empty()) {
            parts.emplace_back(piece.text);
        }
    }
    return parts;
}

} // namespace

void ask_for_missing(Request &request) {
    if (request.json || request.no_questions || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) {
        return;
    }
    if (request.message.empty()) {
        request.message = answer_to("What was changed (--message)");
    }
    if (request.models.empty()) {
        request.models = at_commas(answer_to("Models that it was tested with, separated by commas (--model)"));
    }
    if (request.contact.empty()) {
        request.contact = answer_to("Contact for questions (--contact)");
    }
    for (BackendPlace &place : request.backends) {
        if (place.version.empty()) {
            place.version = answer_to("Version name for " + core::visible_line(place.commit) + " of " + place.name +
                                      " (--backend-version), empty for git's name");
        }
    }
}

} // namespace opdock::plugin_pack
