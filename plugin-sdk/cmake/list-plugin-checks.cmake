# SPDX-License-Identifier: Apache-2.0
# Included by ctest for each plugin of opdock_add_plugin_check, which sets name, cmake, tool, plugin and arguments.

if(NOT EXISTS "${plugin}")
    # ctest was started before the build, and CMAKE_COMMAND is not set in it.
    add_test("plugin-check: ${name} is built" "${cmake}" -E cat "${plugin}")
    return()
endif()
execute_process(
    COMMAND "${tool}" --list "${plugin}"
    OUTPUT_VARIABLE listed
    RESULT_VARIABLE status
    ERROR_QUIET)
if(NOT status EQUAL 0)
    add_test("plugin-check: ${name}" "${tool}" "${plugin}" ${arguments}) # says why there is nothing to list
    return()
endif()
string(REGEX MATCHALL "[^\n]+" lines "${listed}")
set(ops)
foreach(line IN LISTS lines)
    string(REGEX REPLACE " .*" "" op "${line}")
    list(APPEND ops "${op}")
endforeach()
list(REMOVE_DUPLICATES ops)
foreach(op IN LISTS ops)
    add_test("plugin-check: ${name} ${op}" "${tool}" "${plugin}" --op "${op}" ${arguments})
endforeach()
