# Relocatable installations and packages that need only glibc: cpack packs the result of `cmake --install` with
# OPDOCK_BUNDLE_LIBRARIES. README.md has the steps.
find_program(PATCHELF patchelf)
configure_file(${CMAKE_CURRENT_LIST_DIR}/bundle.cmake.in ${PROJECT_BINARY_DIR}/bundle.cmake @ONLY) # a test runs it, too
if(NOT OPDOCK_BUNDLE_LIBRARIES)
    return()
endif()
if(NOT PATCHELF)
    message(FATAL_ERROR "OPDOCK_BUNDLE_LIBRARIES needs patchelf (tools/setup installs it).")
endif()
install(SCRIPT ${PROJECT_BINARY_DIR}/bundle.cmake)
install(FILES ${DLPACK_INCLUDE_DIR}/dlpack/dlpack.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/opdock/bundled/dlpack)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME opdock)
set(CPACK_PACKAGE_VENDOR opdock)
set(CPACK_PACKAGE_CONTACT "opdock <opdock@localhost>") # a .deb has to have one
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME opdock-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# A build for one glibc also runs with later ones.
execute_process(COMMAND ldd --version OUTPUT_VARIABLE version)
string(REGEX MATCH "[0-9]+\\.[0-9]+\n" version "${version}")
string(STRIP "${version}" version)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${version})")
include(CPack)
