// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tries every interleaving of a model of threads. A model's steps are those of the code, one atomic
// action each. Memory order is sequentially consistent here: where the code has weaker orders, a
// lock lies between, or the comment there says why they suffice.

#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace carillon::testing {

// Visits every state that can be reached. `Model` has: `State`, trivially copyable and without
// padding; kThreads; step(state, thread), which makes the next step of a thread, or answers false
// if it is blocked or has ended; check(state, stuck), which answers what is wrong, or nothing.
template <class Model>
class Explorer {
 public:
  using State = typename Model::State;

  explicit Explorer(const Model& model) : model_(model) {}

  // What is wrong first; empty if nothing ever is.
  std::string run(const State& initial) {
    std::vector<State> open{initial};
    seen_.insert(key(initial));
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool stuck = true;
      for (int thread = 0; thread < Model::kThreads; ++thread) {
        State next = state;
        if (!model_.step(next, thread)) {
          continue;
        }
        stuck = false;
        if (seen_.insert(key(next)).second) {
          open.push_back(next);
        }
      }
      if (std::string wrong = model_.check(state, stuck); !wrong.empty()) {
        return wrong;
      }
    }
    return "";
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static std::string key(const State& state) {
    static_assert(std::has_unique_object_representations_v<State>);
    return std::string(reinterpret_cast<const char*>(&state), sizeof(state));
  }

  const Model& model_;
  std::unordered_set<std::string> seen_;
};

}  // namespace carillon::testing
