// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which Asio asio.h is over: Boost's, unless CARILLON_ASIO_STANDALONE is defined. `net` is its
// namespace. Both may be used in one program: what is over the one has other names than what is
// over the other.

#if defined(CARILLON_ASIO_STANDALONE)
#include <asio.hpp>
#define CARILLON_ASIO_VERSION ASIO_VERSION
#define CARILLON_ASIO_NAMESPACE over_asio
#if defined(ASIO_HAS_CO_AWAIT)
#define CARILLON_ASIO_COROUTINES 1
#endif
#else
#include <boost/asio.hpp>
#define CARILLON_ASIO_VERSION BOOST_ASIO_VERSION
#define CARILLON_ASIO_NAMESPACE over_boost
#if defined(BOOST_ASIO_HAS_CO_AWAIT)
#define CARILLON_ASIO_COROUTINES 1
#endif
#endif

namespace carillon::asio {
inline namespace CARILLON_ASIO_NAMESPACE {

// NOLINTBEGIN(readability-identifier-naming): as Asio's.
#if defined(CARILLON_ASIO_STANDALONE)
namespace net = ::asio;
using error_code = ::asio::error_code;
using system_error = ::asio::system_error;
#else
namespace net = ::boost::asio;
using error_code = ::boost::system::error_code;
using system_error = ::boost::system::system_error;
#endif
// NOLINTEND(readability-identifier-naming)

}  // namespace CARILLON_ASIO_NAMESPACE
}  // namespace carillon::asio
