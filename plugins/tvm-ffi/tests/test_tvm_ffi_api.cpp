// Compares the plugin's declarations of tvm-ffi's interface with its header, if that is installed.
#include <doctest/doctest.h>

#include "tvm_ffi_api.hpp"

#if __has_include(<tvm/ffi/c_api.h>)
#include <type_traits>

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

namespace {

template<class Ours, class Theirs>
constexpr bool same_size = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

static_assert(same_size<tvm_ffi::Value, TVMFFIAny> &&
              offsetof(tvm_ffi::Value, integer) == offsetof(TVMFFIAny, v_int64));
static_assert(same_size<tvm_ffi::Bytes, TVMFFIByteArray> && same_size<tvm_ffi::Object, TVMFFIObject> &&
              same_size<tvm_ffi::Version, TVMFFIVersion>);
static_assert(offsetof(tvm_ffi::Object, type) == offsetof(TVMFFIObject, type_index));
static_assert(offsetof(tvm_ffi::ErrorObject, kind) == sizeof(TVMFFIObject) + offsetof(TVMFFIErrorCell, kind));
static_assert(offsetof(tvm_ffi::ErrorObject, message) == sizeof(TVMFFIObject) + offsetof(TVMFFIErrorCell, message));
static_assert(offsetof(tvm_ffi::ErrorObject, backtrace) == sizeof(TVMFFIObject) + offsetof(TVMFFIErrorCell, backtrace));
static_assert(int{tvm_ffi::type_none} == int{kTVMFFINone} && int{tvm_ffi::type_int} == int{kTVMFFIInt} &&
              int{tvm_ffi::type_bool} == int{kTVMFFIBool} && int{tvm_ffi::type_float} == int{kTVMFFIFloat} &&
              int{tvm_ffi::type_dtype} == int{kTVMFFIDataType} &&
              int{tvm_ffi::type_tensor} == int{kTVMFFIDLTensorPtr} &&
              int{tvm_ffi::type_raw_text} == int{kTVMFFIRawStr} &&
              int{tvm_ffi::type_object} == int{kTVMFFIStaticObjectBegin});

// Checks for the same return type and the same number of parameters, with equal sizes.
template<class Ours, class Theirs>
constexpr bool alike = false;
template<class Result, class... Ours, class... Theirs>
constexpr bool alike<Result (*)(Ours...), Result(Theirs...)> = ((sizeof(Ours) == sizeof(Theirs)) && ...);

static_assert(alike<decltype(tvm_ffi::Functions::get_version), decltype(TVMFFIGetVersion)>);
static_assert(alike<decltype(tvm_ffi::Functions::function_get_global), decltype(TVMFFIFunctionGetGlobal)>);
static_assert(alike<decltype(tvm_ffi::Functions::function_call), decltype(TVMFFIFunctionCall)>);
static_assert(alike<decltype(tvm_ffi::Functions::error_move_from_raised), decltype(TVMFFIErrorMoveFromRaised)>);
static_assert(alike<decltype(tvm_ffi::Functions::object_dec_ref), decltype(TVMFFIObjectDecRef)>);
static_assert(alike<decltype(tvm_ffi::Functions::env_set_stream), decltype(TVMFFIEnvSetStream)>);

} // namespace

TEST_CASE("what is declared of tvm-ffi is what its header says") {
    CHECK(TVM_FFI_VERSION_MAJOR == 0);
}
#endif
