# libtessera is a static library: a program that links it links what it uses.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(nlohmann_json)
find_dependency(fmt)
find_dependency(dnnl)
find_dependency(PkgConfig)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
include("${CMAKE_CURRENT_LIST_DIR}/tessera-targets.cmake")
