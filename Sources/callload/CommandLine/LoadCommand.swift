package import ArgumentParser

/// The command line as it was given. ``RunPlan`` makes sense of it.
package struct LoadCommand: ParsableCommand {
  package static let configuration = CommandConfiguration(
    commandName: "callload",
    abstract: "Puts devices and calls on a Callmesh cluster, and checks what each device was told.",
    discussion: """
      Without --edge it starts a cluster of its own on this machine (one nats-server, coordinators \
      and edges, each a process, on loopback), and stops it at the end. Every device is a real \
      client with a connection of its own. Calls arrive at a fixed rate whatever the cluster does, \
      and latencies count from when a call should have been placed.

      EXAMPLES
        callload --devices 100 --duration 5s
            A first look: a small cluster, a few seconds.
        callload --devices 10000
            10,000 devices of 3,334 users, 200 calls a second for 30 seconds.
        callload --devices 10000 --rate 500 --duration 2m --json run.json
            Longer and harder, with the figures in a file.
        callload --devices 3000 --find-max
            The highest rate that this machine holds.
        callload --devices 1000 --scenario answered --protocol json --seed 7
            Answered calls only, in JSON, and the same ones every time.
        callload --devices 300 --rate 20 --chaos kill-coordinator=5s,kill-edge=7s
            Processes of the cluster are killed while it works, and come back.
        callload --devices 300 --rate 20 --duration 1m --nats-servers 3 --chaos all --seed 7
            Every fault there is, on a replicated store, the same ones every time.
        callload --devices 3000 --sleeping 40%
            Four of ten devices have no session; the cluster must wake them.
        callload --devices 1000 --rate 50 --duration 10s --hostile each,all
            Attackers beside the load: one attack after the other, then all together.
        callload --devices 10000 --tls
            The same over wss://, with a certificate that the devices verify.
        callload --devices 3000 --edge ws://edge-1:8080 --edge ws://edge-2:8080 \\
                 --keys keys.json --app demo
            A cluster that is already there.

      CHAOS
        A fault comes every INTERVAL, a quarter more or less by the seed, and lasts LENGTH, or by the \
      seed between two lengths (kill-all-nats=20s/1s-15s). Calls are placed all the while.
      \(ChaosHelp.text)
        all                   all of them but drain, with their defaults
        Faults of a kind wait for a node whose like is well, where there are several. They stop \
      early enough for everything to settle before the end. The judge forgives that a fault makes \
      something late, or refused with "try again", by time and node, and never a wrong end.

      SLEEPING
        With --sleeping devices register push tokens and then let go of their connections. callload is \
      the provider, a strict APNs: what the cluster pushes wakes the device after --wake-delay; it \
      attaches for that call, rings, answers or declines, half of the refusals over HTTP with what the \
      push allows, and sleeps again when the call is over. Callers are awake. The apps are a mix of \
      SDKs, each with the payloads and the clean-up pushes that it knows.

      HOSTILE
        With --hostile the load runs once alone, then once beside each attack that is named; each run has \
      a cluster of its own. Attackers are a process of their own at a low priority, and have addresses of \
      their own (127.66.0.1 and up; the devices have 127.1.0.1 and up) and good tokens of users who are \
      not those of the load. An attack lasts --duration; the load goes on for --recovery. The rates are \
      those below, whatever the edges do, but no connection holds more than 256 kB unsent, and one that \
      the edge closed is opened again a second later.
      \(HostileHelp.text)
        each                all of them, one after the other
        all                 all of them at the same time
        The aim: no failure of the load, ring p99 at most twice that of the quiet run or 10 ms, no node \
      beyond twice its quiet memory, rings as quick as before within 10 s of the end of the attack. \
      With --edge only that cluster is attacked: give none but your own.

      EXIT STATUS
        0  all devices connected, all calls completed, every correctness count is 0
        1  something of that does not hold, or the aim under an attack is missed
        2  the run could not begin: wrong options, something missing
        130  ended by Ctrl-C or SIGTERM, after printing what is there
      """)

  @Option(help: "How many devices connect.")
  package var devices = 10_000

  @Option(help: "How many devices each user has; all of them ring.")
  package var devicesPerUser = 3

  @Option(help: "Calls placed per second.")
  package var rate: Double = 200

  @Option(
    help: ArgumentHelp(
      "How long calls are placed, such as 30s or 2m. (default: 30s)", valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var duration: RunDuration = RunDuration(seconds: 30)

  @Option(
    help: ArgumentHelp(
      "Connections begun per second. Default: as fast as the edges answer.", valueName: "rate"))
  package var ramp: Double?

  @Option(
    help: ArgumentHelp(
      "Built-in scenario or scenario file; loadtest/scenarios describes both.",
      valueName: "name|file"))
  package var scenario = "default"

  @Option(
    help: ArgumentHelp(
      "Each side of every call sends so many numbered candidates, half of them while it rings. "
        + "Default: a few in some calls.", valueName: "count"))
  package var signals = 0

  @Option(
    help: ArgumentHelp(
      "The devices of so many users attach and do not register, such as 50%. (default: 0%)",
      valueName: "share"),
    transform: { try Share.parse($0) })
  package var unregistered: Share = Share(value: 0)

  @Option(help: "What the devices speak: pb (protobuf) or json.")
  package var `protocol`: WireProtocol = .pb

  @Option(help: "Decides who calls whom, when, and what happens then. Default: random.")
  package var seed: UInt64?

  @Option(
    help: ArgumentHelp(
      "Use this edge, not a cluster of our own. Repeatable. Needs --keys.", valueName: "url"))
  package var edge: [String] = []

  @Flag(help: "Devices of the local cluster connect over TLS, and verify the edges' certificate.")
  package var tls = false

  @Option(
    help: ArgumentHelp(
      "With --edge wss://…: the authorities that devices trust, in PEM. Default: the machine's.",
      valueName: "file"))
  package var ca: String?

  @Option(help: ArgumentHelp("The key file of the edges, to sign tokens with.", valueName: "file"))
  package var keys: String?

  @Option(help: "The app in the key file that the devices belong to.")
  package var app: String?

  @Option(
    help: ArgumentHelp(
      "How long the devices' tokens are good; they are renewed before they expire. (default: 48h)",
      valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var tokenLifetime: RunDuration = RunDuration(seconds: 2 * 86_400)

  @Option(help: "Coordinators of the local cluster.")
  package var coordinators = 2

  @Option(help: "Edges of the local cluster.")
  package var edges = 2

  @Option(
    help: ArgumentHelp(
      "nats-servers of the local cluster: 1, or 3 that keep each record three times.",
      valueName: "1|3"))
  package var natsServers = 1

  @Option(help: "Shards of the local cluster.")
  package var shards = 64

  @Option(
    help: ArgumentHelp(
      "A setting of all nodes of the local cluster, as docs/configuration.md names it, such as "
        + "leaseTimeout=2s. Repeatable.", valueName: "key=value"))
  package var nodeSetting: [String] = []

  @Option(
    help: ArgumentHelp(
      "Injects faults into the local cluster: KIND, KIND=INTERVAL or KIND=INTERVAL/LENGTH, several "
        + "by commas or by repeating the option. See CHAOS above.", valueName: "spec"))
  package var chaos: [String] = []

  @Option(
    help: ArgumentHelp(
      "Attacks to play beside the load: names, each or all, several by commas or by repeating the "
        + "option. See HOSTILE above.", valueName: "names"))
  package var hostile: [String] = []

  @Option(
    help: "Apps of the cluster. 2: the second is hostile, which is --hostile app-flood.")
  package var apps = 1

  @Option(
    help: ArgumentHelp(
      "How long the load goes on after an attack. (default: 10s)", valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var recovery: RunDuration = RunDuration(seconds: HostilePlan.recoverySecondsMax)

  /// What the attackers' process is started with.
  @Option(help: .hidden)
  package var attackOrders: String?

  @Option(
    help: ArgumentHelp(
      "So many of the devices have no session and are woken by pushes, such as 40%. The local "
        + "cluster then has push gateways, and callload plays the provider. See SLEEPING above.",
      valueName: "share"),
    transform: { try Share.parse($0) })
  package var sleeping: Share?

  @Option(
    help: ArgumentHelp(
      "From a push at the provider until the device connects; half of them take longer. "
        + "(default: 300ms)", valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var wakeDelay: RunDuration = RunDuration(seconds: 0.3)

  @Option(
    help: ArgumentHelp(
      "So many of the pushes wake nobody. (default: 2%)", valueName: "share"),
    transform: { try Share.parse($0) })
  package var neverWake: Share = Share(value: 0.02)

  @Option(
    help: ArgumentHelp(
      "So many of the pushes wake a device only when the call is over. (default: 2%)",
      valueName: "share"),
    transform: { try Share.parse($0) })
  package var lateWake: Share = Share(value: 0.02)

  @Option(help: "Push gateways of the local cluster, where devices sleep.")
  package var pushGateways = 1

  @Option(
    help: ArgumentHelp(
      "Say in one line how things stand, each time that so much has passed. Default: never.",
      valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var summary: RunDuration?

  @Flag(
    help:
      "Fail where memory of a process or the store of the local cluster trends up; give 2m or more."
  )
  package var checkGrowth = false

  @Option(help: ArgumentHelp("nats-server program. Default: found in PATH.", valueName: "path"))
  package var nats: String?

  @Option(
    help: ArgumentHelp("callnode program. Default: beside this one.", valueName: "path"))
  package var callnode: String?

  @Option(
    help: ArgumentHelp(
      "With --chaos: another version of callnode. A node that is started again runs it, and the first one the next time: an upgrade, and the way back, under load.",
      valueName: "path"))
  package var otherCallnode: String?

  @Option(help: ArgumentHelp("Write the report as JSON.", valueName: "file"))
  package var json: String?

  @Option(
    help: ArgumentHelp(
      "Write the percentile distributions in HdrHistogram's text form.", valueName: "file"))
  package var hgrm: String?

  @Flag(help: "Search for the highest rate that holds, from --rate, in stages of --stage.")
  package var findMax = false

  @Option(
    help: ArgumentHelp("Length of a stage of --find-max. (default: 8s)", valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var stage: RunDuration = RunDuration(seconds: 8)

  @Option(
    help: ArgumentHelp(
      "With --find-max: a rate holds only with p99 of ring at most this. (default: 25ms)",
      valueName: "time"),
    transform: { try RunDuration.parse($0) })
  package var ringP99Max: RunDuration = RunDuration(seconds: 0.025)

  @Flag(help: "Keep the local cluster's store and logs, and say where they are.")
  package var keep = false

  @Flag(help: "Say each step.")
  package var verbose = false

  package init() {}
}

package enum WireProtocol: String, CaseIterable, ExpressibleByArgument, Sendable {
  case pb, json
}

/// A part of all, as it stands on the command line.
package struct Share: Sendable, Equatable, CustomStringConvertible {
  /// 0 to 1.
  package var value: Double
  package init(value: Double) { self.value = value }

  /// "40%" or "0.4".
  package static func parse(_ text: String) throws -> Share {
    let isPercent = text.hasSuffix("%")
    if let number = Double(isPercent ? text.dropLast() : text[...]), number.isFinite {
      let value = isPercent ? number / 100 : number
      if (0...1).contains(value) { return Share(value: value) }
    }
    throw ValidationError("\"\(text)\" is not a share; write it like 40% or 0.4")
  }

  package var description: String { "\(Units.trimmed(value * 100, 2))%" }
}

/// A length of time as it stands on the command line.
package struct RunDuration: Sendable, Equatable {
  package var seconds: Double
  package init(seconds: Double) { self.seconds = seconds }

  /// "30s", "2m", "1h", "250ms", or a bare number of seconds.
  package static func parse(_ text: String) throws -> RunDuration {
    let units: [(suffix: String, seconds: Double)] = [
      ("ms", 0.001), ("s", 1), ("m", 60), ("h", 3_600), ("", 1),
    ]
    for unit in units where text.hasSuffix(unit.suffix) {
      guard let number = Double(text.dropLast(unit.suffix.count)), number.isFinite, number > 0
      else { continue }
      return RunDuration(seconds: number * unit.seconds)
    }
    throw ValidationError("\"\(text)\" is not a length of time; write it like 30s, 2m or 250ms")
  }
}

extension RunDuration: CustomStringConvertible {
  package var description: String {
    seconds < 1
      ? "\(Units.trimmed(seconds * 1_000, 3))ms" : "\(Units.trimmed(seconds, 3))s"
  }
}

/// The lines of the help that describe faults.
enum ChaosHelp {
  static var text: String {
    ChaosKind.allCases.map { kind in
      let name = kind.rawValue.padding(to: 20)
      let interval = RunDuration(seconds: kind.defaultIntervalSeconds)
      return "  \(name)  \(kind.summary) (\(interval)/\(ChaosPlan.Entry(kind).lengthText))"
    }.joined(separator: "\n")
  }
}

extension String {
  fileprivate func padding(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}
