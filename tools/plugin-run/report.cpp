#include "report.hpp"

#include <algorithm>
#include <map>

#include "cli/exit.hpp"
#include "cli/quantities.hpp"
#include "cli/statistics.hpp"
#include "cli/table.hpp"
#include "cli/written_file.hpp"
#include "replay.hpp"
#include "summary.hpp"

namespace opdock::plugin_run {
namespace {

using nlohmann::json;
using op_call::MadeUp;
using op_call::Parameter;
using op_call::Source;
using op_call::to_file;
using op_call::type_text;

std::string result_name(const Parameter &parameter, size_t element) {
    return parameter.name + (parameter.list ? "[" + std::to_string(element) + "]" : "");
}

void check_format(const Result &result) {
    if (!result.file || result.file->format != FilePart::Format::npy) {
        return;
    }
    const uint32_t dtype = result.tensor->dtype;
    if (dtype == OPDOCK_BF16 || dtype == OPDOCK_E4M3 || dtype == OPDOCK_E5M2) {
        throw cli::UsageError("--output " + result.name + "=" + result.file->path + ": .npy has no " +
                              std::string(files::dtype_name(dtype)) + "; write to a .safetensors file instead");
    }
}

void add_results(std::vector<Result> &results, const Parameter &parameter, const std::vector<Target> &targets,
                 const Tensors &tensors) {
    if (targets.size() > tensors.size()) {
        throw cli::UsageError("--output " + parameter.name + " was given " + std::to_string(targets.size()) +
                              " times, but there " + (tensors.size() == 1 ? "is" : "are") + " only " +
                              cli::counted(tensors.size(), "tensor"));
    }
    for (const Target &target : targets) {
        results.push_back({result_name(parameter, target.element), &tensors[target.element], target.file,
                           op_call::name_in_file(parameter.name, target.element)});
        check_format(results.back());
    }
}

std::vector<Target> all_of(const Tensors &tensors) {
    std::vector<Target> targets;
    for (size_t i = 0; i < tensors.size(); ++i) {
        targets.push_back({i, std::nullopt});
    }
    return targets;
}

std::string source_text(const Source &source) {
    if (const auto *file = std::get_if<FilePart>(&source)) {
        return file->path + (file->tensor.empty() ? "" : ":" + file->tensor);
    }
    switch (std::get<MadeUp>(source).kind) {
    case MadeUp::Kind::random:
        return "random";
    case MadeUp::Kind::spaced:
        return "spaced";
    case MadeUp::Kind::zeros:
        return "zeros";
    default:
        return "ones";
    }
}

bool anything_random(const Arguments &arguments) {
    for (const auto &sources : arguments.inputs) {
        for (const Source &source : sources) {
            const auto *made_up = std::get_if<MadeUp>(&source);
            if (made_up != nullptr && made_up->kind == MadeUp::Kind::random) {
                return true;
            }
        }
    }
    return false;
}

std::string served_text(const Outcome &outcome) {
    if (outcome.served.size() == 1) {
        return outcome.served.front().first;
    }
    std::string text;
    for (const auto &[impl, calls] : outcome.served) {
        text += (text.empty() ? "" : ", ") + impl + " (" + cli::counted(calls, "call") + ")";
    }
    return text;
}

std::string times_text(const Outcome &outcome) {
    const std::string first = cli::time_text(outcome.first_microseconds);
    if (outcome.microseconds.empty()) {
        return first + ", a first call: resolving and preparing included";
    }
    return "min " + cli::time_text(*std::min_element(outcome.microseconds.begin(), outcome.microseconds.end())) +
           ", median " + cli::time_text(cli::summarize(outcome.microseconds).median) + " of " +
           cli::counted(outcome.microseconds.size(), "call") + ", after a first of " + first;
}

// "as the program got it" if there is no difference.
std::string comparison_text(const std::string &difference, const std::string &whose) {
    return difference.empty() ? "as " + whose : "not as " + whose + ": " + difference;
}

json comparison_json(const std::optional<std::string> &difference) {
    return difference ? json{{"agrees", difference->empty()},
                             {"difference", difference->empty() ? json(nullptr) : json(*difference)}}
                      : json(nullptr);
}

json replayed_json(const op_call::CallFile *call) {
    if (call == nullptr) {
        return nullptr;
    }
    const auto or_none = [](const std::string &text) { return text.empty() ? json(nullptr) : json(text); };
    return {{"file", call->path},
            {"implementation", call->impl},
            {"device", call->device},
            {"shadow", or_none(call->shadow)},
            {"difference", or_none(call->difference)}};
}

template<class T>
json or_null(const std::optional<T> &value) {
    return value ? json(*value) : json(nullptr);
}

json result_json(const Result &result) {
    const Summary summary = summarize(*result.tensor);
    return {{"name", result.name},
            {"dtype", files::dtype_name(result.tensor->dtype)},
            {"shape", result.tensor->shape},
            {"min", or_null(summary.min)},
            {"max", or_null(summary.max)},
            {"mean", or_null(summary.mean)},
            {"not_finite", summary.not_finite},
            {"first", summary.first},
            {"file", !result.file ? json(nullptr) : json(source_text(*result.file))},
            {"from_program", comparison_json(result.from_program)},
            {"from_shadow", comparison_json(result.from_shadow)}};
}

} // namespace

std::vector<Result> results_of(const Signature &signature, const Arguments &arguments, const CallTensors &tensors) {
    const auto any = [](const auto &lists) {
        return std::any_of(lists.begin(), lists.end(), [](const auto &targets) { return !targets.empty(); });
    };
    const bool chosen = any(arguments.outputs) || any(arguments.written_inputs);
    std::vector<Result> results;
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
        add_results(results, signature.outputs[i], chosen ? arguments.outputs[i] : all_of(tensors.outputs[i]),
                    tensors.outputs[i]);
    }
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
        if (signature.inputs[i].mut) {
            add_results(results, signature.inputs[i], chosen ? arguments.written_inputs[i] : all_of(tensors.inputs[i]),
                        tensors.inputs[i]);
        }
    }
    return results;
}

