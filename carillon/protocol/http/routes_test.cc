// SPDX-License-Identifier: Apache-2.0
// The table of routes, and web/openapi.json beside it: each describes all of the other.

#include "carillon/protocol/http/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "carillon/protocol/http/json_document.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/protocol/http/query.h"

namespace carillon::protocol::http {
namespace {

using testing::ElementsAre;

Destination destination_of(Method method, std::string_view path, Target& target) {
  target = *Target::parse(path);
  return find_route(method, target.segments());
}

TEST(Routes, ArgumentsAreWhatStoodForTheNames) {
  Target target;
  const Destination found =
      destination_of(Method::kGet, "/api/v1/tubes/a%2Fb/keys/k%20/body", target);
  ASSERT_NE(found.route, nullptr);
  EXPECT_EQ(found.route->operation, Operation::kGetKeyBody);
  EXPECT_THAT(found.arguments, ElementsAre("a/b", "k "));
}

TEST(Routes, AnotherMethodIsToldWhichThereAre) {
  Target target;
  EXPECT_EQ(destination_of(Method::kPost, "/api/v1/tubes/t/pause", target).allowed, "PUT, DELETE");
  EXPECT_EQ(destination_of(Method::kPut, "/api/v1/tubes/t/jobs", target).allowed,
            "POST, GET, HEAD");
  EXPECT_EQ(destination_of(Method::kGet, "/api/v1/tubes//jobs", target).allowed, "");
  EXPECT_EQ(destination_of(Method::kGet, "/api/v1/tubes/t/jobs/x", target).allowed, "");
}

/// openapi.json, with a way about.
class Description {
 public:
  Description() {
    std::ifstream file(CARILLON_OPENAPI);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(document_.parse(text.str()), std::nullopt);
  }
  [[nodiscard]] const Value* member(const Value& of, std::string_view name) const {
    for (std::uint32_t i = of.first; i != Value::kNone; i = values()[i].next) {
      if (values()[i].name == name) return &values()[i];
    }
    return nullptr;
  }
  template <class Visit>
  void each(const Value& of, Visit visit) const {
    for (std::uint32_t i = of.first; i != Value::kNone; i = values()[i].next) visit(values()[i]);
  }
  [[nodiscard]] const Value& root() const { return values().front(); }

 private:
  [[nodiscard]] const std::vector<Value>& values() const { return document_.values(); }
  JsonDocument document_;
};

TEST(Routes, TheDescriptionHasEachAndNoOther) {
  const Description description;
  std::map<std::string, std::string> described;  // "GET /path": name and roles.
  const Value* paths = description.member(description.root(), "paths");
  ASSERT_NE(paths, nullptr);
  description.each(*paths, [&](const Value& path) {
    description.each(path, [&](const Value& operation) {
      std::string method(operation.name);
      std::transform(method.begin(), method.end(), method.begin(), ::toupper);
      Roles roles = kPublic;
      description.each(*description.member(operation, "x-carillon-roles"), [&](const Value& role) {
        roles = static_cast<Roles>(roles | parse_role(role.text).value_or(0));
      });
      described[method + " " + std::string(path.name)] =
          std::string(description.member(operation, "operationId")->text) + " " + to_string(roles);
    });
  });
  std::map<std::string, std::string> offered;
  for (const Route& route : route_table()) {
    const Roles roles = route.roles == kPublic ? kPublic : route.roles | kAdminRole;
    offered[std::string(to_string(route.method)) + " " + std::string(route.path)] =
        std::string(route.name) + " " + to_string(roles);
  }
  EXPECT_EQ(described, offered);
}

TEST(Routes, TheDescriptionKnowsTheStatusOfEachProblem) {
  const Description description;
  std::set<std::string> described;
  const Value* components = description.member(description.root(), "components");
  description.each(*description.member(*components, "responses"),
                   [&](const Value& response) { described.emplace(response.name.substr(1)); });
  std::set<std::string> there_are;
  for (const ProblemTraits& traits : problem_table()) {
    // 405 is of paths, not of operations; 500 is a bug.
    if (traits.status != 405) there_are.insert(std::to_string(traits.status));
  }
  EXPECT_EQ(described, there_are);
}

}  // namespace
}  // namespace carillon::protocol::http
