// SPDX-License-Identifier: Apache-2.0
// The main() of a fuzz target in builds without libFuzzer: runs the target over the empty input,
// every file of a corpus folder, and seeded mutations of those, so that a crash found once by the
// fuzzer stays found with any compiler. The seed is fixed; a run is the same everywhere.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "carillon/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

constexpr int kMutations = 5'000;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutated(std::string input, const std::string& other, carillon::Random& random) {
  for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
    const std::size_t at = random.below(input.size() + 1);
    switch (random.below(5)) {
      case 0:  // Another byte.
        if (at < input.size()) input[at] = static_cast<char>(random.below(256));
        break;
      case 1:  // One byte more.
        input.insert(at, 1, static_cast<char>(random.below(256)));
        break;
      case 2:  // A piece less.
        input.erase(at, random.below(16));
        break;
      case 3:  // A piece of another input.
        if (!other.empty()) input.insert(at, other, random.below(other.size()), random.below(64));
        break;
      default:  // Truncated.
        input.resize(at);
        break;
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> inputs = {""};
  if (argc > 1 && std::filesystem::is_directory(argv[1])) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  for (const std::string& input : inputs) run(input);
  carillon::Random random(1);
  for (int i = 0; i < kMutations; ++i) {
    run(mutated(inputs[random.below(inputs.size())], inputs[random.below(inputs.size())], random));
  }
  std::printf("%zu inputs and %d mutations of them\n", inputs.size(), kMutations);
  return 0;
}
