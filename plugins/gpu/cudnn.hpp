// Graphs of operations through cuDNN, which is opened at its first use: the plugin loads without it. CUDA
// only.
#pragma once

#ifndef __HIP__
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cudnn_api.hpp"
#include "opdock/plugin.hpp"

namespace gpu {

// Returns OPDOCK_UNSUPPORTED with the reason if cuDNN cannot be opened or is too old.
opdock::Status cudnn_available(DLDevice device);

// cuDNN's state for one device; any number of runs may use it at once.
class Cudnn {
  public:
    static opdock::Status open(DLDevice device, std::unique_ptr<Cudnn> &made);
    Cudnn(const Cudnn &) = delete;
    Cudnn &operator=(const Cudnn &) = delete;
    ~Cudnn();

    cudnn::Handle handle() const { return handle_; }
    // A handle has one stream at a time. Held from setting the stream until the work is queued.
    std::mutex &mutex() const { return mutex_; }

  private:
    explicit Cudnn(cudnn::Handle handle) : handle_(handle) {}

    cudnn::Handle handle_;
    mutable std::mutex mutex_;
};

// One of cuDNN's descriptors. The functions throw opdock::Failure.
class CudnnDescriptor {
  public:
    explicit CudnnDescriptor(cudnn::Kind kind);
    CudnnDescriptor(const CudnnDescriptor &) = delete;
    CudnnDescriptor &operator=(const CudnnDescriptor &) = delete;
    ~CudnnDescriptor();

    cudnn::Descriptor c() const { return descriptor_; }
    template<class T>
    void set(cudnn::Attribute attribute, cudnn::Type type, const T &value) {
        set(attribute, type, 1, &value);
    }
    void set(cudnn::Attribute attribute, cudnn::Type type, int64_t count, const void *values);
    void set(cudnn::Attribute attribute, const CudnnDescriptor &value);
    void finalize();

  private:
    cudnn::Descriptor descriptor_ = nullptr;
};

using CudnnDims = std::array<int64_t, 4>;

// The strides of a tensor without gaps.
CudnnDims packed_strides(const CudnnDims &dims);

// A tensor of a graph. Copies refer to the same tensor.
struct CudnnTensor {
    const CudnnDescriptor *descriptor = nullptr;
    CudnnDims dims = {}, strides = {};
};

// A graph under construction. Operations are computed in f32
// unless specified otherwise. The functions throw opdock::Failure.
class CudnnGraph {
  public:
    // A tensor in memory. Runs pass the pointers, aligned to 16 bytes, in the order of these calls.
    CudnnTensor memory(cudnn::DataType type, const CudnnDims &dims, const CudnnDims &strides);
    CudnnTensor constant(float value);
    CudnnTensor constant(int32_t value);
    // An intermediate tensor between two operations.
    CudnnTensor between(cudnn::DataType type, const CudnnDims &dims);
    CudnnTensor between(cudnn::DataType type, const CudnnDims &dims, const CudnnDims &strides);

    void pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, const CudnnTensor *b, const CudnnTensor *t,
                   const CudnnTensor &y, cudnn::DataType math = cudnn::DataType::f32);
    // The same, into a new tensor with x's dims.
    CudnnTensor pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, cudnn::DataType type = cudnn::DataType::f32);
    CudnnTensor pointwise(cudnn::PointwiseMode mode, const CudnnTensor &x, const CudnnTensor &b,
                          cudnn::DataType type = cudnn::DataType::f32, cudnn::DataType math = cudnn::DataType::f32);
    // The index of each element of x along a dim, as i32.
    CudnnTensor index(const CudnnTensor &x, int64_t dim);
    // Multiplies over the last two dims. In the dims before, one matrix of b may serve several of a's.
    void matmul(const CudnnTensor &a, const CudnnTensor &b, const CudnnTensor &c);
    // Reduces over the dims that are smaller in y.
    void reduce(cudnn::Reduction by, const CudnnTensor &x, const CudnnTensor &y);
    // y has the elements of x with other dims.
    void view(const CudnnTensor &x, const CudnnTensor &y);

  private:
    friend class CudnnPlan;
    CudnnTensor tensor(cudnn::DataType type, const CudnnDims &dims, const CudnnDims &strides, bool is_virtual,
                       bool is_value);
    CudnnTensor value(cudnn::DataType type, uint32_t bits);
    CudnnDescriptor &add(cudnn::Kind kind) { return descriptors_.emplace_back(kind); }
    // Adds an operation with these descriptors: how it is computed, and its tensors. Null ones are left out.
    void operate(cudnn::Kind kind, std::initializer_list<std::pair<cudnn::Attribute, const CudnnDescriptor *>> parts);

    std::deque<CudnnDescriptor> descriptors_; // the others point to them
    std::vector<cudnn::Descriptor> operations_;
    int64_t tensors_ = 0; // also the name of the last one
    std::vector<int64_t> memory_ids_, value_ids_;
    std::deque<uint32_t> values_;
};

// A graph that can run. Everything except the pointers is chosen at construction; runs share the plan.
class CudnnPlan {
  public:
    // Throws opdock::Failure, with OPDOCK_UNSUPPORTED if cuDNN has no kernel.
    CudnnPlan(const Cudnn &library, std::unique_ptr<CudnnGraph> graph);

    uint64_t workspace_size() const { return workspace_size_; }
    // `pointers`: those of all tensors in memory.
    opdock::Status run(const opdock::Call &call, const Cudnn &library, const std::vector<void *> &pointers,
                       void *workspace) const;

  private:
    bool make(const Cudnn &library, cudnn::Descriptor engine_config);
    void pack(const std::vector<void *> &pointers, void *workspace) const;

    std::unique_ptr<CudnnGraph> graph_;
    CudnnDescriptor operations_{cudnn::Kind::operation_graph};
    std::deque<CudnnDescriptor> engine_configs_;
    std::unique_ptr<CudnnDescriptor> plan_;
    uint64_t workspace_size_ = 0;
    // The pointers of the last run, as set in cuDNN; guarded by the library's mutex.
    mutable std::vector<void *> last_pointers_;
    mutable void *last_workspace_ = nullptr;
    mutable std::unique_ptr<CudnnDescriptor> last_pack_;
};

} // namespace gpu
#endif
