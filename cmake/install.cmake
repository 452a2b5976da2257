# `cmake --install` and what find_package(tessera) reads.
include(CMakePackageConfigHelpers)

install(TARGETS tessera EXPORT tessera-targets)
install(TARGETS tessera_command)
install(TARGETS tessera_compiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tessera-targets NAMESPACE tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
write_basic_package_version_file(tessera-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/tessera-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/tessera-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera/models)
