/// The devices of this callload, and the edges that they need. All methods throw ``SetupError`` that names option,
/// value and remedy.
extension LoadCommand {
  private static let edgesMax = 64
  /// Devices choose their edges at random, so some edges have a few more.
  private static let unevenness = 1.05

  /// The devices of this callload.
  /// - Parameter probes: connections beside those of the devices.
  func roster(_ files: FileLimit, probes: Int) throws -> Roster {
    let whole = Roster(devices: load.devices, devicesPerUser: load.devicesPerUser)
    try need(
      2 * load.slice.count <= whole.users, "--slice", load.slice,
      "a slice needs two users; give at most \(whole.users / 2) slices")
    let own = load.slice.roster(of: whole)
    if let refusal = files.refusal(devices: own.devices, probes: probes) {
      throw SetupError(refusal)
    }
    return own
  }

  /// The edges of the local cluster: as many as given, or two, or as many as the devices need when one is down.
  func edgeCount(_ files: FileLimit) throws -> Int {
    for (option, value) in [("--coordinators", local.coordinators), ("--edges", local.edges)] {
      guard let value, let nodes = local.nodes else { continue }
      throw SetupError(
        "--nodes \(nodes): does not go with \(option) \(value), since each node is an edge and a "
          + "coordinator; leave one of them out")
    }
    let most = files.connectionsMax
    let enough = Int((Double(load.devices) * Self.unevenness / Double(most)).rounded(.up))
    let advised = enough > 1 ? enough + 1 : 2
    let (option, given) = local.nodes.map { ("--nodes", $0) } ?? ("--edges", local.edges ?? advised)
    try need(
      given >= enough && given <= Self.edgesMax, option, given,
      "too few for \(Units.count(load.devices)) devices, of which an edge takes \(Units.count(most)) "
        + "(limit of open files \(Units.count(files.soft))); "
        + (advised <= Self.edgesMax
          ? "use \(option) \(advised), which is enough with one edge down"
          : "raise that limit, or ask for fewer devices"))
    return given
  }
}
