#!/usr/bin/env python3
"""ring.py BIN [CALLLOAD ARGUMENTS]: does callmesh_ring_seconds say what callload's devices see?

Runs callload with one edge, reads the edge's metric while it still lives, and prints the medians of both: ring less hop
(one round trip between a device and its edge) beside the metric, interpolated in its buckets, and their ratio.
Linux only: it finds the edge among callload's children.
"""
import json, os, re, subprocess, sys, tempfile, time, urllib.request


def edge_metrics_port(parent):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline").read().split("\0")
            owner = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
            variables = open(f"/proc/{pid}/environ").read().split("\0") if owner == parent else []
        except OSError:
            continue
        if owner == parent and "edge" in words:
            return next(line.split("=")[1] for line in variables if line.startswith("CALLMESH_METRICS_PORT="))
    return None


def median(text):
    buckets = re.findall(r'^callmesh_ring_seconds_bucket\{[^}]*le="([^"]+)"\} (\d+)', text, re.M)
    below = [(float(le), int(count)) for le, count in buckets]
    half, last = below[-1][1] / 2, (0.0, 0)
    for le, count in below:
        if count >= half:
            return last[0] + (le - last[0]) * (half - last[1]) / (count - last[1])
        last = (le, count)


program, *more = sys.argv[1:]
report = tempfile.mktemp(suffix=".json")
run = subprocess.Popen(
    [f"{program}/callload", "--edges", "1", "--devices", "300", "--rate", "50", "--duration", "10s", "--scenario",
     "answered", "--json", report, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
metrics = ""
while run.poll() is None:
    time.sleep(0.3)
    port = edge_metrics_port(run.pid)
    if port is None:
        continue
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1).read().decode()
        metrics = text if "callmesh_ring_seconds_bucket" in text else metrics
    except OSError:
        pass
latency = json.load(open(report))["latency_us"]
ring, hop = latency["ring"]["p50"] / 1000, latency["hop"]["p50"] / 1000
metric = median(metrics) * 1000
print(f"ring {ring:.2f} ms, hop {hop:.2f} ms, ring - hop {ring - hop:.2f} ms, metric {metric:.2f} ms, "
      f"ratio {(ring - hop) / metric:.2f}")
