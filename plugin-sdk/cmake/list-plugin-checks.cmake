# Included by ctest for each plugin of opdock_add_plugin_check, which sets name, tool, plugin and arguments.

if(NOT EXISTS "${plugin}")
    add_test("plugin-check: ${name} is built" "${CMAKE_COMMAND}" -E false) # ctest was started before the build
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
