# Run after linking a plugin: cmake -DPLUGIN=libacme.so -DREADELF=readelf -P check-plugin.cmake
#
# Fails, and removes the library so that the next build links it again, when a host would reject it for its symbols or
# for its note.

cmake_minimum_required(VERSION 3.22)

function(reject)
    string(CONCAT reason ${ARGV})
    file(REMOVE "${PLUGIN}")
    get_filename_component(name "${PLUGIN}" NAME)
    message(FATAL_ERROR "plugin '${name}' ${reason}")
endfunction()

function(read_elf result)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C "${READELF}" --wide ${ARGN} "${PLUGIN}"
        OUTPUT_VARIABLE output
        ERROR_VARIABLE error
        RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        reject("cannot be checked: '${READELF} --wide ${ARGN}' failed: ${error}")
    endif()
    # One list item per line; brackets would glue items together.
    string(REGEX REPLACE "[][;]" "_" output "${output}")
    string(REPLACE "\n" ";" output "${output}")
    set(${result} "${output}" PARENT_SCOPE)
endfunction()

# Num: Value Size Type Bind Vis Ndx Name
read_elf(lines --dyn-syms)
set(exported)
foreach(line IN LISTS lines)
    if(line MATCHES " (GLOBAL|WEAK|UNIQUE) +[A-Z]+ +([0-9]+|ABS|COM) +([^ ]+)")
        list(APPEND exported "${CMAKE_MATCH_3}")
    endif()
endforeach()
if(NOT "opdock_register" IN_LIST exported)
    reject("does not export opdock_register.\n"
           "Define it in one of its sources: OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) { ... }\n"
           "OPDOCK_ENTRY gives it C linkage and default visibility.")
endif()
list(REMOVE_ITEM exported opdock_register)
if(exported)
    list(JOIN exported ", " exported)
    reject("exports more than opdock_register: ${exported}.\n"
           "Symbols of two plugins must not meet: remove what exports them, such as\n"
           "--export-dynamic or a second version script.")
endif()

read_elf(lines --sections)
if(NOT lines MATCHES " \\.note\\.opdock ")
    reject("has no note, by which hosts know it before running its code.\n"
           "Put OPDOCK_NOTE(id, version, vendor, devices, cpu_features) at file scope into one of its sources (opdock/abi/note.h).")
endif()
