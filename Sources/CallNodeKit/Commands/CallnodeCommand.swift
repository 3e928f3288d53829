internal import ArgumentParser
internal import CallTelemetry

struct CallnodeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "callnode",
    abstract: "Runs a node of a Callmesh cluster.",
    discussion: """
      A cluster is one or more edges, which devices connect to, one or more coordinators, which \
      decide about calls, and push gateways, which wake devices that sleep. They find each other \
      on NATS (with JetStream on).

      On a laptop:
        nats-server -js &
        callctl keys --app demo --keys-file keys.json
        callnode all --keys-file keys.json

      Every option is also an environment variable (--nats-url is CALLMESH_NATS_URL) and a key of \
      the JSON file given with --config (natsUrl). A flag counts before the environment, the \
      environment before the file. 'callnode config' shows what is in force.
      """,
    version: CallmeshVersion.current,
    subcommands: [
      EdgeCommand.self, CoordinatorCommand.self, PushCommand.self, AllCommand.self,
      ConfigCommand.self,
    ])
}

struct EdgeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "edge",
    abstract: "Ends device connections: WebSocket and HTTP on one port. Any number, stateless.",
    discussion: "Example: callnode edge --keys-file keys.json --host 0.0.0.0 --port 8080")

  @OptionGroup(title: "Every node") var file: FileOption
  @OptionGroup(title: "Every node") var node: NodeOptions
  @OptionGroup(title: "Edge and coordinator") var keys: KeysOptions
  @OptionGroup(title: "Edge") var edge: EdgeOptions
  @OptionGroup(title: "Rules of calls, the same on every node") var calls: CallOptions

  func run() async throws {
    try await launch(.edge, file, node.given, keys.given, edge.given, calls.given)
  }
}

struct CoordinatorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "coordinator",
    abstract: "Owns shards and decides about their calls. Two or more share the shards.",
    discussion: "Example: callnode coordinator --keys-file keys.json --journal-replicas 3")

  @OptionGroup(title: "Every node") var file: FileOption
  @OptionGroup(title: "Every node") var node: NodeOptions
  @OptionGroup(title: "Edge and coordinator") var keys: KeysOptions
  @OptionGroup(title: "Coordinator") var coordinator: CoordinatorOptions
  @OptionGroup(title: "Rules of calls, the same on every node") var calls: CallOptions

  func run() async throws {
    try await launch(.coordinator, file, node.given, keys.given, coordinator.given, calls.given)
  }
}

struct PushCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "push",
    abstract: "Sends pushes to APNs, FCM and Web Push. Any number, stateless.",
    discussion: """
      Takes jobs from a queue that all gateways share: start two, and either may die. Keys are \
      read again when their files change, and on SIGHUP.

      'callnode config --role push' checks the file of providers and every key, and starts nothing.

      With a file of keys it also delivers to the webhooks of apps, or, without providers, to these alone.

      Examples: callnode push --push-providers push.json --metrics-port 9090
                callnode push --keys-file keys.json
      """)

  @OptionGroup(title: "Every node") var file: FileOption
  @OptionGroup(title: "Every node") var node: NodeOptions
  @OptionGroup(title: "Webhooks") var keys: KeysOptions
  @OptionGroup(title: "Push gateway") var push: PushOptions
  @OptionGroup(title: "Rules of calls, the same on every node") var calls: CallOptions

  func run() async throws {
    try await launch(.push, file, node.given, keys.given, push.given, calls.given)
  }
}

struct AllCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "all",
    abstract: "An edge, a coordinator and a push gateway in one process.",
    discussion: """
      With --bus in-process it needs no NATS and keeps everything in memory: for a first try and \
      for writing a client. What it holds is gone when it ends. The push gateway runs where \
      --push-providers names its file.

      Example: callnode all --bus in-process --keys-file keys.json
      """)

  @Option(
    name: .customLong("bus"),
    help: "nats, or in-process: one process, in memory, for development. (default: nats)")
  var bus: BusChoice?
  @OptionGroup var options: AllOptions

  func run() async throws {
    try await NodeLauncher(
      roles: .all, bus: bus ?? .nats, flags: options.given, file: options.file.path
    ).run()
  }
}

struct ConfigCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "config",
    abstract: "Prints the settings in force and where each comes from.",
    discussion: """
      Takes the same options, environment and file as the nodes do, checks them, and starts \
      nothing. With --role it also reads the files that this role needs: the keys of an edge or coordinator, the \
      providers and their keys of a push gateway. Exit status 2 where a node would refuse to start. \
      Credentials are hidden.

      Example: callnode config --role edge --config /etc/callmesh/callmesh.json
      """)

  @Flag(help: "One JSON array in place of the table.") var json = false
  @Option(help: "Also check what this role needs: edge, coordinator, push or all.") var role:
    NodeRoles?
  @OptionGroup var options: AllOptions

  func run() async throws {
    let (flags, file) = (options.given, options.file.path)
    let settings =
      if let role {
        try await NodeLauncher(roles: role, bus: .nats, flags: flags, file: file).check()
      } else {
        try NodeLauncher.check(flags: flags, file: file)
      }
    let text = try json ? ConfigurationReport.json(settings) : ConfigurationReport.text(settings)
    print(text, terminator: "")
  }
}

struct AllOptions: ParsableArguments {
  @OptionGroup(title: "Every node") var file: FileOption
  @OptionGroup(title: "Every node") var node: NodeOptions
  @OptionGroup(title: "Edge and coordinator") var keys: KeysOptions
  @OptionGroup(title: "Edge") var edge: EdgeOptions
  @OptionGroup(title: "Coordinator") var coordinator: CoordinatorOptions
  @OptionGroup(title: "Push gateway") var push: PushOptions
  @OptionGroup(title: "Rules of calls, the same on every node") var calls: CallOptions

  var given: [SettingKey: String] {
    merged([node.given, keys.given, edge.given, coordinator.given, push.given, calls.given])
  }
}

enum BusChoice: String, CaseIterable, ExpressibleByArgument {
  case nats
  case inProcess = "in-process"
}

extension NodeRoles: ExpressibleByArgument {}

/// Runs a node of one role on NATS.
private func launch(
  _ roles: NodeRoles, _ file: FileOption, _ groups: [SettingKey: String]...
) async throws {
  try await NodeLauncher(roles: roles, bus: .nats, flags: merged(groups), file: file.path).run()
}

private func merged(_ groups: [[SettingKey: String]]) -> [SettingKey: String] {
  groups.reduce(into: [:]) { $0.merge($1) { _, new in new } }
}
