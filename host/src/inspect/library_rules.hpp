// Detects who else could inject code into a plugin through the libraries it needs: applies the rules for places
// (path_rules.hpp) to each folder that the dynamic loader would search according to ld.so(8), and to each library that
// it would load from there.
//
// Judges places named by the plugin, by one of its libraries, by the program (DT_RPATH) or by LD_LIBRARY_PATH.
// The system's own folders are not judged. Libraries that code loads at run time (dlopen) cannot be known in
// advance.
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
    std::string place; // the file or folder at fault, or the text that names none
    std::string what;  // a sentence without its subject, with a remedy
};

// A library that a plugin needs, directly or through other libraries.
struct TakenLibrary {
    std::string name; // the requested name, or its DT_SONAME, by which others get it once it is loaded
    std::string file; // "": in the system's folders
};

// Caches what it read of libraries. Not thread-safe.
class LibraryRules {
  public:
    // The first fault among the libraries, direct and indirect, that a file in this folder needs. `library_path`:
    // LD_LIBRARY_PATH. `program_rpath`: see library_place.hpp.
    std::optional<LibraryFault> judge(const LibraryNeeds &needs, const std::string &folder,
                                      const std::string &library_path, const std::string &program_rpath,
                                      PathRules &rules);

    // The first fault of a folder in which libraries are searched, of its subfolders with builds for newer processors,
    // and of the files in them.
    std::optional<PathRules::Fault> judge_searched(const std::string &folder, PathRules &rules);

    // Libraries of the plugin judged last, up to the first fault.
    const std::vector<TakenLibrary> &taken() const { return taken_; }

  private:
    using Folders = std::vector<std::string>;
    // A file that needs libraries: the plugin, or one of its libraries.
    struct Needing;

    std::optional<LibraryFault> judge_names(const Needing &needing, PathRules &rules);
    // Folders in the loader's search order. An empty one stands for an element of LD_LIBRARY_PATH that is not absolute.
    Folders searched_by(const Needing &needing) const;
    std::optional<LibraryFault> find_library(const std::string &name, const Folders &searched, const Needing &needing,
                                             PathRules &rules);
    std::optional<LibraryFault> judge_library(const std::string &file, const Needing &needing, PathRules &rules,
                                              bool &is_taken);
    const Folders &with_builds(const std::string &folder);
    const std::optional<LibraryNeeds> &needs_of(const std::string &file);

    std::string library_path_;
    std::map<std::string, Folders> builds_;                      // folder -> subfolders that are searched before it
    std::map<std::string, std::optional<LibraryNeeds>> library_; // by path; nullopt if the loader would skip it
    std::size_t places_ = 0;                                     // paths inspected for one plugin
    std::vector<std::string> judging_;                           // libraries being judged, to stop at circular needs
    std::vector<TakenLibrary> taken_;
};

} // namespace opdock::core
