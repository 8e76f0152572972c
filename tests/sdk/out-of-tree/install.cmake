# Installs the SDK without the rest of opdock, and moves it: nothing in it may know where it was installed.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)

file(REMOVE_RECURSE ${SCRATCH})
run(output ${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${SCRATCH}/installed --component plugin-sdk)
file(RENAME ${SCRATCH}/installed ${prefix})

file(GLOB_RECURSE files RELATIVE ${prefix} ${prefix}/*)
foreach(expected include/opdock/plugin.h include/opdock/plugin.hpp include/opdock/standard_ops.h
                 share/opdock/plugin-template/plugin.cpp)
    if(NOT expected IN_LIST files)
        message(FATAL_ERROR "${expected} is not installed; installed are: ${files}")
    endif()
endforeach()
if(NOT files MATCHES "REQUIREMENTS.md")
    message(FATAL_ERROR "REQUIREMENTS.md is not installed; installed are: ${files}")
endif()
foreach(file IN LISTS files)
    if(file MATCHES "opdock/opdock\\.h|\\.so|\\.a$")
        message(FATAL_ERROR "${file} is the host's and does not belong to the SDK")
    endif()
endforeach()
