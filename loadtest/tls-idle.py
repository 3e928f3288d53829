#!/usr/bin/env python3
"""tls-idle.py BIN [DEVICES]: what TLS costs an edge, beside plain.

Runs callload twice with one edge, over ws:// and over wss://, and asks the edge's operators' port meanwhile. Prints for each how many
devices connected and attached in a second, what CPU of the edge that took for each, and the memory that the edge holds for
each device when they have been silent for some seconds. Linux only: it finds the edge among callload's children.
"""
import http.client, json, os, re, subprocess, sys, tempfile, time, urllib.request


def metrics_port(parent):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline").read().split("\0")
            owner = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
            if owner != parent or "edge" not in words:
                continue
            variables = open(f"/proc/{pid}/environ").read().split("\0")
        except OSError:
            continue
        return next(line.split("=")[1] for line in variables if line.startswith("CALLMESH_METRICS_PORT="))
    return None


def sample(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1).read().decode()
    figures = dict(re.findall(r"^(\S+) (\S+)$", text, re.M))
    return {
        "at": time.monotonic(), "sessions": int(figures["callmesh_edge_sessions"]),
        "cpu": float(figures["process_cpu_seconds_total"]), "memory": int(figures["process_resident_memory_bytes"]),
    }


def run(program, devices, flags):
    report = tempfile.mktemp(suffix=".json")
    # Hardly any calls: what is wanted are devices that are connected and do nothing.
    load = subprocess.Popen(
        [f"{program}/callload", "--edges", "1", "--devices", str(devices), "--rate", "0.2", "--duration", "20s", "--scenario",
         "answered", "--json", report, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    samples = []
    while load.poll() is None:
        time.sleep(0.1)
        port = metrics_port(load.pid) if not samples else port
        try:
            if port:
                samples.append(sample(port))
        except (OSError, KeyError, http.client.HTTPException):
            pass
    if load.returncode != 0:
        sys.exit(f"callload {' '.join(flags)} ended with status {load.returncode}: {report}")
    first = next(s["at"] for s in samples if s["sessions"] > 0)
    begin = [s for s in samples if s["at"] < first][-1]
    full = [s for s in samples if s["sessions"] == devices]
    result = json.load(open(report))
    return {
        "attached": devices / result["ramp_seconds"], "cpu": (full[0]["cpu"] - begin["cpu"]) / devices * 1e6,
        "bytes": (full[-1]["memory"] - begin["memory"]) / devices, "connect": result["latency_us"]["connect"],
    }


program = sys.argv[1]
devices = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
print(f"{devices} devices, one edge{'':10} attached/s  edge CPU µs each  connect p50, p99 ms   edge kB per idle device")
figures = {}
for name, flags in [("ws", []), ("wss", ["--tls"])]:
    one = figures[name] = run(program, devices, flags)
    connect = f"{one['connect']['p50'] / 1000:.1f}, {one['connect']['p99'] / 1000:.1f}"
    print(f"{name:34}{one['attached']:10.0f}{one['cpu']:18.0f}{connect:>21}{one['bytes'] / 1000:26.1f}")
plain, tls = figures["ws"], figures["wss"]
print(f"TLS: {(tls['cpu'] - plain['cpu']):.0f} µs of the edge's CPU for a handshake, {(tls['bytes'] - plain['bytes']) / 1000:.1f} kB "
      f"for each idle device")
