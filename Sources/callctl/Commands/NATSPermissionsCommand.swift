internal import ArgumentParser
internal import CallBus
internal import NATSBus

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
