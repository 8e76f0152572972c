# SPDX-License-Identifier: Apache-2.0
# opdock_add_plugin(NAME SOURCES file... [TUNE file] [DESTINATION folder] [NO_INSTALL])
#
# Builds the plugin libNAME.so from C, C++, CUDA or other sources that the project has enabled.
#
#   SOURCES      One of them holds OPDOCK_NOTE and opdock_register (opdock/abi/note.h, opdock/abi/entry.h).
#   TUNE         The tune file; lies beside the library as NAME.tune.yaml, where hosts look for it.
#   DESTINATION  Where it is installed; relative to CMAKE_INSTALL_PREFIX. Default: lib/opdock/plugins (with the lib of
#                GNUInstallDirs), which hosts search below /usr, /usr/local and their own prefix. Installing elsewhere
#                says how hosts find it.
#   NO_INSTALL   Leave it in the build tree.
#
# The calling folder is on the include path. The target NAME is a normal CMake target: link libraries to it and set
# properties as on any other. Only opdock_register is exported, and every symbol is bound when the library is opened,
# so that a broken plugin fails then and not in a call. A check after linking verifies the entry, the exported symbols
# and the note, for which a host would otherwise reject the plugin; plugin-ls --check checks the whole file.
#
# opdock_add_plugin_check(NAME [ARGUMENTS argument...])
#
# Adds tests that run plugin-check on the plugin NAME: `plugin-check: NAME OP` for each of its ops, with all
# requirements on its file. ctest asks the plugin for its ops when it starts. Call enable_testing() in the top folder
# of the project. ARGUMENTS go to plugin-check, such as --seed 1 for the same inputs each time or --glibc 2.28.
# OPDOCK_PLUGIN_CHECK names the tool if it is neither in opdock's prefix nor on the PATH. Without the tool there are
# no tests.

cmake_policy(VERSION 3.22)

