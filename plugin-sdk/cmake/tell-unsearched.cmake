# SPDX-License-Identifier: Apache-2.0
# Runs when a plugin is installed, with its `name`, the `folder` it goes to, and the folders that hosts search,
# `searched`.

if(NOT IS_ABSOLUTE "${folder}")
    set(folder "${CMAKE_INSTALL_PREFIX}/${folder}")
endif()
set(user "$ENV{XDG_DATA_HOME}")
if(NOT user)
    set(user "$ENV{HOME}/.local/share")
endif()
list(APPEND searched "${user}/opdock/plugins")
get_filename_component(folder "${folder}" ABSOLUTE)
set(is_searched FALSE)
foreach(known IN LISTS searched)
    get_filename_component(known "${known}" ABSOLUTE)
    if(known AND folder STREQUAL known)
        set(is_searched TRUE)
    endif()
endforeach()
if(NOT is_searched)
    message("Hosts do not look in ${folder} by themselves. To use plugin '${name}', set PLUGIN_MODULES=${folder}, or "
            "install it for this user: DESTINATION ${user}/opdock/plugins in opdock_add_plugin.")
endif()
