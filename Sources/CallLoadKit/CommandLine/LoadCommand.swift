package import ArgumentParser

package struct LoadCommand: ParsableCommand, Sendable {
  package static let configuration = CommandConfiguration(
    commandName: "callload",
    abstract: "Puts devices and calls on a Callmesh cluster, and checks what each device was told.",
    usage: """
      callload [OPTIONS]
      callload merge REPORT... [--json FILE]
      """, discussion: LoadHelp.text)

  @OptionGroup(title: "Load") package var load: LoadArguments
  @OptionGroup(title: "A cluster of its own") package var local: LocalArguments
  @OptionGroup(title: "A cluster that is there") package var remote: RemoteArguments
  @OptionGroup(title: "What is judged beside calls") package var judged: JudgedArguments
  @OptionGroup(title: "Trouble") package var trouble: TroubleArguments
  @OptionGroup(title: "Reports") package var output: OutputArguments

  package init() {}
}

package struct LoadArguments: ParsableArguments, Sendable {
  @Option(help: "How many devices connect.") package var devices = 10_000

  @Option(help: "How many devices each user has; all of them ring.") package var devicesPerUser = 3

  @Option(help: "Calls placed per second.") package var rate: Double = 200

  @Option(
    help: ArgumentHelp(
      "How long calls are placed, such as 30s or 2m. (default: 30s)", valueName: "time"),
    transform: RunDuration.parse) package var duration = RunDuration(seconds: 30)

  @Option(
    help: ArgumentHelp(
      "Built-in scenario or scenario file; loadtest/scenarios describes both.",
      valueName: "name|file")) package var scenario = "default"

  @Option(help: "Decides who calls whom, when, and what happens then. Default: random.")
  package var seed: UInt64?

  @Option(help: "What the devices speak: pb (protobuf) or json.")
  package var `protocol`: WireProtocol = .pb

  @Option(
    help: ArgumentHelp(
      "Before the first call, measure for this long what the connected devices cost the servers. "
        + "Default: not at all.", valueName: "time"), transform: RunDuration.parse)
  package var idle: RunDuration?

  @Flag(help: "Search for the highest rate that holds, from --rate.") package var findMax = false

  @Option(
    help: ArgumentHelp(
      "This callload has one of so many slices of the devices and calls, such as 2/3. See MANY "
        + "DEVICES above.", valueName: "i/n"), transform: LoadSlice.parse)
  package var slice = LoadSlice()

  @Option(
    help: ArgumentHelp(
      "An empty folder in which slices on one machine wait for each other. Without --edge the first "
        + "one starts the cluster of all.", valueName: "folder")) package var meet: String?

  @Option(
    help: ArgumentHelp(
      "Length of a stage of --find-max. (default: 8s)", valueName: "time", visibility: .hidden),
    transform: RunDuration.parse) package var stage = RunDuration(seconds: 8)

  @Option(
    help: ArgumentHelp(
      "With --find-max: a rate holds only with p99 of ring at most this. (default: 25ms)",
      valueName: "time", visibility: .hidden), transform: RunDuration.parse)
  package var ringP99Max = RunDuration(seconds: 0.025)

  @Option(
    help: ArgumentHelp(
      "A device that loses its edge connects again at a random moment of this span. (default: 1s)",
      valueName: "time", visibility: .hidden), transform: RunDuration.parse)
  package var reconnectSpread: RunDuration?

  @Option(
    help: ArgumentHelp(
      "Each side of every call sends so many numbered candidates, half of them while it rings. "
        + "Default: a few in some calls.", valueName: "count", visibility: .hidden))
  package var signals = 0

  @Option(
    help: ArgumentHelp(
      "The devices of so many users attach and do not register, such as 50%. (default: 0%)",
      valueName: "share", visibility: .hidden), transform: Share.parse)
  package var unregistered = Share(value: 0)

  package init() {}
}

package struct LocalArguments: ParsableArguments, Sendable {
  @Option(help: "Coordinators. (default: 2)") package var coordinators: Int?

  @Option(help: "Edges. (default: 2, or as many as the devices need with one down)")
  package var edges: Int?

  @Option(
    help:
      "Nodes, each an edge and a coordinator in one process, in place of --coordinators and --edges."
  ) package var nodes: Int?

  @Flag(
    help:
      "With --nodes: devices move to the node that owns their user's shard, before the load and when shards move."
  ) package var nearer = false

  @Option(
    help: ArgumentHelp(
      "nats-servers: 1, or 3 that keep each record three times.", valueName: "1|3"))
  package var natsServers = 1

  @Option(help: "Shards.") package var shards = 64

  @Flag(help: "Devices connect over TLS, and verify the edges' certificate.")
  package var tls = false

  @Option(
    help: ArgumentHelp(
      "A setting of all nodes, as docs/configuration.md names it, such as leaseTimeout=2s. "
        + "Repeatable.", valueName: "key=value")) package var nodeSetting: [String] = []

  @Option(help: ArgumentHelp("nats-server program. Default: found in PATH.", valueName: "path"))
  package var nats: String?

  @Option(help: ArgumentHelp("callnode program. Default: beside this one.", valueName: "path"))
  package var callnode: String?

  @Flag(help: "Keep the store and logs, and say where they are.") package var keep = false

  package init() {}
}

