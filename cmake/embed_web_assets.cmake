# SPDX-License-Identifier: Apache-2.0
# cmake -D LIST=file -D OUTPUT=file -P embed_web_assets.cmake: writes the files of a list of pairs
# (path in the address, path of the file) as the C++ that carillon/server/web_assets.h describes:
# as they are, and as gzip. The same files make the same C++.
cmake_minimum_required(VERSION 3.25)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(type_json "application/json")
set(type_txt "text/plain; charset=utf-8")

# A constant of the bytes that `hex` stands for.
function(constant name hex result)
  string(LENGTH "${hex}" length)
  math(EXPR size "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n"
         bytes "${bytes}")
  set(${result} "constexpr std::array<unsigned char, ${size}> ${name} = {\n${bytes}};\n"
      PARENT_SCOPE)
endfunction()

file(READ ${LIST} pairs)
get_filename_component(folder ${OUTPUT} DIRECTORY)
set(constants "")
set(table "")
set(number 0)
while(pairs)
  list(POP_FRONT pairs path file)
  string(REGEX REPLACE ".*\\." "" extension ${path})
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 hash)

  file(READ ${file} hex HEX)
  constant(kBytes${number} "${hex}" bytes)
  set(archive ${folder}/web_asset.gz)
  file(REMOVE ${archive})
  file(ARCHIVE_CREATE OUTPUT ${archive} PATHS ${file} FORMAT raw COMPRESSION GZip
       COMPRESSION_LEVEL 9)
  file(READ ${archive} hex HEX)
  file(REMOVE ${archive})
  # Bytes 4 to 7 are the time of day.
  string(SUBSTRING "${hex}" 0 8 head)
  string(SUBSTRING "${hex}" 16 -1 rest)
  set(hex "${head}00000000${rest}")
  constant(kGzip${number} "${hex}" gzip)
  string(APPEND constants "${bytes}${gzip}")
  string(APPEND table "      {\"${path}\", \"${type_${extension}}\", \"\\\"${hash}\\\"\", "
         "text(kBytes${number}), text(kGzip${number})},\n")
  math(EXPR number "${number} + 1")
endwhile()

file(WRITE ${OUTPUT} "// Made by cmake/embed_web_assets.cmake.
#include <array>
#include <string_view>
#include <vector>

#include \"carillon/server/web_assets.h\"

namespace carillon::server {
namespace {

${constants}
[[maybe_unused]] std::string_view text(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::span<const WebAsset> web_assets() {
  static const std::vector<WebAsset> assets = {
${table}  };
  return assets;
}

}  // namespace carillon::server
")
