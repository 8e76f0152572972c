// Who else could put code into a plugin through the libraries it needs: where the dynamic loader would look for them,
// as ld.so(8) says, and the rules for places (path_rules.hpp) of each folder that it would look into and of each
// library that it would take there.
//
// Judges places that the plugin, a library of it, the program (DT_RPATH) or LD_LIBRARY_PATH names. What the loader
// finds elsewhere, in the system's folders, is the system's. What code loads by itself (dlopen) is not known
// beforehand.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "files/path_rules.hpp"
#include "files/reject.hpp"
#include "inspect/elf_dynamic.hpp"

namespace opdock::core {

struct LibraryFault {
    RejectCode code;   // unsafe_search or unsafe_library
    std::string place; // the file or folder to blame, or the text that names none
    std::string what;  // a sentence without its beginning, with what to do
};

// A library that a plugin needs, or a library of it.
struct TakenLibrary {
    std::string name; // that it was asked for by, or its DT_SONAME, by which others get it once it is there
    std::string file; // "": the system's
};

// Remembers what it read of libraries. Not for several threads at once.
class LibraryRules {
  public:
    // The first fault of what a file needs that lies in this folder, the libraries of its libraries included.
    // `library_path`: LD_LIBRARY_PATH. `program_rpath`: see library_place.hpp.
    std::optional<LibraryFault> judge(const LibraryNeeds &needs, const std::string &folder,
                                      const std::string &library_path, const std::string &program_rpath,
                                      PathRules &rules);

    // The first fault of a folder where libraries are searched, of those below it with builds for newer processors, and
    // of the files in them.
    std::optional<PathRules::Fault> judge_searched(const std::string &folder, PathRules &rules);

    // Those of the plugin that was judged last, as far as no fault was found.
    const std::vector<TakenLibrary> &taken() const { return taken_; }

  private:
    using Folders = std::vector<std::string>;
    // One that needs libraries: the plugin, or a library of it.
    struct Needing;

    std::optional<LibraryFault> judge_names(const Needing &needing, PathRules &rules);
    // Where the loader looks, in its order. An empty one stands for what LD_LIBRARY_PATH says that is not absolute.
    Folders searched_by(const Needing &needing) const;
    std::optional<LibraryFault> find_library(const std::string &name, const Folders &searched, const Needing &needing,
                                             PathRules &rules);
    std::optional<LibraryFault> judge_library(const std::string &file, const Needing &needing, PathRules &rules,
                                              bool &is_taken);
    const Folders &with_builds(const std::string &folder);
    const std::optional<LibraryNeeds> &needs_of(const std::string &file);

    std::string library_path_;
    std::map<std::string, Folders> builds_;                      // by folder: those below it that come before it
    std::map<std::string, std::optional<LibraryNeeds>> library_; // by path; none for what the loader would pass over
    std::size_t places_ = 0;                                     // that were looked at for one plugin
    std::vector<std::string> judging_;                           // libraries: one may need the one that needs it
    std::vector<TakenLibrary> taken_;
};

} // namespace opdock::core
