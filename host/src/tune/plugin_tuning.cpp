#include "tune/plugin_tuning.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "signature/other_names.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

bool comes_before(TunePlace a, TunePlace b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

std::vector<std::string_view> views(const std::set<std::string> &texts) {
    return {texts.begin(), texts.end()};
}

} // namespace

std::string tune_file_beside(const std::string &plugin_path) {
    const std::size_t begin = plugin_path.rfind('/') + 1; // npos + 1 is 0
    std::string name = plugin_path.substr(begin, plugin_path.find(".so", begin) - begin);
    if (name.starts_with("lib")) {
        name.erase(0, 3);
    }
    return plugin_path.substr(0, begin) + name + ".tune.yaml";
}

PluginTuning::PluginTuning(std::string path, bool named, const std::vector<const Implementation *> &implementations)
    : path_(std::move(path)) {
    std::error_code unreachable;
    if (!path_.empty() && (named || std::filesystem::exists(path_, unreachable))) {
        try {
            file_ = std::make_unique<const TuneFile>(read_tune_file(path_));
            found_ = file_->problems;
        } catch (const Error &error) {
            problems_.emplace_back(error.what());
        }
    }
    size_t values_left = most_values;
    bool lacks_room = false;
    for (const Implementation *implementation : implementations) {
        if (!implementation->knobs.empty()) {
            tunings_.push_back(std::make_unique<const ImplementationTuning>(*implementation, file_.get(), values_left));
            const std::optional<TuneProblem> &no_room = tunings_.back()->no_room();
            if (no_room && !std::exchange(lacks_room, true)) { // once: later implementations lack room, too
                add_problem(found_, *no_room);
            }
        }
    }
    if (file_ != nullptr) {
        check_names(implementations);
        take_problems();
    }
}

std::vector<std::string> PluginTuning::warnings() const {
    std::vector<std::string> texts;
    for (const std::string &problem : problems_) {
        texts.push_back(sentence(problem) + (has_file() ? " This entry is ignored." : " The file is ignored."));
    }
    return texts;
}

const ImplementationTuning *PluginTuning::of(const Implementation &implementation) const {
    const auto found = std::find_if(tunings_.begin(), tunings_.end(),
                                    [&](const auto &tuning) { return &tuning->implementation() == &implementation; });
    return found == tunings_.end() ? nullptr : found->get();
}

void PluginTuning::check_names(const std::vector<const Implementation *> &implementations) {
    if (implementations.empty()) { // every op would be unknown, but names are not the fault
        if (!file_->sections.empty()) {
            add_problem(found_,
                        {file_->sections.front().op.place,
                         "no implementation of the plugin is in use, so neither this entry nor any other applies"});
        }
        return;
    }
    std::set<std::string> ops;
    std::set<std::string> tunable;
    for (const Implementation *implementation : implementations) {
        ops.insert(implementation->op);
        if (!implementation->knobs.empty()) {
            tunable.insert(implementation->op);
        }
    }
    std::set<std::string> told; // ops, each once for any number of sections
    for (const TuneSection &section : file_->sections) {
        if (section.is_for_every_op()) {
            const size_t before = found_.size();
            check_implementations(section, implementations);
            if (found_.size() == before && !is_meant(section)) {
                add_problem(found_, {section.place, "no implementation of the plugin has all knobs of this section"});
            }
            continue;
        }
        const bool is_tunable = tunable.contains(section.op.text);
        if (!is_tunable && !told.insert(section.op.text).second) {
            continue;
        }
        if (!ops.contains(section.op.text)) {
            const std::string hint = found_.size() < most_problems ? hint_at_op(section.op.text, views(ops)) : "";
            add_problem(found_,
                        {section.op.place, "unknown op " + quote(section.op.text) + (hint.empty() ? "." : hint) +
                                               " The plugin implements no op of that name."});
            continue;
        }
        if (!is_tunable) {
            add_problem(found_, {section.op.place, "no implementation of op " + quote(section.op.text) + " has knobs"});
            continue;
        }
        check_implementations(section, implementations);
    }
}

void PluginTuning::check_implementations(const TuneSection &section,
                                         const std::vector<const Implementation *> &implementations) {
    std::set<std::string> ids;
    for (const Implementation *implementation : implementations) {
        if (section.is_for_every_op() || implementation->op == section.op.text) {
            ids.insert(implementation->impl_id);
        }
    }
    for (const PlacedText &id : section.implementations) {
        if (std::none_of(ids.begin(), ids.end(), [&](const std::string &known) { return same_name(known, id.text); })) {
            add_problem(found_,
                        {id.place, "unknown implementation " + quote(id.text) + hint_for(found_, id.text, views(ids))});
        }
    }
}

bool PluginTuning::is_meant(const TuneSection &section) const {
    return std::any_of(tunings_.begin(), tunings_.end(),
                       [&](const auto &tuning) { return tuning->is_meant_by(section); });
}

// If a section is for several implementations, a problem with only some of them is no fault of the
// file: their knobs may differ.
void PluginTuning::take_problems() {
    struct Seen {
        const TuneProblem *problem;
        const ImplementationTuning *last = nullptr; // aliases may repeat a place
        size_t count = 0;                           // number of implementations
    };
    using Where = std::pair<const TuneSection *, TunePlace>;
    const auto before = [](const Where &a, const Where &b) {
        return a.first != b.first ? a.first < b.first : comes_before(a.second, b.second);
    };
    std::map<Where, Seen, decltype(before)> seen(before);
    for (const auto &tuning : tunings_) {
        for (size_t i = 0; i < tuning->problems().size(); ++i) {
            const TuneProblem &problem = tuning->problems()[i];
            Seen &entry =
                seen.try_emplace({tuning->section_of_problem(i), problem.place}, Seen{&problem}).first->second;
            entry.count += std::exchange(entry.last, tuning.get()) != tuning.get() ? 1 : 0;
        }
    }
    for (const auto &[where, entry] : seen) {
        const TuneSection &section = *where.first;
        const auto meant = static_cast<size_t>(std::count_if(
            tunings_.begin(), tunings_.end(), [&](const auto &one) { return one->is_meant_by(section); }));
        if (entry.count == meant) {
            add_problem(found_, *entry.problem);
        }
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const TuneProblem &a, const TuneProblem &b) { return comes_before(a.place, b.place); });
    for (const TuneProblem &problem : found_) {
        problems_.push_back(text_of(*file_, problem));
    }
}

} // namespace opdock::core
