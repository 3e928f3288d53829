#!/usr/bin/env python3
"""Callmesh beside Kamailio: the same work, on the same machine, in turns.

Three devices of a user ring, one answers after 100 ms, the others are stopped, the caller hangs up. Each
round runs Kamailio and then Callmesh at each rate, both with all devices connected; the table gives medians
over the rounds. CPU is user and system time of the server processes, from /proc, per call placed.

  loadtest/peers/kamailio/compare.py --rates 200,500,1000 --rounds 3
  loadtest/peers/kamailio/compare.py --rates 500 --rounds 1 --transport tcp --json compare.json
  loadtest/peers/kamailio/compare.py --nodes 1     edge and coordinator in one process

Kamailio comes from Debian (packages kamailio and kamailio-websocket-modules), its driver `ringload` is built
from the source beside this file (gcc). Everything runs on loopback; what is started here is stopped here.
"""
import argparse, glob, json, os, shutil, signal, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TICKS = os.sysconf("SC_CLK_TCK")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def fail(sentence):
    sys.exit("compare.py: " + sentence)


def stat(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                pids = [int(word) for word in file.read().split()]
        except OSError:
            continue
        for child in pids:
            found += [child] + children(child)
    return found


class Kamailio:
    """A proxy of its own configuration, in memory, with all of its workers."""

    def __init__(self, options, folder):
        self.folder = folder
        self.control = os.path.join(folder, "ctl.sock")
        self.log = open(os.path.join(folder, "kamailio.log"), "ab")
        workers = str(options.workers)
        arguments = ["kamailio", "-DD", "-E", "-f", os.path.join(HERE, "kamailio.cfg"), "-Y", folder, "-w", folder,
                     "-m", "4096", "-M", "16", "-x", "fm", "-X", "fm", "-A", "T_" + options.transport.upper(),
                     "-A", f"PORT={options.port}", "-A", f"UDP_KIDS={workers}", "-A", f"TCP_KIDS={workers}",
                     "-A", "FR_INV_MS=30000", "-A", f'CTLSOCK="unix:{self.control}"', "-A", "LOGLEVEL=-5",
                     "-A", "WITH_RR"]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 15
        while not self.answers():
            if self.process.poll() is not None:
                fail(f"Kamailio did not start; {self.log.name} says why")
            if time.monotonic() > deadline:
                self.stop()
                fail("Kamailio was not ready within 15 s")
            time.sleep(0.02)
        self.pids = [self.process.pid] + children(self.process.pid)

    def answers(self):
        asked = subprocess.run(["kamcmd", "-s", f"unix:{self.control}", "core.uptime"], capture_output=True)
        return asked.returncode == 0

    def cpu_seconds(self):
        return sum(int(fields[11]) + int(fields[12]) for fields in map(stat, self.pids)) / TICKS

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(8)
            except subprocess.TimeoutExpired:
                for pid in self.pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.process.wait()


class Devices:
    """ringload: every registered device and every caller. A command a line, a JSON object a line."""

    def __init__(self, options, program):
        users = options.devices // 3
        self.process = subprocess.Popen(
            [program, options.transport, str(options.port), str(users), "3", str(options.port + 1930)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            fail("ringload ended early")
        return json.loads(line)

    def stop(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.write("quit\n")
                self.process.stdin.flush()
                self.process.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()


def run_kamailio(options, program, rate):
    folder = tempfile.mkdtemp(prefix="compare-kamailio-")
    proxy = devices = None
    try:
        proxy = Kamailio(options, folder)
        devices = Devices(options, program)
        devices.ask("up")
        devices.ask("run", 300, 1, 100, "normal", "")
        before = proxy.cpu_seconds()
        result = devices.ask("run", rate, options.seconds, 100, "normal", "")
        cpu = proxy.cpu_seconds() - before
        ring, elsewhere = result["t_ring_us"], result["t_elsewhere_us"]
        return {"cpu_us_per_call": cpu * 1e6 / max(result["calls"], 1), "ring_p50_us": ring["p50"],
                "ring_p99_us": ring["p99"], "elsewhere_p50_us": elsewhere["p50"],
                "elsewhere_p99_us": elsewhere["p99"], "failed": result["fail"]}
    finally:
        for started in (devices, proxy):
            if started:
                started.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run_callmesh(options, rate):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        arguments = [options.callload, "--devices", str(options.devices), "--scenario", "answered", "--rate", str(rate),
                     "--duration", f"{options.seconds}s", "--json", file.name]
        if options.nodes:
            arguments += ["--nodes", str(options.nodes)]
        done = subprocess.run(arguments, capture_output=True, text=True)
        try:
            report = json.load(file)
        except json.JSONDecodeError:
            fail("callload wrote no report: " + done.stderr[-500:])
    latency, cpu = report["latency_us"], report["cpu_us_per_call"]
    result = {"cpu_us_per_call": cpu["total"], "ring_p50_us": latency["ring"]["p50"], "ring_p99_us": latency["ring"]["p99"],
              "elsewhere_p50_us": latency["elsewhere"]["p50"], "elsewhere_p99_us": latency["elsewhere"]["p99"],
              "failed": report["calls"]["expected"] - report["calls"]["completed"] + sum(report["correctness"].values())}
    result.update({f"cpu_us_per_call_{role}": cpu[role] for role in ("node", "edge", "coordinator", "nats") if role in cpu})
    return result


def prepare(folder):
    for program, package in (("kamailio", "kamailio kamailio-websocket-modules"), ("kamcmd", "kamailio"), ("gcc", "gcc libc6-dev")):
        if not shutil.which(program):
            fail(f"{program} is missing; on Debian: apt-get install {package}")
    program = os.path.join(folder, "ringload")
    subprocess.run(["gcc", "-O2", "-o", program, os.path.join(HERE, "ringload.c")], check=True)
    return program


def medians(results):
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def ratios(rates, found):
    return {rate: found["callmesh"][rate]["cpu_us_per_call"] / found["kamailio"][rate]["cpu_us_per_call"] for rate in rates}


def table(rates, found):
    lines = ["", f"{'calls/s':>8}  {'':9} {'CPU µs/call':>11}  {'ring p50/p99 ms':>16}  {'elsewhere p50/p99 ms':>21}  {'failed':>6}"]
    for rate in rates:
        for name in ("kamailio", "callmesh"):
            value = found[name][rate]
            ring = f"{value['ring_p50_us'] / 1e3:.2f} / {value['ring_p99_us'] / 1e3:.2f}"
            elsewhere = f"{value['elsewhere_p50_us'] / 1e3:.2f} / {value['elsewhere_p99_us'] / 1e3:.2f}"
            lines.append(f"{rate:>8}  {name:9} {value['cpu_us_per_call']:>11.0f}  {ring:>16}  {elsewhere:>21}  {value['failed']:>6.0f}")
        lines.append(f"{'':8}  {'ratio':9} {ratios(rates, found)[rate]:>11.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="200,500,1000", help="calls per second, with commas (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run (%(default)s)")
    parser.add_argument("--seconds", type=int, default=10, help="how long calls are placed in a run (%(default)s)")
    parser.add_argument("--devices", type=int, default=10000, help="connected devices, three a user (%(default)s)")
    parser.add_argument("--nodes", type=int, help="Callmesh's processes, each an edge and a coordinator (two of each, apart)")
    parser.add_argument("--transport", choices=("ws", "tcp", "udp"), default="ws", help="of Kamailio (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="Kamailio's worker processes (%(default)s)")
    parser.add_argument("--port", type=int, default=5070, help="Kamailio's, on loopback (%(default)s)")
    parser.add_argument("--callload", default=os.path.join(ROOT, ".build/release/callload"), help="(%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="writes all runs and the medians")
    options = parser.parse_args()
    rates = [int(rate) for rate in options.rates.split(",")]
    if not os.access(options.callload, os.X_OK):
        fail(f"there is no {options.callload}; run make build first")
    folder = tempfile.mkdtemp(prefix="compare-")
    try:
        program = prepare(folder)
        runs = {"kamailio": {rate: [] for rate in rates}, "callmesh": {rate: [] for rate in rates}}
        for number in range(1, options.rounds + 1):
            for rate in rates:
                for name, run in (("kamailio", lambda: run_kamailio(options, program, rate)),
                                  ("callmesh", lambda: run_callmesh(options, rate))):
                    result = run()
                    runs[name][rate].append(result)
                    say(f"round {number}/{options.rounds}, {rate} calls/s, {name}: {result['cpu_us_per_call']:.0f} µs/call, "
                        f"ring p50 {result['ring_p50_us'] / 1e3:.2f} ms, failed {result['failed']}")
        found = {name: {rate: medians(results) for rate, results in by_rate.items()} for name, by_rate in runs.items()}
        print(table(rates, found))
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"runs": runs, "medians": found, "ratio": ratios(rates, found), "settings": vars(options)}, file, indent=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
