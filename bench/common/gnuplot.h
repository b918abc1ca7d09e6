// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Pictures of results, drawn by gnuplot.

#include <string>
#include <string_view>

namespace carillon::bench {

/// Begins each script: SVG, a frame of two sides, the key below.
/// Both colour schemes of a reader's screen: dark lines on a white ground of its own.
inline constexpr std::string_view kPlotStyle =
    "set terminal svg size 760,400 background '#ffffff' font 'sans-serif,13'\n"
    "set border 3 linecolor '#555555'\n"
    "set tics nomirror\n"
    "set grid ytics linecolor '#dddddd' linetype 1\n"
    "set key below reverse Left\n";

/// Throws BenchError if gnuplot fails; its message is on standard error then.
void run_gnuplot(const std::string& script);

}  // namespace carillon::bench
