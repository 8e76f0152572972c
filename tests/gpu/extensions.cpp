#include "extensions.hpp"

#include <atomic>

#include "check_cuda.hpp"
#include "graph.hpp"
#include "op-call/placed_call.hpp"
#include "opdock/abi/allocator.h"
#include "opdock/abi/completion.h"
#include "opdock/plugin.hpp"

namespace gpu_tests {
namespace {

constexpr int64_t count = 1024;
constexpr size_t bytes = count * sizeof(float);
constexpr opdock::OpDeclaration copy_op{"gputests.copy(input: f32[n]) -> (output: f32[n])"};

std::atomic<int> told{0};
std::atomic<bool> is_open{false}; // the gate that blocks a stream

void tell(void *argument) {
    ++*static_cast<std::atomic<int> *>(argument);
}

void wait_at_gate(void * /*unused*/) {
    is_open.wait(false);
}

struct OpensGate {
    ~OpensGate() {
        is_open = true;
        is_open.notify_all();
    }
};

bool is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda("querying whether a stream is captured", cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone;
}

void copy_on(cudaStream_t stream, void *to, const void *from) {
    check_cuda("copying", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

// Copies through memory from the host's allocator; under capture, where allocation is not possible, directly.
opdock::Status copy(const opdock::Call &call) {
    const opdock_host_api *host = call.c().host;
    const opdock_allocator *allocator = opdock_allocator_of(host);
    const opdock_completion *completion = opdock_completion_of(host);
    if (allocator == nullptr || completion == nullptr) {
        return opdock::failed("the host lacks an extension of ABI 1.0");
    }
    const float *from = call.input<const float>(0).data();
    float *to = call.output<float>(0).data();
    auto *stream = static_cast<cudaStream_t>(call.stream());
    if (is_captured(stream)) {
        copy_on(stream, to, from);
    } else {
        void *between = nullptr;
        if (const opdock_status status = allocator->allocate(host, call.device(), stream, bytes, &between);
            status != OPDOCK_OK) {
            return opdock::Status(status);
        }
        copy_on(stream, between, from);
        copy_on(stream, to, between);
        if (const opdock_status status = allocator->free(host, call.device(), stream, between); status != OPDOCK_OK) {
            return opdock::Status(status);
        }
    }
    return opdock::Status(completion->notify(host, call.device(), stream, tell, &told));
}

opdock_status register_copy(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &own) {
        own.declare(copy_op);
        own.implement(copy_op,
                      opdock::Impl("vendor.gputests").device("cuda").capture_safe().kernel(opdock::kernel<&copy>));
    });
}

} // namespace

std::vector<std::string> try_extensions(const opdock::Host &host, DLDevice device, cudaStream_t stream) {
    std::vector<std::string> problems;
    const auto expect = [&](const char *when, int times) {
        if (told != times) {
            problems.push_back("opdock.completion: " + std::string(when) + " the plugin was told " +
                               std::to_string(told) + " times and not " + std::to_string(times));
        }
    };
    opdock::detail::check(opdock_register_temporary_module(host.c(), "gpu-tests", "gputests", register_copy, nullptr));
    {
        const opdock::Op op = host.op("gputests.copy");
        const opdock::op_call::DeviceBuffer from(host, device, bytes);
        const opdock::op_call::DeviceBuffer to(host, device, bytes);
        std::vector<float> numbers(count);
        for (size_t i = 0; i < numbers.size(); ++i) {
            numbers[i] = static_cast<float>(i);
        }
        check_cuda("copying an input", cudaMemcpy(from.get(), numbers.data(), bytes, cudaMemcpyHostToDevice));
        const opdock::Tensor input(from.get(), opdock::f32, {count}, device);
        const opdock::Tensor output(to.get(), opdock::f32, {count}, device);
        const opdock::TensorArg inputs[] = {input};
        const opdock::TensorArg outputs[] = {output};
        const opdock::Args args(inputs, outputs, {}, stream);

        check_cuda("holding a stream up", cudaLaunchHostFunc(stream, wait_at_gate, nullptr));
        {
            const OpensGate afterwards;
            op(args);
            expect("before its work ran", 0);
        }
        check_cuda("waiting for the stream", cudaStreamSynchronize(stream));
        expect("after its work ran", 1);
        std::vector<float> copied(count);
        check_cuda("copying an output", cudaMemcpy(copied.data(), to.get(), bytes, cudaMemcpyDeviceToHost));
        if (copied != numbers) {
            problems.emplace_back("opdock.allocator: what went through its memory came out differently");
        }

        const Graph graph(stream, [&] { op(args); });
        expect("while it was captured", 1);
        graph.launch(stream);
        graph.launch(stream);
        check_cuda("waiting for the stream", cudaStreamSynchronize(stream));
        expect("after two replays", 3);
    }
    opdock::detail::check(opdock_unregister_module(host.c(), "gpu-tests"));
    return problems;
}

} // namespace gpu_tests
