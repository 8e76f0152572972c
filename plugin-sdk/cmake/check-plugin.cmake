# SPDX-License-Identifier: Apache-2.0
# Run after linking a plugin: cmake -DPLUGIN=libacme.so -DREADELF=readelf -P check-plugin.cmake
#
# Fails if a host would reject the library for its symbols or for its note, and removes it so that the next build
# links it again. Checks that depend on the machine (libraries, CPU features) and the registration are left to hosts.

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
    # Splits the output into one list item per line; brackets would join items.
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
           "Symbols of two plugins must not clash: remove what exports them, such as\n"
           "--export-dynamic or a second version script.")
endif()

# The payload of each note as hexadecimal bytes, on the line that names the owner (GNU) or on the next one (LLVM).
read_elf(lines --notes)
set(payloads)
set(ours FALSE)
foreach(line IN LISTS lines)
    if(line MATCHES "^ +([^ ]+)[ \t]+0x[0-9a-f]+[ \t]")
        string(COMPARE EQUAL "${CMAKE_MATCH_1}" opdock ours)
    endif()
    if(ours AND line MATCHES "description data: ([0-9a-f ]+)")
        list(APPEND payloads "${CMAKE_MATCH_1}")
        set(ours FALSE)
    endif()
endforeach()
list(LENGTH payloads count)
if(count EQUAL 0)
    reject("has no note, by which hosts know it before running its code.\n"
           "Put OPDOCK_NOTE(id, version, vendor, devices, cpu_features) at file scope into one of its sources (opdock/abi/note.h).")
elseif(count GREATER 1)
    reject("has ${count} notes, which would make it several plugins.\n"
           "Put OPDOCK_NOTE into one of its sources only.")
endif()

# From here on: the hosts' rules for the arguments of OPDOCK_NOTE.
function(malformed what)
    reject("has a note that hosts do not understand: ${what}.\nCorrect the arguments of OPDOCK_NOTE (opdock/abi/note.h).")
endfunction()

string(REGEX MATCHALL "[0-9a-f][0-9a-f]" bytes "${payloads}")
set(codes)
foreach(byte IN LISTS bytes)
    if(byte STREQUAL "00") # ends the text; zeros fill it up to a multiple of four
        break()
    elseif(byte MATCHES "^[01]|7f")
        malformed("it contains a control character")
    endif()
    math(EXPR code "0x${byte}")
    list(APPEND codes ${code})
endforeach()
list(LENGTH codes length)
if(length GREATER_EQUAL 4096)
    malformed("it has ${length} bytes, more than 4095")
endif()
string(ASCII ${codes} payload)

foreach(field id version vendor devices cpu_features)
    string(JSON ${field} ERROR_VARIABLE error GET "${payload}" ${field})
    if(error)
        malformed("it is not a JSON object with a text '${field}', perhaps because of a quote or backslash: ${payload}")
    endif()
    string(LENGTH "${${field}}" length)
    if(length GREATER 128)
        malformed("the ${field} is ${length} bytes long, more than 128")
    elseif(length EQUAL 0 AND NOT "${field}" STREQUAL "cpu_features")
        malformed("the ${field} is empty")
    endif()
endforeach()
if(NOT id MATCHES "^[a-z0-9_.-]+$")
    malformed("the id '${id}' has characters other than a-z, 0-9, '_', '.' and '-'")
endif()
foreach(field devices cpu_features)
    if(NOT "${${field}}" MATCHES "^([^, ]+(,[^, ]+)*)?$")
        malformed("${field} must be names separated by commas, without spaces, not '${${field}}'")
    endif()
endforeach()
