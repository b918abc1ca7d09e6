// SPDX-License-Identifier: Apache-2.0
#include "bench/common/gnuplot.h"

#include <cstdio>

#include "bench/common/interrupt.h"

namespace carillon::bench {

void run_gnuplot(const std::string& script) {
  std::FILE* gnuplot = ::popen("gnuplot", "w");
  if (gnuplot == nullptr) throw BenchError("gnuplot does not start");
  std::fputs(script.c_str(), gnuplot);
  if (::pclose(gnuplot) != 0) throw BenchError("gnuplot failed");
}

}  // namespace carillon::bench