void check_files(const std::vector<Result> &results, bool force) {
    for (const Result &result : results) {
        if (result.file) {
            cli::check_output(result.file->path, force);
        }
    }
}

void compare(const op_call::CallFile &call, std::vector<Result> &results) {
    for (Result &result : results) {
        result.from_program = difference_from(call, "program.", result.name_in_call_file, *result.tensor);
        result.from_shadow = difference_from(call, "shadow.", result.name_in_call_file, *result.tensor);
    }
}

void write_files(const std::vector<Result> &results, bool force) {
    const auto write = [&](const std::string &path, files::FileContent content) {
        content.pieces.insert(content.pieces.begin(), content.header);
        cli::write_output(path, force, content.pieces);
    };
    std::map<std::string, std::vector<files::TensorData>> together;
    for (const Result &result : results) {
        if (!result.file) {
            continue;
        }
        const std::string &path = result.file->path;
        if (result.file->format == FilePart::Format::npy) {
            const files::TensorData tensor = to_file(*result.tensor, "");
            write(path, files::npy_content(path, tensor));
        } else {
            together[op_call::place_of(*result.file)].push_back(to_file(*result.tensor, result.file->tensor));
        }
    }
    for (const auto &[path, tensors] : together) {
        write(path, files::safetensors_content(path, tensors));
    }
}

std::string render_text(const Request &request, const Signature &signature, const Arguments &arguments,
                        const CallTensors &tensors, const Outcome &outcome, const std::vector<Result> &results,
                        const cli::Page &page) {
    cli::Table facts;
    facts.row({{"served by"},
               {served_text(outcome) + (outcome.fell_back ? ", on the CPU, on copies (fallback_to_cpu)" : "")}});
    facts.row({{"time"}, {times_text(outcome)}});
    if (outcome.replayed != nullptr) {
        facts.row({{"in the file"}, {outcome.replayed->text()}});
    }
    if (anything_random(arguments)) {
        facts.row({{"seed"}, {std::to_string(request.seed)}});
    }
    cli::Table values;
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
        for (size_t k = 0; k < tensors.inputs[i].size(); ++k) {
            const HostTensor &tensor = tensors.inputs[i][k];
            values.row({{"in"},
                        {result_name(signature.inputs[i], k)},
                        {type_text(tensor.dtype, tensor.shape)},
                        {source_text(arguments.inputs[i][k])}});
        }
    }
    for (const Result &result : results) {
        values.row({{"out"},
                    {result.name},
                    {type_text(result.tensor->dtype, result.tensor->shape)},
                    {to_text(summarize(*result.tensor))}});
        if (result.from_program) {
            values.note(comparison_text(*result.from_program, "the program got it"));
        }
        if (result.from_shadow) {
            values.note(comparison_text(*result.from_shadow, "the shadow computed it"));
        }
        if (result.file) {
            values.note("written to " + source_text(*result.file));
        }
    }
    return page.paint(cli::Tint::plain, signature.op + " on " + request.device) + "\n" + facts.text(page) +
           values.text(page);
}

json render_json(const Request &request, const Signature &signature, const Arguments &arguments,
                 const CallTensors &tensors, const Outcome &outcome, const std::vector<Result> &results) {
    json served = json::array();
    for (const auto &[impl, calls] : outcome.served) {
        served.push_back({{"impl_id", impl}, {"calls", calls}});
    }
    json inputs = json::array();
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
        for (size_t k = 0; k < tensors.inputs[i].size(); ++k) {
            const HostTensor &tensor = tensors.inputs[i][k];
            inputs.push_back({{"name", result_name(signature.inputs[i], k)},
                              {"source", source_text(arguments.inputs[i][k])},
                              {"dtype", files::dtype_name(tensor.dtype)},
                              {"shape", tensor.shape}});
        }
    }
    json outputs = json::array();
    for (const Result &result : results) {
        outputs.push_back(result_json(result));
    }
    const std::vector<double> &times = outcome.microseconds;
    const json min = times.empty() ? json(nullptr) : json(*std::min_element(times.begin(), times.end()));
    return {{"schema", "opdock.plugin-run/1"},
            {"fallback_to_cpu", outcome.fell_back},
            {"op", signature.op},
            {"device", request.device},
            {"served", std::move(served)},
            {"replayed", replayed_json(outcome.replayed)},
            {"seed", anything_random(arguments) ? json(request.seed) : json(nullptr)},
            {"microseconds",
             {{"first", outcome.first_microseconds},
              {"repeat", times.size()},
              {"min", min},
              {"median", times.empty() ? json(nullptr) : json(cli::summarize(times).median)}}},
            {"inputs", std::move(inputs)},
            {"outputs", std::move(outputs)}};
}

} // namespace opdock::plugin_run
