#include "cost.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "check_cuda.hpp"
#include "empty_kernel.hpp"
#include "graph.hpp"
#include "op-call/placed_call.hpp"
#include "op-call/requested.hpp"
#include "op-call/signature.hpp"
#include "race.hpp"

namespace gpu_tests {
namespace {

using nlohmann::json;

constexpr int64_t count = 1024;
constexpr int launches_of_batch = 200; // fewer than the device queues, so that the host never waits for the device
constexpr int calls_of_graph = 100;
constexpr int replays_of_batch = 20;

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

    // The contents of vectors `begin` to `end` after `work`; before it they are filled with `garbage`.
    template<class Work>
    std::vector<std::byte> bytes_after(size_t begin, size_t end, int garbage, cudaStream_t stream, Work work) const {
        constexpr size_t bytes = count * sizeof(float);
        for (size_t i = begin; i < end; ++i) {
            check_cuda("filling a vector", cudaMemsetAsync(buffers_[i].get(), garbage, bytes, stream));
        }
        work();
        std::vector<std::byte> all((end - begin) * bytes);
        for (size_t i = begin; i < end; ++i) {
            check_cuda("copying a vector", cudaMemcpyAsync(all.data() + (i - begin) * bytes, buffers_[i].get(), bytes,
                                                           cudaMemcpyDeviceToHost, stream));
        }
        check_cuda("waiting for the stream", cudaStreamSynchronize(stream));
        return all;
    }

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
    call.n_data = static_cast<uint32_t>(pointers.size());
    call.data = pointers.data();
    call.stream = stream;

    const auto launch_raw = [&] {
        check_cuda("launching a kernel", launch_empty(vectors[0], vectors[1], vectors[2], count, 1.0f, stream));
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
    found["call"] = race({{"raw", batch(launch_raw, launches_of_batch)},
                          {"prepared", batch(run_prepared, launches_of_batch)},
                          {"handle", batch([&] { op(args); }, launches_of_batch)}},
                         rounds);

    const Graph captured(stream, [&] {
        for (int i = 0; i < calls_of_graph; ++i) {
            run_prepared();
        }
    });
    const std::map<std::string, size_t> nodes = captured.count_nodes();
    found["graph"] = {{"calls", calls_of_graph}, {"nodes", nodes}};
    found["problems"] = json::array();
    if (nodes != std::map<std::string, size_t>{{"kernel", calls_of_graph}}) {
        found["problems"].push_back("the graph of " + std::to_string(calls_of_graph) +
                                    " calls has other nodes than one kernel for each: " + json(nodes).dump());
        return found;
    }
    const Graph by_hand(captured.chain_of_its_kernels());
    const auto bytes_after = [&](const Graph &graph, int garbage) {
        return vectors.bytes_after(n_inputs, pointers.size(), garbage, stream, [&] { graph.launch(stream); });
    };
    if (bytes_after(captured, 0x7b) != bytes_after(by_hand, 0xff)) {
        found["problems"].push_back(
            "the graph that was made by hand of the captured one's kernels computes other bits");
    }
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
    found["graph"].update(race({{"by_hand", replay(by_hand)}, {"captured", replay(captured)}}, rounds));
    return found;
}

} // namespace gpu_tests
