// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The target of a request: a path of segments and a query of parameters, percent-decoded.
///
///     /api/v1/tubes/a%2Fb/jobs?delay_ms=500&key=x    segments: api v1 tubes a/b jobs

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/protocol/http/json_document.h"

namespace carillon::protocol::http {

/// Limits: kMaxSegments, kMaxParameters.
class Target {
 public:
  static constexpr std::size_t kMaxSegments = 16;
  static constexpr std::size_t kMaxParameters = 64;

  /// Reads a target in origin form (it begins with a slash). Nothing if it is not one, if a percent
  /// sign is not followed by two hexadecimal digits, or if a limit is passed.
  [[nodiscard]] static std::optional<Target> parse(std::string_view text);

  /// The path as it was sent, without the query.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::vector<std::string>& segments() const noexcept { return segments_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& parameters()
      const noexcept {
    return parameters_;
  }
  /// The parameters as an object of words, for Fields. Valid while the target is, and is not moved.
  [[nodiscard]] std::vector<Value> values() const;

 private:
  std::string path_;
  std::vector<std::string> segments_;
  std::vector<std::pair<std::string, std::string>> parameters_;
};

/// Percent-decodes; in a query a plus sign is a space.
[[nodiscard]] std::optional<std::string> decode_percent(std::string_view text, bool in_query);
/// As one segment of a path.
[[nodiscard]] std::string encode_segment(std::string_view text);

}  // namespace carillon::protocol::http
