// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How the blocks that have keys look at one: a std::string key is looked up by a
/// std::string_view, so no string is made for it; any other type by reference.

#include <functional>
#include <string>
#include <string_view>

namespace carillon {

/// What is passed to find a `Key`, and how that is hashed. To be specialised for types of one's own
/// that have a view.
template <class Key>
struct KeyTraits {
  using View = const Key&;
  using Hash = std::hash<Key>;
};
template <>
struct KeyTraits<std::string> {
  using View = std::string_view;
  using Hash = std::hash<std::string_view>;
};

template <class Key>
using KeyView = typename KeyTraits<Key>::View;

}  // namespace carillon
