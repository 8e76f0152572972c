# Builds SOURCE, a vendor's project for the plugin NAME, against the installed SDK alone; installs it; and checks the
# result as a host would. TUNE is true if it has a tune file.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/steps.cmake)

set(build ${SCRATCH}/${NAME})
set(vendor_prefix ${SCRATCH}/vendor-${NAME})
file(REMOVE_RECURSE ${build} ${vendor_prefix})

set(warnings "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror")
configure_command(configure ${SOURCE} ${build} -DCMAKE_INSTALL_PREFIX=${vendor_prefix})
if(EXISTS ${SOURCE}/plugin.cpp)
    list(APPEND configure -DCMAKE_CXX_FLAGS=${warnings})
else()
    list(APPEND configure "-DCMAKE_C_FLAGS=-std=c99 ${warnings}")
endif()
run(output ${configure})
run(output ${CMAKE_COMMAND} --build ${build})
run(output ${CMAKE_COMMAND} --install ${build})

# Hosts do not search that folder, so the installation must say how they find the plugin. It must be silent about a
# folder that they do search.
set(told "Hosts do not look in ${vendor_prefix}/lib/opdock/plugins by themselves. To use plugin '${NAME}', set "
         "PLUGIN_MODULES=${vendor_prefix}/lib/opdock/plugins, or install it for this user: DESTINATION ")
list(JOIN told "" told)
string(FIND "${output}" "${told}" found)
if(found EQUAL -1)
    message(FATAL_ERROR "the installation does not say '${told}':\n${output}")
endif()
file(GLOB_RECURSE tell ${prefix}/tell-unsearched.cmake)
run(searched ${CMAKE_COMMAND} -E env XDG_DATA_HOME=${SCRATCH}/data ${CMAKE_COMMAND} -Dname=${NAME}
    -Dfolder=${SCRATCH}/data/opdock/plugins/ -P ${tell})
if(searched)
    message(FATAL_ERROR "of a folder that hosts look in it is said:\n${searched}")
endif()

set(library ${vendor_prefix}/lib/opdock/plugins/lib${NAME}.so)
set(tune ${vendor_prefix}/lib/opdock/plugins/${NAME}.tune.yaml)
if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} was not installed:\n${output}")
endif()
if(TUNE AND NOT (EXISTS ${tune} AND EXISTS ${build}/${NAME}.tune.yaml))
    message(FATAL_ERROR "${NAME}.tune.yaml is not beside lib${NAME}.so, built or installed")
endif()

set(readelf ${CMAKE_COMMAND} -E env LC_ALL=C ${READELF} --wide)

run(symbols ${readelf} --dyn-syms ${library})
string(REGEX MATCHALL "(GLOBAL|WEAK|UNIQUE) +[A-Z]+ +[0-9]+ [^\n]+" exported "${symbols}")
string(REGEX REPLACE "[A-Z]+ +[A-Z]+ +[0-9]+ " "" exported "${exported}")
if(NOT exported STREQUAL "opdock_register")
    message(FATAL_ERROR "exports '${exported}', expected opdock_register alone:\n${symbols}")
endif()

run(dynamic ${readelf} --dynamic ${library})
if(NOT dynamic MATCHES "\\(FLAGS\\) +BIND_NOW")
    message(FATAL_ERROR "is not bound when it is opened:\n${dynamic}")
endif()
if(dynamic MATCHES "TEXTREL" OR dynamic MATCHES "libopdock" OR dynamic MATCHES "RPATH|RUNPATH")
    message(FATAL_ERROR "has text relocations, needs libopdock or has a run path:\n${dynamic}")
endif()

run(segments ${readelf} --segments ${library})
if(NOT segments MATCHES "GNU_RELRO" OR segments MATCHES "RWE")
    message(FATAL_ERROR "has no RELRO segment, or one that is writable and executable:\n${segments}")
endif()

run(notes ${readelf} --notes ${library})
if(NOT notes MATCHES "\\.note\\.opdock" OR NOT notes MATCHES "opdock +0x[0-9a-f]+")
    message(FATAL_ERROR "has no note of opdock:\n${notes}")
endif()
file(STRINGS ${library} payloads REGEX "opdock\\.note/1")
if(NOT payloads MATCHES "\"id\":\"${NAME}\"")
    message(FATAL_ERROR "the note does not name '${NAME}': ${payloads}")
endif()
