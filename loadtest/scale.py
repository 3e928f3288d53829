#!/usr/bin/env python3
"""scale.py BIN [devices] [coordinators] [load] [replicas]: what a call and an idle device cost, by devices (with seven
nodes of both roles, which 100,000 devices need), by coordinators at 200 calls a second in all and at 100 for each of
them, and with three nats-servers. Without names: all four. Prints tables, and draws a chart of each in FOLDER (./scale, or OUT=FOLDER), where the reports are, too. Half an hour
on two processors; nothing else should run. Three servers need a nats-server that keeps replicas: NATS_SERVER_NEWER=PATH,
or $(deploy/dev/nats-newer.sh)."""
import json, os, pathlib, resource, subprocess, sys

SERIES = {
    "devices": [
        (f"{n:,}", ["--nodes", "7", "--devices", str(n)])
        for n in (1000, 3000, 10_000, 30_000, 100_000)
    ],
    "coordinators": [
        (f"{n}", ["--coordinators", str(n), "--edges", "2", "--devices", "10000"])
        for n in (1, 2, 3, 4)
    ],
    "load": [
        (f"{n}", ["--coordinators", str(n), "--edges", "2", "--devices", "10000", "--rate", str(100 * n)])
        for n in (1, 2, 3, 4)
    ],
    "replicas": [
        (f"{n:,}", ["--nodes", "7", "--nats-servers", "3", "--devices", str(n)])
        for n in (1000, 10_000, 100_000)
    ],
}


def run(binary, folder, series, label, arguments):
    report = folder / f"{series}-{label.replace(',', '')}.json"
    print(f"{series} {label} …", file=sys.stderr, flush=True)
    # As few callloads as the limit of open files allows.
    devices = int(arguments[arguments.index("--devices") + 1])
    slices = -(-devices // (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 300))
    start = [f"{binary}/callload", "--json", str(report)]
    if slices > 1:
        start = [pathlib.Path(__file__).with_name("slices.sh"), binary, str(slices), str(report)]
    command = [*map(str, start), "--rate", "200", *arguments, "--duration", "20s"]
    command += ["--scenario", "answered", "--idle", "20s", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"scale.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return report


def row(label, report):
    run = json.loads(report.read_text())
    idle = run["idle"]["cpu_us_per_second"]["total"]
    ring = run["latency_us"]["ring"]
    call = run["cpu_us_per_call"]["total"]
    rate = run["calls"]["rate_per_second_asked"]
    cells = [
        label, f"{call:,.0f}", f"{call - idle / rate:,.0f}", f"{idle / 1000:,.0f}",
        f"{run['idle']['cpu_us_per_second_and_device']:.1f}", f"{run.get('edge_bytes_per_device', 0) / 1000:.1f}",
        f"{ring['p50'] / 1000:.2f} / {ring['p99'] / 1000:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main():
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(SERIES):
        sys.exit(__doc__)
    binary, names = sys.argv[1], sys.argv[2:] or list(SERIES)
    newer = os.environ.get("NATS_SERVER_NEWER")
    folder = pathlib.Path(os.environ.get("OUT", "scale"))
    folder.mkdir(parents=True, exist_ok=True)
    for series in names:
        if series == "replicas" and not newer:
            print("scale.py: NATS_SERVER_NEWER names no nats-server of 2.12.3 or newer: no replicas", file=sys.stderr)
            continue
        more = ["--nats", newer] if series == "replicas" else []
        reports = [(label, run(binary, folder, series, label, arguments + more)) for label, arguments in SERIES[series]]
        print(f"\n| {series} | a call, µs | without the idle devices' share | idle, ms/s | a device, µs/s | a device, kB | ring p50 / p99, ms |")
        print("|---|---|---|---|---|---|---|")
        for label, report in reports:
            print(row(label, report))
        chart = folder / f"{series}.svg"
        subprocess.run([pathlib.Path(__file__).with_name("plot.py"), chart, *(r for _, r in reports)], check=True)
        print(f"\n{chart}", flush=True)


main()
