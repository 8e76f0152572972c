# Shared parts of the scripts in this folder. They run with cmake -P and get BINARY_DIR (of the build under test),
# SCRATCH, GENERATOR, C_COMPILER, CXX_COMPILER and READELF.

set(prefix ${SCRATCH}/moved)

# run(output command...): runs a command; if it fails, the script fails with everything that the command printed.
function(run result)
    execute_process(
        COMMAND ${ARGN}
        OUTPUT_VARIABLE output
        ERROR_VARIABLE output
        RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
    endif()
    set(${result} "${output}" PARENT_SCOPE)
endfunction()

# must_fail(variable text...): the command in the variable must fail, and print every text.
function(must_fail variable)
    execute_process(
        COMMAND ${${variable}}
        OUTPUT_VARIABLE output
        ERROR_VARIABLE output
        RESULT_VARIABLE status)
    list(JOIN ${variable} " " words)
    if(status EQUAL 0)
        message(FATAL_ERROR "succeeded, and must not: ${words}\n${output}")
    endif()
    string(REGEX REPLACE "[ \n]+" " " output "${output}") # CMake wraps messages
    foreach(text IN LISTS ARGN)
        string(FIND "${output}" "${text}" found)
        if(found EQUAL -1)
            message(FATAL_ERROR "did not say '${text}': ${words}\n${output}")
        endif()
    endforeach()
endfunction()

# configure_command(result source build arguments...): the command that configures a vendor's project.
function(configure_command result source build)
    set(${result}
        ${CMAKE_COMMAND}
        -S
        ${source}
        -B
        ${build}
        -G
        ${GENERATOR}
        -DCMAKE_C_COMPILER=${C_COMPILER}
        -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
        -DCMAKE_PREFIX_PATH=${prefix}
        -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
        ${ARGN}
        PARENT_SCOPE)
endfunction()
