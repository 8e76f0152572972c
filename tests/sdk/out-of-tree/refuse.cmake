# What must not build, and what the vendor is told.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)

function(must_not_build fault)
    set(build ${SCRATCH}/faulty-${fault})
    file(REMOVE_RECURSE ${build})
    configure_command(configure ${CMAKE_CURRENT_LIST_DIR}/faulty ${build} -DFAULT=${fault})
    run(output ${configure})
    set(command ${CMAKE_COMMAND} --build ${build})
    # Twice: what failed must not be taken for built the second time.
    must_fail(command ${ARGN})
    must_fail(command ${ARGN})
    if(EXISTS ${build}/libfaulty.so)
        message(FATAL_ERROR "a library with the fault ${fault} was left behind")
    endif()
endfunction()

function(must_not_configure fault)
    set(build ${SCRATCH}/faulty-${fault})
    file(REMOVE_RECURSE ${build})
    configure_command(configure ${CMAKE_CURRENT_LIST_DIR}/faulty ${build} -DFAULT=${fault})
    must_fail(configure ${ARGN})
endfunction()

must_not_build(NO_NOTE "'libfaulty.so' has no note" "Put OPDOCK_NOTE(id, version, vendor, devices, cpu_features)")
must_not_build(NO_ENTRY "'libfaulty.so' does not export opdock_register" "OPDOCK_ENTRY gives it C linkage")
must_not_build(UNDEFINED "nobody_defines_this")

# opdock_add_plugin leaves no way to export more, so this library is linked without it.
set(build ${SCRATCH}/faulty-exports)
file(REMOVE_RECURSE ${build})
configure_command(configure ${CMAKE_CURRENT_LIST_DIR}/faulty ${build} -DFAULT=EXPORTS_MORE)
run(output ${configure})
run(output ${CMAKE_COMMAND} --build ${build})
file(GLOB_RECURSE check ${prefix}/check-plugin.cmake)
set(command ${CMAKE_COMMAND} -DPLUGIN=${build}/libfaulty.so -DREADELF=${READELF} -P ${check})
must_fail(command "exports more than opdock_register: a_second_symbol.")

must_not_configure(NO_SOURCES "opdock_add_plugin(faulty): SOURCES is missing")
must_not_configure(UNKNOWN_ARGUMENT "opdock_add_plugin(faulty): unknown argument 'SOURCE'")
must_not_configure(NO_TUNE_FILE "absent.tune.yaml' does not exist")
must_not_configure(NO_DLPACK "dlpack/dlpack.h and did not find it" "libdlpack-dev" "OpdockPlugin_DLPACK_INCLUDE_DIR")
must_not_configure(NEWER_SDK "compatible with requested version \"0.99\"")