package struct RemoteArguments: ParsableArguments, Sendable {
  @Option(
    help: ArgumentHelp("Use this edge. Repeatable. Needs --keys.", valueName: "url"))
  package var edge: [String] = []

  @Option(help: ArgumentHelp("The key file of the edges, to sign tokens with.", valueName: "file"))
  package var keys: String?

  @Option(help: "The app in the key file that the devices belong to.") package var app: String?

  @Option(
    help: ArgumentHelp(
      "With --edge wss://…: the authorities that devices trust, in PEM. Default: the machine's.",
      valueName: "file")) package var ca: String?

  package init() {}
}

package struct JudgedArguments: ParsableArguments, Sendable {
  @Option(
    help: ArgumentHelp(
      "So many of the devices have no session and are woken by pushes, such as 40%. The local "
        + "cluster then has push gateways, and callload plays the provider. See SLEEPING above.",
      valueName: "share"), transform: Share.parse) package var sleeping: Share?

  @Option(help: "Push gateways of the local cluster, where devices sleep or the app has a webhook.")
  package var pushGateways = 1

  @Flag(
    help:
      "The app of the local cluster has a webhook at callload, also with other scenarios than default, which judges the events of every call. See WEBHOOKS AND HISTORIES above."
  ) package var webhooks = false

  @Flag(
    help:
      "The app of the local cluster keeps its users' histories, also with other scenarios than default; some users read theirs at the end, and they are judged."
  ) package var history = false

  @Flag(
    help:
      "The apps of the local cluster have a hook: callload is the server that is asked about each call, and devices must be told what it says. See THE APP above."
  ) package var hook = false

  @Flag(
    help:
      "The app of the local cluster shows users the calls that they are in, and all devices look. See THE APP above."
  ) package var ongoing = false

  @Flag(
    help:
      "Reads the journal of the local cluster, and judges its records together with what devices received. Always with --chaos; takes processors from the servers."
  ) package var journal = false

  @Flag(
    help: ArgumentHelp(
      "The provider has trouble: it answers one push in five with an error for the moment, forgets good tokens in a wave, and one sleeping device in ten has registered the wrong environment, or none. Needs --sleeping.",
      visibility: .hidden)) package var providerTrouble = false

  package init() {}
}

package struct TroubleArguments: ParsableArguments, Sendable {
  @Option(
    help: ArgumentHelp(
      "Injects faults into the local cluster: KIND, KIND=INTERVAL or KIND=INTERVAL/LENGTH, several "
        + "by commas or by repeating the option. See CHAOS above.", valueName: "spec"))
  package var chaos: [String] = []

  @Option(
    help: ArgumentHelp(
      "With --chaos: another version of callnode. A node that is started again runs it, and the first one the next time: an upgrade, and the way back, under load. The other version must know rules of users.",
      valueName: "path")) package var otherCallnode: String?

  @Option(
    help: ArgumentHelp(
      "Attacks to play beside the load: names, each or all, several by commas or by repeating the "
        + "option. See HOSTILE above.", valueName: "names")) package var hostile: [String] = []

  @Option(help: "Apps of the cluster. 2: the second is hostile, which is --hostile app-flood.")
  package var apps = 1

  @Option(
    help: ArgumentHelp(
      "How long the load goes on after an attack. (default: 10s)", valueName: "time",
      visibility: .hidden), transform: RunDuration.parse)
  package var recovery = RunDuration(seconds: HostilePlan.recoverySecondsMax)

  package init() {}
}

package struct OutputArguments: ParsableArguments, Sendable {
  @Option(
    help: ArgumentHelp(
      "Write the report as JSON; loadtest/plot.py draws it, and callload merge adds slices up.",
      valueName: "file")) package var json: String?

  @Option(
    help: ArgumentHelp(
      "Write the percentile distributions in HdrHistogram's text form.", valueName: "file"))
  package var hgrm: String?

  @Option(
    help: ArgumentHelp(
      "Say in one line how things stand, each time that so much has passed. Default: never.",
      valueName: "time"), transform: RunDuration.parse) package var summary: RunDuration?

  @Flag(
    help:
      "Fail where memory of a process or the store of the local cluster trends up; give 2m or more."
  ) package var checkGrowth = false

  @Flag(help: "Say each step.") package var verbose = false

  package init() {}
}

package enum WireProtocol: String, CaseIterable, ExpressibleByArgument, Sendable {
  case pb, json
}

package struct Share: Sendable, Equatable, CustomStringConvertible {
  /// 0 to 1.
  package var value: Double

  /// Reads "40%" or "0.4".
  /// - Throws: `ValidationError` for any other text.
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

package struct RunDuration: Sendable, Equatable, CustomStringConvertible {
  package var seconds: Double

  /// Reads "30s", "2m", "1h", "250ms", or a bare number of seconds.
  /// - Throws: `ValidationError` for any other text.
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

  package var description: String {
    seconds < 1 ? "\(Units.trimmed(seconds * 1_000, 3))ms" : "\(Units.trimmed(seconds, 3))s"
  }
}
