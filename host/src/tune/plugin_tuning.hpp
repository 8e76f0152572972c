// A plugin's tune file, resolved for each of its implementations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tune/implementation_tuning.hpp"

namespace opdock::core {

// "/opt/acme/acme.tune.yaml" for "/opt/acme/libacme.so".
std::string tune_file_beside(const std::string &plugin_path);

class PluginTuning {
  public:
    // Reads the file. A missing file is a problem only with `named`: it was named explicitly, while
    // otherwise `path` is just the default place. An empty path: no file.
    PluginTuning(std::string path, bool named, const std::vector<const Implementation *> &implementations);

    // The actual or expected path of the file.
    const std::string &path() const { return path_; }
    bool has_file() const { return file_ != nullptr; }
    // "acme.tune.yaml:12:5: unknown op 'rmsnom'; did you mean 'rmsnorm'?" Such entries are left out.
    const std::vector<std::string> &problems() const { return problems_; }
    // The problems as sentences that tell what is ignored: "... This entry is ignored."
    std::vector<std::string> warnings() const;
    // Null for an implementation without knobs.
    const ImplementationTuning *of(const Implementation &implementation) const;

  private:
    void check_names(const std::vector<const Implementation *> &implementations);
    void check_implementations(const TuneSection &section, const std::vector<const Implementation *> &implementations);
    bool is_meant(const TuneSection &section) const;
    void take_problems();

    std::string path_;
    std::unique_ptr<const TuneFile> file_;
    std::vector<TuneProblem> found_;
    std::vector<std::string> problems_;
    std::vector<std::unique_ptr<const ImplementationTuning>> tunings_; // in order of registration
};

} // namespace opdock::core
