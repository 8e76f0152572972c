#include "cost.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "capture.hpp"
#include "op-call/requested.hpp"
#include "raw.hpp"

namespace gpu_graphs {
namespace {

using nlohmann::json;

constexpr int64_t count = 1024;
constexpr int launches_of_batch = 200; // fewer than the device queues, so that the host never waits for it
constexpr int nodes_of_graph = 100;
constexpr int replays_of_batch = 20;

double microseconds_of(const std::function<void()> &work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Ways of doing the same, each timed once in every round, the first of them what the others are compared with.
struct Way {
    const char *name;
    std::function<double()> measure; // microseconds of one
    std::vector<double> times = {};
};

json race(std::vector<Way> ways, int rounds) {
    for (int round = -2; round < rounds; ++round) { // two to warm up
        for (size_t i = 0; i < ways.size(); ++i) {
            Way &way = ways[(i + static_cast<size_t>(round + 2)) % ways.size()];
            const double time = way.measure();
            if (round >= 0) {
                way.times.push_back(time);
            }
        }
    }
    json found;
    for (const Way &way : ways) {
        std::vector<double> differences;
        for (size_t i = 0; i < way.times.size(); ++i) {
            differences.push_back(way.times[i] - ways.front().times[i]);
        }
        found[way.name] = {{"microseconds", median(way.times)}, {"over_raw", median(differences)}};
    }
    return found;
}

class Vectors {
  public:
    Vectors(const opdock::Host &host, DLDevice device, size_t how_many) {
        for (size_t i = 0; i < how_many; ++i) {
            buffers_.emplace_back(host, device, count * sizeof(float));
            check_cuda("clearing a vector", cudaMemset(buffers_.back().get(), 0, count * sizeof(float)));
            tensors_.emplace_back(buffers_.back().get(), opdock::f32, std::initializer_list<int64_t>{count}, device);
        }
        check_cuda("waiting for the device", cudaDeviceSynchronize());
    }

    float *operator[](size_t i) const { return static_cast<float *>(buffers_[i].get()); }
    const opdock::Tensor &tensor(size_t i) const { return tensors_[i]; }

  private:
    std::vector<opdock::op_call::DeviceBuffer> buffers_;
    std::vector<opdock::Tensor> tensors_;
};

} // namespace

json measure_cost(const opdock::Host &host, const std::string &name, const std::string &impl_id, DLDevice device,
                  cudaStream_t stream, int rounds) {
    const opdock::Op op = host.op(name);
    const opdock::op_call::Signature signature = opdock::op_call::signature_of(op);
    const size_t n_inputs = signature.inputs.size();
    const Vectors vectors(host, device, std::max<size_t>(n_inputs + signature.outputs.size(), 3));
    std::vector<opdock::TensorArg> inputs;
    std::vector<opdock::TensorArg> outputs;
    std::vector<void *> pointers;
    for (size_t i = 0; i < n_inputs + signature.outputs.size(); ++i) {
        (i < n_inputs ? inputs : outputs).emplace_back(vectors.tensor(i));
        pointers.push_back(vectors[i]);
    }
    const opdock::Args args(inputs, outputs, {}, stream);
    const opdock::Policy policy = opdock::op_call::nothing_but(host, name, impl_id);
    const opdock::ScopedPolicy scope(host, policy);
    const opdock::Prepared prepared = op.prepare(args);
    if (prepared.workspace_size() != 0) {
        throw std::runtime_error("op '" + name + "' needs a workspace; choose one that does not");
    }
    opdock_call call = {};
    call.struct_size = OPDOCK_STRUCT_SIZE(opdock_call, workspace_size);
    call.data = pointers.data();
    call.stream = stream;

    const auto raw = [&](auto launch) {
        check_cuda("launching a kernel", launch(vectors[0], vectors[1], vectors[2], count, 1.0f, stream));
    };
    const auto run_prepared = [&] { opdock::detail::check(prepared.run(call)); };
    const auto batch = [&](const std::function<void()> &one, int times) {
        return [=] {
            const double time = microseconds_of([&] {
                for (int i = 0; i < times; ++i) {
                    one();
                }
            });
            check_cuda("waiting for the stream", cudaStreamSynchronize(stream));
            return time / times;
        };
    };
    json found = {{"op", name}, {"impl_id", impl_id}, {"elements", count}, {"rounds", rounds}};
    found["call"] = race({{"raw", batch([&] { raw(launch_empty); }, launches_of_batch)},
                          {"prepared", batch(run_prepared, launches_of_batch)},
                          {"handle", batch([&] { op(args); }, launches_of_batch)}},
                         rounds);

    const auto nodes = [&](const std::function<void()> &one) {
        return [=] {
            for (int i = 0; i < nodes_of_graph; ++i) {
                one();
            }
        };
    };
    const Graph of_raw(stream, nodes([&] { raw(launch_add); }));
    const Graph of_prepared(stream, nodes(run_prepared));
    const auto replay = [&](const Graph &graph) {
        return [&graph, stream] {
            return microseconds_of([&] {
                       for (int i = 0; i < replays_of_batch; ++i) {
                           graph.launch(stream);
                       }
                       check_cuda("waiting for the stream", cudaStreamSynchronize(stream));
                   }) /
                   replays_of_batch;
        };
    };
    found["graph"] = race({{"raw", replay(of_raw)}, {"prepared", replay(of_prepared)}}, rounds);
    found["graph"]["nodes"] = nodes_of_graph;
    return found;
}

} // namespace gpu_graphs
