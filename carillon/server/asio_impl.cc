// SPDX-License-Identifier: Apache-2.0
// The compiled part of Asio, once (BOOST_ASIO_SEPARATE_COMPILATION): the other sources that use it
// compile in a third of the time.

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
