# SPDX-License-Identifier: Apache-2.0
# carillon_web_assets(TARGET): compiles web/, and uPlot of npm, into TARGET, so that one program is
# all there is to install. CARILLON_DASHBOARD is AUTO, ON or OFF; without it there is no index.html.
set(CARILLON_DASHBOARD AUTO CACHE STRING
    "The dashboard in the server: ON, OFF, or AUTO, which is ON if `npm ci` was run in web/")
set_property(CACHE CARILLON_DASHBOARD PROPERTY STRINGS AUTO ON OFF)

function(carillon_web_assets target)
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(uplot ${web}/node_modules/uplot)
  set(assets)
  file(GLOB_RECURSE own CONFIGURE_DEPENDS RELATIVE ${web}
       ${web}/js/*.js ${web}/css/*.css ${web}/*.html ${web}/*.json ${web}/*.svg)
  list(FILTER own EXCLUDE REGEX "^(node_modules|testing)/|^package")
  if(CARILLON_DASHBOARD AND EXISTS ${uplot}/dist/uPlot.esm.js)
    list(APPEND assets
         /vendor/uPlot.esm.js ${uplot}/dist/uPlot.esm.js
         /vendor/uPlot.min.css ${uplot}/dist/uPlot.min.css
         /vendor/uPlot.LICENSE.txt ${uplot}/LICENSE)
  elseif(CARILLON_DASHBOARD STREQUAL AUTO)
    message(WARNING "The server is built without its dashboard: ${uplot} is not there. "
            "Run `npm ci` in web/ (./x does), or say -DCARILLON_DASHBOARD=OFF.")
  elseif(CARILLON_DASHBOARD)
    message(FATAL_ERROR "CARILLON_DASHBOARD is ON, but ${uplot} is not there. "
            "Run `npm ci` in web/, or say -DCARILLON_DASHBOARD=OFF.")
  endif()
  if(NOT assets)
    list(REMOVE_ITEM own index.html)
  endif()
  foreach(name IN LISTS own)
    list(APPEND assets /${name} ${web}/${name})
  endforeach()

  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_web_assets.cmake)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/web_assets_bytes.cc)
  set(files ${assets})
  list(FILTER files INCLUDE REGEX "^${web}/")  # Without the paths in the address.
  # By a file, since the list is part of what the output depends on.
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/web_assets.txt CONTENT "${assets}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D LIST=${CMAKE_CURRENT_BINARY_DIR}/web_assets.txt
            -D OUTPUT=${output} -P ${script}
    DEPENDS ${files} ${script} ${CMAKE_CURRENT_BINARY_DIR}/web_assets.txt
    COMMENT "Embedding the dashboard" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
