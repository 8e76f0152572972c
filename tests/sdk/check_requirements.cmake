# cmake -DSOURCE_DIR=... -P check_requirements.cmake
#
# REQUIREMENTS.md names tests as proof: each must exist. Its numbers must be consecutive.
cmake_minimum_required(VERSION 3.22)

file(READ ${SOURCE_DIR}/plugin-sdk/REQUIREMENTS.md document)
set(problems)

string(REGEX MATCHALL "[a-z_]+\\.cpp: \"[^\"]+\"" citations "${document}")
foreach(citation IN LISTS citations)
    string(REGEX MATCH "([a-z_]+\\.cpp): \"([^\"]+)\"" unused "${citation}")
    set(case "${CMAKE_MATCH_2}")
    file(GLOB files ${SOURCE_DIR}/tests/unit/${CMAKE_MATCH_1} ${SOURCE_DIR}/tests/sdk/${CMAKE_MATCH_1}
         ${SOURCE_DIR}/tests/integration/${CMAKE_MATCH_1} ${SOURCE_DIR}/tests/integration/cli/${CMAKE_MATCH_1}
         ${SOURCE_DIR}/tools/*/tests/${CMAKE_MATCH_1})
    set(found -1)
    foreach(file IN LISTS files)
        file(READ ${file} text)
        string(REGEX REPLACE "\"[ \n]+\"" "" text "${text}") # a name that is broken over lines
        string(REGEX REPLACE "\\([ \n]+\"" "(\"" text "${text}") # one that has a line of its own
        string(FIND "${text}" "(\"${case}\"" here)
        if(NOT here EQUAL -1)
            set(found ${here})
        endif()
    endforeach()
    if(found EQUAL -1)
        list(APPEND problems "no test case '${citation}'")
    endif()
endforeach()
list(LENGTH citations count)
if(count EQUAL 0)
    list(APPEND problems "no tests are named at all")
endif()

foreach(letter P H F)
    string(REGEX MATCHALL "\n\\| ${letter}-[0-9]+" numbers "${document}")
    set(expected 1)
    foreach(number IN LISTS numbers)
        if(NOT number STREQUAL "\n| ${letter}-${expected}")
            list(APPEND problems "expected ${letter}-${expected}, found ${number}")
        endif()
        math(EXPR expected "${expected} + 1")
    endforeach()
endforeach()

if(problems)
    list(JOIN problems "\n  " problems)
    message(FATAL_ERROR "plugin-sdk/REQUIREMENTS.md:\n  ${problems}")
endif()
message("${count} citations checked")
