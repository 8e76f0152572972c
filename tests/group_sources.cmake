# opdock_group_sources(RESULT FILE...) compiles several test files as one, which takes less than half of the time: most
# of it goes into the headers that they share. Test files use the same names for their helpers, so each is put into its
# own namespace, after the headers that any of them includes.
#
# RESULT receives the sources to compile instead. Paths are relative to the calling folder.

if(CMAKE_SCRIPT_MODE_FILE) # cmake -D OUTPUT=... -D SOURCES=... -P: writes one of them
    set(includes "")
    set(bodies "")
    foreach(source IN LISTS SOURCES)
        file(STRINGS "${source}" lines REGEX "^# *include")
        list(APPEND includes ${lines})
        get_filename_component(name "${source}" NAME)
        get_filename_component(stem "${source}" NAME_WE)
        string(APPEND bodies "namespace ${stem} {\n#include \"${name}\"\n}\n")
    endforeach()
    list(REMOVE_DUPLICATES includes)
    set(content "")
    foreach(line IN LISTS includes)
        string(REGEX REPLACE "^# *include +" "" header "${line}")
        # Some headers are included under a condition.
        string(APPEND content "#if __has_include(${header})\n${line}\n#endif\n")
    endforeach()
    file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "${content}${bodies}" @ONLY)
    return()
endif()

set(OPDOCK_GROUP_SOURCES ${CMAKE_CURRENT_LIST_FILE})

function(opdock_group_sources result)
    set(size 6)
    set(sources ${ARGN})
    set(groups "")
    while(sources)
        list(SUBLIST sources 0 ${size} group)
        list(LENGTH groups number)
        set(output ${CMAKE_CURRENT_BINARY_DIR}/grouped/group_${number}.cpp)
        list(JOIN group "$<SEMICOLON>" joined)
        add_custom_command(
            OUTPUT ${output}
            COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} "-D SOURCES=${joined}" -P ${OPDOCK_GROUP_SOURCES}
            DEPENDS ${group} ${OPDOCK_GROUP_SOURCES}
            WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} COMMENT "" VERBATIM)
        list(APPEND groups ${output})
        list(LENGTH sources left)
        if(left LESS_EQUAL size)
            break()
        endif()
        list(SUBLIST sources ${size} -1 sources)
    endwhile()
    set(${result} ${groups} PARENT_SCOPE)
endfunction()