# Runs at installation, since the prefix is not known before: reports if no host searches the plugin's folder by
# itself.
function(opdock_tell_unsearched name destination)
    if(TARGET opdock) # in its own tree: hosts look beside their library
        return()
    endif()
    install(
        CODE
            "set(name \"${name}\")
set(folder \"${destination}\")
set(searched \"${OpdockPlugin_PLUGINS}\" /usr/local/lib/opdock/plugins /usr/lib/opdock/plugins)
include(\"${CMAKE_CURRENT_FUNCTION_LIST_DIR}/tell-unsearched.cmake\")")
endfunction()

function(opdock_add_plugin name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "TUNE;DESTINATION" "SOURCES")
    if(arg_UNPARSED_ARGUMENTS)
        list(GET arg_UNPARSED_ARGUMENTS 0 unknown)
        message(FATAL_ERROR "opdock_add_plugin(${name}): unknown argument '${unknown}'; "
                            "the known arguments are SOURCES, TUNE, DESTINATION and NO_INSTALL.")
    endif()
    if(NOT arg_SOURCES)
        message(FATAL_ERROR "opdock_add_plugin(${name}): SOURCES is missing; list the plugin's source files after it.")
    endif()
    if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
        message(FATAL_ERROR "opdock_add_plugin(${name}): plugins are ELF shared objects for Linux; "
                            "this is a build for ${CMAKE_SYSTEM_NAME}.")
    endif()
    if(arg_TUNE)
        get_filename_component(tune "${arg_TUNE}" ABSOLUTE)
        if(NOT EXISTS "${tune}")
            message(FATAL_ERROR "opdock_add_plugin(${name}): the tune file '${tune}' does not exist.")
        endif()
    endif()

    add_library(${name} MODULE ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE OpdockPlugin::sdk)
    target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    set_target_properties(
        ${name}
        PROPERTIES PREFIX lib
                   SUFFIX .so
                   POSITION_INDEPENDENT_CODE ON
                   C_VISIBILITY_PRESET hidden
                   CXX_VISIBILITY_PRESET hidden
                   CUDA_VISIBILITY_PRESET hidden
                   VISIBILITY_INLINES_HIDDEN ON)

    # The SDK's C++ headers are C++17, its C headers C99; newer is fine.
    get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if(CXX IN_LIST languages)
        target_compile_features(${name} PRIVATE cxx_std_17)
        # Otherwise templates with static variables become process-wide (STB_GNU_UNIQUE), despite version scripts of
        # other plugins, and keep a library from being closed.
        target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
    endif()
    if(C IN_LIST languages)
        target_compile_features(${name} PRIVATE c_std_99)
    endif()

    set(exports "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin-exports.map")
    target_link_options(${name} PRIVATE "LINKER:--version-script=${exports}" LINKER:-z,now LINKER:-z,relro LINKER:-z,defs)
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${exports}")

    add_custom_command(
        TARGET ${name}
        POST_BUILD
        COMMAND "${CMAKE_COMMAND}" "-DPLUGIN=$<TARGET_FILE:${name}>" "-DREADELF=${CMAKE_READELF}" -P
                "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check-plugin.cmake"
        VERBATIM)

    if(arg_TUNE)
        set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${tune}") # an edited file is copied again
        add_custom_command(
            TARGET ${name}
            POST_BUILD
            COMMAND "${CMAKE_COMMAND}" -E copy "${tune}" "$<TARGET_FILE_DIR:${name}>/${name}.tune.yaml"
            VERBATIM)
    endif()

    if(NOT arg_NO_INSTALL)
        set(destination "${arg_DESTINATION}")
        if(NOT destination)
            set(libdir lib)
            if(CMAKE_INSTALL_LIBDIR)
                set(libdir "${CMAKE_INSTALL_LIBDIR}")
            endif()
            set(destination "${libdir}/opdock/plugins")
        endif()
        install(TARGETS ${name} LIBRARY DESTINATION "${destination}")
        if(arg_TUNE)
            install(FILES "${tune}" DESTINATION "${destination}" RENAME ${name}.tune.yaml)
        endif()
        opdock_tell_unsearched(${name} "${destination}")
    endif()
endfunction()

function(opdock_add_plugin_check name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ARGUMENTS")
    if(arg_UNPARSED_ARGUMENTS)
        list(GET arg_UNPARSED_ARGUMENTS 0 unknown)
        message(FATAL_ERROR "opdock_add_plugin_check(${name}): unknown argument '${unknown}'; the known argument is ARGUMENTS.")
    endif()
    if(NOT TARGET ${name})
        message(FATAL_ERROR "opdock_add_plugin_check(${name}): there is no such target; call opdock_add_plugin first.")
    endif()
    if(TARGET plugin-check) # in opdock's own tree
        set(tool "$<TARGET_FILE:plugin-check>")
        add_dependencies(${name} plugin-check)
    else()
        find_program(OPDOCK_PLUGIN_CHECK plugin-check HINTS "${OpdockPlugin_TOOLS}" DOC "opdock's plugin-check")
        if(NOT OPDOCK_PLUGIN_CHECK)
            message(WARNING "opdock_add_plugin_check(${name}): plugin-check was not found, so there are no tests of "
                           "${name}; install opdock's tools, or set OPDOCK_PLUGIN_CHECK to the program")
            return()
        endif()
        set(tool "${OPDOCK_PLUGIN_CHECK}")
    endif()
    # The paths are known when the build is generated, the ops once the plugin is built.
    set(list "${CMAKE_CURRENT_BINARY_DIR}/${name}-plugin-check.cmake")
    file(
        GENERATE
        OUTPUT "${list}"
        CONTENT
            "set(name \"${name}\")
set(cmake \"${CMAKE_COMMAND}\")
set(tool \"${tool}\")
set(plugin \"$<TARGET_FILE:${name}>\")
set(arguments \"${arg_ARGUMENTS}\")
include(\"${CMAKE_CURRENT_FUNCTION_LIST_DIR}/list-plugin-checks.cmake\")
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${list}")
endfunction()
