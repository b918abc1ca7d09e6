# SPDX-License-Identifier: Apache-2.0
# The library that others use: the layers 0-3 that exist, as one target carillon::carillon, in the
# build tree and installed (CMake package, pkg-config). Included after those layers.

include(CMakePackageConfigHelpers)
option(CARILLON_INSTALL "Have cmake --install install the library" ${PROJECT_IS_TOP_LEVEL})

add_library(carillon_library INTERFACE)
add_library(carillon::carillon ALIAS carillon_library)
set_target_properties(carillon_library PROPERTIES EXPORT_NAME carillon)

set(CARILLON_LIBRARY_TARGETS carillon_library)
set(CARILLON_PC_LIBS "")
set(CARILLON_NEEDS_THREADS OFF)
foreach(layer base wheel timer blocks)
  if(NOT TARGET carillon_${layer})
    continue()
  endif()
  target_link_libraries(carillon_library INTERFACE carillon_${layer})
  list(APPEND CARILLON_LIBRARY_TARGETS carillon_${layer})
  get_target_property(type carillon_${layer} TYPE)
  if(NOT type STREQUAL INTERFACE_LIBRARY)
    # A linker reads archives once, from left to right: the highest layer comes first.
    string(PREPEND CARILLON_PC_LIBS "-lcarillon_${layer} ")
  endif()
  get_target_property(links carillon_${layer} LINK_LIBRARIES)
  if(links MATCHES "Threads::Threads")
    set(CARILLON_NEEDS_THREADS ON)
  endif()
endforeach()
if(CARILLON_NEEDS_THREADS)
  string(APPEND CARILLON_PC_LIBS "-pthread")
endif()
string(STRIP "${CARILLON_PC_LIBS}" CARILLON_PC_LIBS)

if(NOT CARILLON_INSTALL)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/carillon)
install(TARGETS ${CARILLON_LIBRARY_TARGETS} EXPORT carillonTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT carillonTargets NAMESPACE carillon:: DESTINATION ${package_dir} COMPONENT library)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/carillonConfig.cmake.in
  ${PROJECT_BINARY_DIR}/carillonConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/carillonConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/carillonConfig.cmake
  ${PROJECT_BINARY_DIR}/carillonConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT library)

# The prefix is found from where the file lies, so that the installed tree can be moved.
file(RELATIVE_PATH CARILLON_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" CARILLON_PC_PREFIX "${CARILLON_PC_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/carillon.pc.in ${PROJECT_BINARY_DIR}/carillon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/carillon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT library)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/carillon COMPONENT library)
