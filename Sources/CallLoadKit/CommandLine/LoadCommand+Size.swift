/// How many processes the devices need, of callload and of the cluster. All methods throw ``SetupError`` that
/// names option, value and remedy.
extension LoadCommand {
  private static let processesMax = 64
  private static let edgesMax = 64
  /// Devices choose their edges at random, so some edges have a few more.
  private static let unevenness = 1.05

  /// The devices of each process: as few processes as the limit of open files allows, unless `--processes` says
  /// more.
  func parts(_ files: FileLimit, probes: Int) throws -> [LoadPart] {
    let users = Roster(devices: devices, devicesPerUser: devicesPerUser).users
    // Other users are in other processes, and a call has two.
    let usersMax = max(files.devicesMax - probes, 0) / devicesPerUser
    let enough = usersMax >= 2 ? (users + usersMax - 1) / usersMax : .max
    if let refusal = files.refusal(devices: devices), enough > Self.processesMax || !mayBeSeveral {
      throw SetupError(mayBeSeveral ? refusal : "\(needsOneProcess): \(refusal)")
    }
    guard let processes else { return split(enough) }
    try need(
      (1...Self.processesMax).contains(processes) && processes <= max(users / 2, 1), "--processes",
      processes, "give 1 to \(Self.processesMax), and two users or more for each")
    try need(
      processes == 1 || mayBeSeveral, "--processes", processes,
      "does not go with \(needsOneProcess)")
    try need(
      processes >= enough, "--processes", processes,
      "too few for \(Units.count(devices)) devices, of which one can have "
        + "\(Units.count(files.devicesMax - probes)) (limit of open files \(Units.count(files.soft))); "
        + "give at least \(enough), or leave it out")
    return split(processes)
  }

  private func split(_ count: Int) -> [LoadPart] {
    LoadPart.split(devices: devices, devicesPerUser: devicesPerUser, count: count)
  }

  private var mayBeSeveral: Bool { sleeping?.value ?? 0 == 0 && hostile.isEmpty && apps == 1 }

  private var needsOneProcess: String {
    sleeping?.value ?? 0 > 0
      ? "--sleeping, where callload is the provider of devices in its own process"
      : "--hostile, which compares the load of one process"
  }

  /// The edges of the local cluster: as many as given, or two, or as many as the devices need when one is down.
  func edgeCount(_ files: FileLimit) throws -> Int {
    for (option, value) in [("--coordinators", coordinators), ("--edges", edges)] {
      guard let value, let nodes else { continue }
      throw SetupError(
        "--nodes \(nodes): does not go with \(option) \(value), since each node is an edge and a "
          + "coordinator; leave one of them out")
    }
    let most = files.connectionsMax
    let enough = Int((Double(devices) * Self.unevenness / Double(most)).rounded(.up))
    let advised = enough > 1 ? enough + 1 : 2
    let (option, given) = nodes.map { ("--nodes", $0) } ?? ("--edges", edges ?? advised)
    try need(
      given >= enough && given <= Self.edgesMax, option, given,
      "too few for \(Units.count(devices)) devices, of which an edge takes \(Units.count(most)) "
        + "(limit of open files \(Units.count(files.soft))); "
        + (advised <= Self.edgesMax
          ? "use \(option) \(advised), which is enough with one edge down"
          : "raise that limit, or ask for fewer devices"))
    return given
  }
}
