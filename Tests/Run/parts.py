"""What `make test` and `make prove` run, and how: the jobs. A new suite needs no entry here; a new target whose tests
start processes is named in OF_PROCESSES."""

import os
import re
import subprocess
from dataclasses import replace

from jobs import Failure, Job

RELEASE = ".build/release"

# Swift Testing begins all tests at once. The width limits that, so that none waits long for a processor. With the same
# layout of dictionaries in each run, a world that fails once fails each time.
IN_PROCESS = (
    ("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", str(2 * (os.cpu_count() or 2))),
    ("SWIFT_DETERMINISTIC_HASHING", "1"),
)

# Targets without processes of their own that are large enough for a job of their own; the others share one.
LARGE = {
    "CallCoordinatorTests": dict(lane="waits", seconds=45),
    "CallEdgeTests": dict(seconds=30),
    "CallLoadTests": dict(seconds=100),
    "CallPushTests": dict(seconds=30),
}

# Each suite is a job, and what fails in one is run once more: servers and nodes are processes.
OF_PROCESSES = ["CallProcessesTests", "IntegrationTests", "NATSBusTests"]

# Suites that take longer than half a minute.
LONG = {"AfterTheCallTests": 60, "CallloadSlicesTests": 35, "CallloadTests": 90, "ClusterTests": 40,
        "NATSBusContractTests": 40, "PartitionTests": 45, "PushWakingTests": 35, "StoreCrashTests": 50}

# Suites that give this machine further network links. A browser then drops what it loads (ERR_NETWORK_CHANGED).
OF_NETWORKS = ["PartitionTests"]

# One test of each kind that needs a browser.
PHONE = [
    "test_calls.Talking.test_sound_and_pictures_flow_both_ways",
    "test_devices.Windows.test_one_answers_and_the_others_say_where",
    "test_devices.Handed.test_blind",
    "test_access.Heard.test_a_call_with_the_keyboard_alone",
    "test_looks.Looks.test_signing_in",
    "test_relays.Relayed.test_sound_and_pictures_through_coturn_alone",
    "test_push.Pushed.test_answered",
    "test_outages.Coordinators.test_the_coordinator_is_killed_in_mid_call",
]


PROCESSORS = os.cpu_count() or 2


