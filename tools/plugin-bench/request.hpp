// The options and arguments of plugin-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/tool.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_bench {

struct Request {
    std::vector<std::string> ops; // one with --shape, any number with --all
    bool shows_expected = false;  // print what the op expects instead of measuring
    std::vector<op_call::Named> inputs;
    std::vector<op_call::Named> attributes;
    std::vector<std::string> outputs; // the optional ones
    std::string shapes;               // the file
    bool all = false;
    std::vector<std::string> impls; // empty: all
    std::string device;             // "": the device of the recorded shapes, else the CPU
    bool runs_elsewhere = false;    // run recorded shapes on `device`, whatever they ran on before
    uint64_t rounds = 15;
    double seconds = 2; // for each shape
    bool cold = false;
    std::string csv;
    std::string plot;
    std::string compare;   // an earlier document
    double fail_above = 0; // slowdown factor; 0: never fail
    bool force = false;
    bool json = false;
    bool prints_csv = false;          // instead of the table
    std::vector<std::string> modules; // absolute
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_bench
