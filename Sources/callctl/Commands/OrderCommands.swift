internal import ArgumentParser
internal import CallBus
internal import CallTelemetry
internal import NATSBus

struct AuditCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit",
    abstract: "What operators ordered: who, when, what, and which node did it.",
    discussion: """
      Each node leaves a record before it carries an order out. OPERATOR is whose user of NATS gave \
      it. The newest come last; the oldest give way once the records take 16 MB.

        callctl audit --limit 1000
        callctl audit --json

      Exit status: 0 the records were read, also without any; 1 they cannot be read; 2 the cluster \
      cannot be reached.
      """)

  @Option(help: ArgumentHelp("The most records, 1 to \(ListQuery.limitMax).", valueName: "n"))
  var limit = ListQuery.limitStandard
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func validate() throws {
    try ListLength.check(limit)
  }

  func run() async throws {
    let records = try await cluster.withCluster { try await $0.audit(limit: limit) }
    try JSONOutput.print(records, asJSON: json, else: AuditText.render(records))
  }
}

/// The output of `callctl audit`.
enum AuditText {
  static func render(_ records: [AuditRecord]) -> String {
    guard !records.isEmpty else { return "No order has been given.\n" }
    let rows = records.map {
      let when = CalendarTime.text(milliseconds: $0.atMilliseconds)
      return [when, $0.operatorName, $0.order, $0.about, $0.node, $0.role]
    }
    let heading = ["WHEN", "OPERATOR", "ORDER", "ABOUT", "NODE", "ROLE"]
    return Columns.render([heading] + rows).joined(separator: "\n") + "\n"
  }
}

struct NATSPermissionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "nats-permissions",
    abstract:
      "Prints what each role may publish and subscribe to, for the configuration of NATS servers.",
    discussion: """
      The servers' configuration includes the file in its authorization; deploy/nats has whole \
      configurations, and the file as it is for a cluster named callmesh with an operator named admin. \
      Needs no cluster.

        callctl nats-permissions --operator ann --operator bob > /etc/nats/permissions.conf
      """)

  @Option(help: ArgumentHelp("The cluster's name. (default: callmesh)", valueName: "name"))
  var cluster = "callmesh"
  @Option(
    name: .customLong("operator"),
    help: ArgumentHelp(
      "An operator's user of NATS; once for each. (default: admin)", valueName: "name"))
  var operators: [String] = []

  func validate() throws {
    for name in [cluster] + operators {
      guard !name.isEmpty, Subjects.keyPart(name) == name.replacing("_", with: "_5f") else {
        throw ValidationError(
          "\"\(name)\" is no name: it is made of letters, digits, '-' and '_'.")
      }
    }
  }

  func run() throws {
    print(
      NATSPermissions.file(
        Subjects(cluster: cluster, shardCount: 1), lanes: ClusterView.pushLanes,
        operators: operators.isEmpty ? ["admin"] : operators), terminator: "")
  }
}
