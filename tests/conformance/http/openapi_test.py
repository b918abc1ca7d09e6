#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The description that the server serves, against the server: it is OpenAPI 3.1, its schemas are
schemas, and every response of a live server is as it says. That it has every route, and no other,
is tested beside the table of routes (carillon/protocol/http/routes_test.cc).

    openapi_test.py CARILLON

Exits with 77, which skips the test, if python3-jsonschema is not installed.
"""

import re
import sys
import unittest

from client import Server

try:
    import jsonschema
except ImportError:
    jsonschema = None

BINARY = None
METHODS = ("get", "put", "post", "delete", "patch", "options", "head", "trace")

# What the specification asks of the parts that we use; the schemas in it are checked by
# jsonschema's own meta-schema.
RESPONSE = {
    "type": "object",
    "oneOf": [{"required": ["$ref"]}, {"required": ["description"]}],
    "properties": {"description": {"type": "string"}, "headers": {"type": "object"},
                   "content": {"type": "object", "additionalProperties": {
                       "type": "object", "required": ["schema"]}}},
}
DESCRIPTION = {
    "type": "object",
    "required": ["openapi", "info", "paths", "components"],
    "properties": {
        "openapi": {"pattern": r"^3\.1\.\d+$"},
        "info": {"type": "object", "required": ["title", "version"]},
        "paths": {"type": "object", "patternProperties": {"^/": {
            "type": "object",
            "propertyNames": {"enum": METHODS},
            "additionalProperties": {
                "type": "object",
                "required": ["operationId", "responses", "tags", "summary", "security",
                             "x-carillon-roles"],
                "properties": {
                    "parameters": {"type": "array", "items": {
                        "type": "object", "required": ["name", "in", "schema"],
                        "properties": {"in": {"enum": ["path", "query", "header"]}}}},
                    "requestBody": {"type": "object", "required": ["content"]},
                    "responses": {"type": "object", "minProperties": 1,
                                  "patternProperties": {r"^[1-5]\d\d$": RESPONSE},
                                  "additionalProperties": False}}}}},
            "additionalProperties": False},
        "components": {"type": "object", "additionalProperties": {
            "type": "object", "propertyNames": {"pattern": r"^[a-zA-Z0-9._-]+$"}}}},
}


class DescriptionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(BINARY)
        cls.description = cls.server.get("/openapi.json").json
        cls.responses = []
        cls.server.observers.append(
            lambda method, path, response: cls.responses.append((method, path, response)))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def resolve(self, thing):
        while isinstance(thing, dict) and "$ref" in thing:
            at = self.description
            for part in thing["$ref"].removeprefix("#/").split("/"):
                at = at[part]
            thing = at
        return thing

    def operation_of(self, method, path):
        path = path.partition("?")[0]
        for template, operations in self.description["paths"].items():
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in operations:
                return operations[method.lower()]
        return None

    def check(self, method, path, response):
        operation = self.operation_of(method, path)
        self.assertIsNotNone(operation, f"{method} {path} is not described")
        described = operation["responses"].get(str(response.status))
        self.assertIsNotNone(described, f"{method} {path}: {response.status} is not described")
        described = self.resolve(described)
        if "content" not in described:
            self.assertEqual(response.raw, b"", f"{method} {path}")
            return
        kind = response.headers["Content-Type"].split(";")[0]
        content = described["content"].get(kind) or described["content"].get("*/*")
        self.assertIsNotNone(content, f"{method} {path}: {kind} is not described")
        if response.json is None:
            return
        # The references in the schema are to the whole description.
        validator = jsonschema.Draft202012Validator(
            {**content["schema"], "components": self.description["components"]})
        errors = [f"{list(error.path)}: {error.message}"
                  for error in validator.iter_errors(response.json)]
        self.assertEqual(errors, [], f"{method} {path} {response!r}")

    def test_it_is_openapi_3_1(self):
        jsonschema.Draft202012Validator(DESCRIPTION).validate(self.description)
        names = [operation["operationId"] for path in self.description["paths"].values()
                 for operation in path.values()]
        self.assertEqual(len(names), len(set(names)))
        for template, operations in self.description["paths"].items():
            in_path = set(re.findall(r"{(\w+)}", template))
            for operation in operations.values():
                named = {parameter["name"] for parameter in operation.get("parameters", [])
                         if parameter["in"] == "path"}
                self.assertEqual(named, in_path, template)

    def test_every_schema_is_one_and_every_reference_leads_somewhere(self):
        for schema in self.description["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)

        def walk(thing):
            if isinstance(thing, dict):
                if "$ref" in thing:
                    self.assertIsNotNone(self.resolve(thing))
                for value in thing.values():
                    walk(value)
            elif isinstance(thing, list):
                for value in thing:
                    walk(value)
        walk(self.description)

    def test_every_example_is_as_its_schema_says(self):
        for name, schema in self.description["components"]["schemas"].items():
            validator = jsonschema.Draft202012Validator(
                {**schema, "components": self.description["components"]})
            for example in schema.get("examples", []):
                validator.validate(example), name

    def test_responses_are_as_described_and_each_operation_has_been_tried(self):
        server, self.responses[:] = self.server, []
        tube, job = "/api/v1/tubes/d", {"body": "x", "ttr_ms": 60000, "max_attempts": 5,
                                        "backoff": {"base_ms": 1}}
        ids = [server.post(f"{tube}/jobs", {**job, "key": f"k{i}"}).json["id"] for i in range(12)]
        server.post(f"{tube}/jobs", {**job, "key": "k0"})
        server.post(f"{tube}/jobs", {**job, "key": "k0", "on_conflict": "refuse"})
        server.post(f"{tube}/jobs", {**job, "key": "k0", "on_conflict": "replace"})
        server.post(f"{tube}/jobs", {"body": 7})
        server.ask("POST", f"{tube}/jobs", b"\xff", {"Content-Type": "image/png"})
        server.post(f"{tube}/jobs:batch", [job, {"body": 1}])
        server.post(f"{tube}/jobs:batch", {})
        server.ask("POST", f"{tube}/jobs:batch", b'{"body":"l"}\n',
                   {"Content-Type": "application/x-ndjson"})
        held = server.post("/api/v1/reserve", {"tubes": ["d"], "max": 8}).json["jobs"]
        server.post("/api/v1/reserve", {"tubes": []})
        for held_job, verb in zip(held, ("ack", "release", "bury", "touch")):
            for receipt in (held_job["receipt"], "f" * 16 + ".1", 0):
                server.post(f"/api/v1/jobs/{held_job['id']}/{verb}", {"receipt": receipt})
        server.post("/api/v1/ack", {"jobs": [{"id": held[4]["id"], "receipt": held[4]["receipt"]},
                                             {"id": 1, "receipt": "f" * 16 + ".1"}]})
        server.post("/api/v1/ack", {})
        free = ids[-1]
        for path in (f"/api/v1/jobs/{free}", f"{tube}/keys/k10", f"/api/v1/jobs/{held[5]['id']}",
                     "/api/v1/jobs/99999", f"{tube}/keys/none", "/api/v1/jobs/0"):
            server.get(path)
            server.get(path + "?body=false")
            server.get(path + "?x=1")
            server.get(path + "/body")
            server.ask("PATCH", path, {"delay_ms": 60000})
            server.ask("PATCH", path, {})
            server.get(path)
            server.post(path + "/kick")
            server.ask("DELETE", path)
        for path in (f"{tube}/jobs", "/api/v1/jobs"):
            for query in ("?state=ready&limit=2", "?state=reserved", "?state=delayed", "?limit=0"):
                server.get(path + query)
        server.get("/api/v1/tubes")
        server.get("/api/v1/tubes?limit=0")
        for name in ("d", "nobody"):
            path = f"/api/v1/tubes/{name}"
            server.ask("PUT", f"{path}/pause", {"for_ms": 5})
            server.ask("DELETE", f"{path}/pause")
            server.post(f"{path}/kick", {"count": 1})
            server.post(f"{path}/kick", {})
            server.get(path)
            server.post(f"{path}/clear", {"states": ["ready"]})
        server.ask("PUT", f"{tube}/settings", {"max_jobs": 1})
        server.ask("PUT", "/api/v1/tubes/hooked/settings", {"webhook": {
            "url": "http://127.0.0.1:9/", "rate": {"count": 1}}})
        server.ask("PUT", "/api/v1/tubes/hooked/settings", {"webhook": {
            "url": "http://localhost:9999/", "rate": {"count": 1}}})
        server.get("/api/v1/tubes/hooked")
        server.post(f"{tube}/jobs", {"body": "x"})
        server.get(tube)
        schedule = {"tube": "recurring", "body": "x", "cron": "30 2 * * *", "priority": 7,
                    "time_zone": "Europe/Amsterdam", "overlap": "skip", "missed": "skip",
                    "jitter_ms": 1000, "max_attempts": 3, "backoff": {"base_ms": 1}}
        for change in ({}, {"ttr_ms": 5}, {"tube": "other"}, {"cron": "61 * * * *"},
                       {"spec": "every 1h"}, {"overlap": "never"}, {"time_zone": "Mars"}):
            server.ask("PUT", "/api/v1/schedules/report", {**schedule, **change})
        for name in ("report", "none"):
            path = f"/api/v1/schedules/{name}"
            server.get(path)
            server.post(f"{path}/run")
            server.post(f"{path}/run")
            server.get(path)
        server.get("/api/v1/schedules")
        server.get("/api/v1/schedules?limit=0")
        server.ask("DELETE", "/api/v1/schedules/report")
        server.ask("DELETE", "/api/v1/schedules/report")
        for path in ("/api/v1/stats", "/api/v1/wheel", "/healthz", "/readyz", "/metrics"):
            server.get(path)
        server.get("/api/v1/stats", headers={"Host": "evil.example"})
        server.post("/api/v1/reserve", {"tubes": ["d"]}, headers={"Origin": "http://evil"})
        for method, path, response in self.responses:
            self.check(method, path, response)
        tried = {self.operation_of(method, path)["operationId"]
                 for method, path, response in self.responses if response.status < 300}
        described = {operation["operationId"] for path in self.description["paths"].values()
                     for operation in path.values()}
        self.assertEqual(described - tried, {"getEvents"})  # It has no end: transport_test.py


if __name__ == "__main__":
    if jsonschema is None:
        print("skipped: python3-jsonschema is not installed")
        sys.exit(77)
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
