#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus and a carillon server: the metrics are right by promtool, scraped by the real
thing, and those that the documents, the alerts and the Grafana dashboard speak of.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGING = ROOT / "packaging"
SKIPPED = 77
PATIENCE_S = 60
# A name of a metric, with what a histogram adds to it.
NAME = re.compile(r"\b(?:carillon|process)_[a-z0-9_]+\b")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Process:
    """A child that dies with us."""

    def __init__(self, name, command, folder):
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        sys.exit(f"waited in vain for {what}\n{self.log.read_text(errors='replace')[-3000:]}")


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def send(port, method, path, document):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method,
                                     data=json.dumps(document).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read()


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, condition, what):
        print(f"  {'ok    ' if condition else 'FAILED'}  {what}", flush=True)
        self.failed += not condition


def promtool(checks, what, *arguments, **options):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60,
                          check=False, **options)
    said = (done.stdout + done.stderr).strip()
    checks.that(done.returncode == 0, f"promtool {what}")
    if done.returncode != 0:
        print(said)


def families(text):
    return {line.split()[2]: line.split()[3] for line in text.splitlines()
            if line.startswith("# TYPE ")}


def spoken_of(text):
    """Families that a text speaks of: without what histograms add to their names."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAME.findall(text)}


def check_documents(checks, text):
    known = families(text)
    with open(PACKAGING / "grafana" / "carillon.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    expressions += json.dumps(dashboard["templating"]) + json.dumps(dashboard["annotations"])
    page = (ROOT / "docs" / "operating" / "metrics.md").read_text(encoding="utf-8")
    alerts = (PACKAGING / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    for name, words in (("the dashboard", expressions), ("the alerts", alerts), ("the page", page)):
        strangers = spoken_of(words) - set(known) - {"process_id"}
        checks.that(not strangers, f"{name} knows only metrics that are there {sorted(strangers)}")
    rows = set(re.findall(r"^\| `([a-z_]+)` ", page, re.M))
    checks.that(rows == set(known), "the page has a row for each metric "
                f"{sorted(set(known) ^ rows)}")
    kinds = dict(re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) ", page, re.M))
    checks.that(kinds == known, "and says its kind "
                f"{sorted(name for name in known if kinds.get(name) != known[name])}")
    named = set(re.findall(r"^ +- alert: (\w+)", alerts, re.M))
    told = set(re.findall(r"^\| (Carillon\w+) ", page, re.M))
    checks.that(named == told, f"the page tells of each alert {sorted(named ^ told)}")
    ids = [panel["id"] for panel in dashboard["panels"]]
    checks.that(len(ids) == len(set(ids)), "the dashboard's panels have ids of their own")


def query(port, expression):
    answer = json.loads(get(port, "/api/v1/query?query=" + urllib.parse.quote(expression))[1])
    return answer["data"]["result"]


def check_scrape(checks, server_port, folder):
    port = free_port()
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(PACKAGING / "prometheus" / "alerts.yml")],
        "scrape_configs": [{"job_name": "carillon", "metrics_path": "/metrics",
                            "static_configs": [{"targets": [f"127.0.0.1:{server_port}"]}]}]}))
    promtool(checks, "check config", "check", "config", str(config))
    command = [shutil.which("prometheus"), f"--config.file={config}",
               f"--storage.tsdb.path={folder / 'tsdb'}",
               f"--web.listen-address=127.0.0.1:{port}"]
    with Process("prometheus", command, folder) as prometheus:
        prometheus.wait_for(lambda: get(port, "/-/ready"), "prometheus")
        prometheus.wait_for(lambda: query(port, "rate(carillon_jobs_put_total[10s])"), "a scrape")
        checks.that([r["value"][1] for r in query(port, 'up{job="carillon"}')] == ["1"],
                    "the real Prometheus has scraped it")
        value = [r["value"][1] for r in query(port, 'carillon_tube_jobs{tube="waiting",'
                                                    'state="delayed"}')]
        checks.that(value == ["7"], f"and knows how many jobs wait {value}")
        value = query(port, "histogram_quantile(0.99, carillon_job_lateness_seconds_bucket)")
        checks.that(value and 0 <= float(value[0]["value"][1]) < 60, "and how late jobs were")
        rules = json.loads(get(port, "/api/v1/rules")[1])["data"]["groups"][0]["rules"]
        ill = [rule["name"] for rule in rules if rule["health"] == "err"]
        checks.that(not ill and len(rules) >= 8, f"and evaluates the alerts {ill}")
        alerts = query(port, 'ALERTS{alertstate="firing"}')
        firing = [alert["metric"]["alertname"] for alert in alerts]
        checks.that(not firing, f"none of which fires {firing}")


def fill(port):
    """Something of everything, and more tubes than have series of their own."""
    for i in range(7):
        send(port, "POST", "/api/v1/tubes/waiting/jobs", {"body": str(i), "delay_ms": 3_600_000})
    for i in range(3):
        send(port, "POST", "/api/v1/tubes/done/jobs", {"body": str(i), "delay_ms": 10})
    for _ in range(3):
        answer = json.loads(send(port, "POST", "/api/v1/reserve", {"tubes": ["done"],
                                                                   "wait_ms": 20_000}))
        job = answer["jobs"][0]
        send(port, "POST", f"/api/v1/jobs/{job['id']}/ack", {"receipt": job["receipt"]})
    for i in range(5):
        send(port, "POST", f"/api/v1/tubes/zz-{i}/jobs", {"body": "x"})
    # It may not go there, so it fails.
    send(port, "PUT", "/api/v1/tubes/hooked/settings", {"webhook": {
        "url": "http://localhost:9999/",
        "backoff": {"base_ms": 3_600_000, "cap_ms": 3_600_000, "jitter": False}}})
    send(port, "POST", "/api/v1/tubes/hooked/jobs", {"body": "x"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    args = parser.parse_args()
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(SKIPPED)
    checks = Checks()
    promtool(checks, "check rules", "check", "rules", "alerts.yml", cwd=PACKAGING / "prometheus")
    promtool(checks, "test rules", "test", "rules", "alerts_test.yml",
             cwd=PACKAGING / "prometheus")
    with tempfile.TemporaryDirectory(prefix="carillon-monitoring-") as name:
        folder = pathlib.Path(name)
        port = free_port()
        command = [os.path.abspath(args.server), "serve", "--data", str(folder / "data"),
                   "--listen", "127.0.0.1:0", "--http-listen", f"127.0.0.1:{port}",
                   "--metrics-tubes", "4"]
        with Process("carillon", command, folder) as server:
            server.wait_for(lambda: get(port, "/healthz"), "carillon")
            fill(port)
            refused = 'carillon_webhook_posts_total{outcome="refused"} 1\n'
            server.wait_for(lambda: refused in get(port, "/metrics")[1], refused)
            kind, text = get(port, "/metrics")
            checks.that(kind.startswith("text/plain; version=0.0.4"), f"the type is {kind}")
            promtool(checks, "check metrics", "check", "metrics", input=text)
            for line in ("carillon_jobs_put_total 16", "carillon_jobs_deleted_total 3",
                         "carillon_jobs_fired_total 3", "carillon_job_reservations_total 4",
                         'carillon_jobs{state="delayed"} 8',
                         "carillon_job_lateness_seconds_count 3",
                         'carillon_tube_jobs{tube="waiting",state="delayed"} 7',
                         'carillon_webhook_tube_failures{tube="hooked"} 1',
                         "carillon_webhooks 1",
                         'carillon_tube_jobs{tube="_other",state="ready"} 4',
                         "carillon_store_available 1", "carillon_store_accepts_puts 1",
                         "carillon_draining 0"):
                checks.that(f"\n{line}\n" in text, line)
            own = {tube for tube in re.findall(r'carillon_tube_paused\{tube="([^"]*)"', text)}
            checks.that(len(own) == 4 and "_other" not in own,
                        f"four tubes have series of their own {sorted(own)}")
            check_documents(checks, text)
            check_scrape(checks, port, folder)
    print("ok" if not checks.failed else f"{checks.failed} checks FAILED")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