def widths(lane, beside, to_come):
    """How many jobs of a lane run at a time, beside those of these lanes, and with those of these lanes to come."""
    if lane == "simulates":
        # Each runs two worlds at a time, at a lower priority than the rest.
        return 1 if {*beside, *to_come} - {lane} else PROCESSORS
    if lane == "waits":
        return 2 * PROCESSORS
    # Half of the processors are for those that wait, as long as there are any.
    return max(1, PROCESSORS // 2) if "waits" in {*beside, *to_come} else PROCESSORS


def alone(lane, beside, to_come):
    return 0 if beside else 1


# make test


def of_test(tests):
    return _clients(PHONE) + _of_bundle(tests)


def _clients(phone):
    program = f"{RELEASE}/webphone"
    return [
        Job("runner", script=("python3", "Tests/Run/test_run.py"), lane="waits", seconds=5),
        Job("web-client", script=("deploy/dev/web-test.sh",), real=True, seconds=25),
        Job(
            "conformance", script=("deploy/dev/conformance.sh", f"{RELEASE}/conformanceadapter", "--quiet"), real=True,
            seconds=60,
        ),
        Job(
            "phone", script=("clients/web/phone/test/run.sh", program, *phone), real=True, minutes=10,
            seconds=120, skip_status=77, apart="networks",
        ),
    ]


def _of_bundle(tests):
    jobs, rest = [], []
    for target in sorted({test.split(".")[0] for test in tests}):
        if target in OF_PROCESSES:
            suites = {test.split("/")[0] for test in tests if test.startswith(target + ".")}
            jobs += [_suite(suite) for suite in sorted(suites)]
        elif target == "CallSimulationTests":
            jobs += _simulations()
        elif target in LARGE:
            jobs.append(Job(target, f"^{target}\\.", environment=IN_PROCESS, **LARGE[target]))
        else:
            rest.append(target)
    jobs.append(Job("units", f"^({'|'.join(rest)})\\.", seconds=35, environment=IN_PROCESS))
    return jobs


def _suite(suite):
    target, name = suite.split(".")
    short = name if target == "IntegrationTests" else f"{target.removesuffix('Tests')}.{name}"
    apart = "networks" if name in OF_NETWORKS else ""
    return Job(
        short, f"^{suite}(/|$)", real=True, serial=True, lane="waits", seconds=LONG.get(name, 20), apart=apart,
    )


def _simulations():
    return [
        Job(
            "simulation", "^CallSimulationTests\\.(?!(CallSimTests|TrailTests)(/|$))", environment=IN_PROCESS, seconds=30,
        ),
        # Its nodes run in real time, and get no thread beside worlds.
        _suite("CallSimulationTests.TrailTests"),
        Job("seeds", r"^CallSimulationTests\.CallSimTests/\w+SeedsBreakNoRule", lane="simulates", minutes=40, seconds=400),
        Job("callsim", r"^CallSimulationTests\.CallSimTests/(?!\w+SeedsBreakNoRule)", lane="simulates", minutes=40,
            seconds=90),
    ]


def stray(test, names):
    why = f"{len(names)} jobs run it: {', '.join(names)}" if names else "no job runs it"
    return Failure(test, why + " (Tests/Run/parts.py)", "python3 Tests/Run test --list")


# make prove

# The second is the limit of the phone's tests.
PROVE = (("CALLMESH_PROVE", "1"), ("SECONDS_MAX", "1200"))

# The kinds of `callload --chaos`, each more often than by default, so that a short run has some.
CHAOS = [
    "kill-coordinator=5s", "freeze-coordinator=8s", "kill-edge=5s", "freeze-edge=8s", "kill-all-edges=15s",
    "kill-nats=10s", "freeze-nats=20s/1s-6s", "cut-nats=20s/1s-6s", "kill-all-nats=20s/1s-6s",
    "freeze-all-nats=20s/1s-6s", "cut-all-nats=20s/1s-6s", "freeze-all-edges=20s/5s", "kill-push=6s",
    "partition=8s", "rolling-restart=5s", "drain=6s/1s", "all",
]
SUITES_OF_CHAOS = "ChaosTests|EdgeAndNATSChaosTests|MixedChaosTests|SharedProcessChaosTests|OutageTests|PartitionTests"


def of_prove(tests, minutes):
    """Functions that return the jobs of each part, by its name, in the order in which the parts run."""
    bundle = [_proving(job) for job in _of_bundle(tests)]

    def named(pattern):
        return [job for job in bundle if re.fullmatch(pattern, job.name)]

    chosen = f"seeds|callsim|HostileTests|DocumentTests|{SUITES_OF_CHAOS}"
    return {
        "tests": lambda: [job for job in bundle if not re.fullmatch(chosen, job.name)],
        "seeds": lambda: [replace(job, lane="computes", minutes=60) for job in named("seeds|callsim")],
        "clients": lambda: [_proving(job) for job in _clients([])],
        "chaos": lambda: named(SUITES_OF_CHAOS),
        "chaos-1": lambda: [_load(f"chaos-1-{kind.split('=')[0]}", kind, 1) for kind in CHAOS],
        "chaos-3": lambda: [_load(f"chaos-3-{kind.split('=')[0]}", kind, 3) for kind in CHAOS],
        "attacks": lambda: named("HostileTests"),
        "documents": lambda: named("DocumentTests"),
        "newer": lambda: _newer(bundle),
        "former": lambda: [Job("former", script=("loadtest/beside-former.sh",), minutes=40, skip_status=77)],
        "fuzz": lambda: [Job("fuzz", script=("make", "fuzz", "MINUTES=5"), minutes=30)],
        "sanitize": lambda: [Job("sanitize", script=("make", "sanitize"), minutes=60)],
        "soak": lambda: [_soak(minutes)],
    }


def _proving(job):
    return replace(job, real=False, minutes=2 * job.minutes + 10, environment=job.environment + PROVE)


def _soak(minutes):
    command = ("make", "soak", f"MINUTES={minutes}")
    return Job("soak", script=command, minutes=2 * minutes + 10, environment=_newer_environment())


def _newer_environment():
    server = newer_server()
    return (("NATS_SERVER_NEWER", server),) if server else ()


def _load(name, chaos, servers):
    words = [
        f"{RELEASE}/callload", "--devices", "300", "--rate", "12", "--duration", "60s", "--chaos", chaos,
        "--nats-servers", str(servers), "--node-setting", "leaseTimeout=2s", "--webhooks", "--history",
    ]
    if chaos.startswith(("kill-push", "all")):
        words += ["--sleeping", "20%", "--push-gateways", "2"]
    if servers > 1 and (newer := newer_server()):
        words += ["--nats", newer]
    return Job(name, script=tuple(words), lane="waits", minutes=10, seconds=80)


def _newer(bundle):
    """What must hold on two versions of nats-server."""
    environment = _newer_environment()
    return [
        replace(job, name=job.name + ".newer", environment=job.environment + environment)
        for job in bundle
        if environment and job.name.startswith("NATSBus.")
    ]


_newer_server = None


def newer_server():
    """The path of a newer nats-server than Debian's; empty where it cannot be had (docs/reliability.md)."""
    global _newer_server
    if _newer_server is None:
        found = subprocess.run(["deploy/dev/nats-newer.sh"], capture_output=True, text=True)
        _newer_server = found.stdout.strip() if found.returncode == 0 else ""
    return _newer_server
