package import CallAuth
package import CallClient
import FoundationEssentials

package struct RunPlan: Sendable {
  package enum Target: Sendable {
    case local(LocalClusterOptions)
    case edges([String], keys: AppKeys, app: String)
  }
  package let command: LoadCommand
  package var target: Target
  package var settings: RunSettings
  package var scenario: Scenario
  /// The devices of this callload.
  package var roster: Roster
  package var search: Search?
  package var chaos: ChaosPlan?
  package var sleep: SleepOptions?
  package var hostile: HostilePlan?
  package var slice: LoadSlice { command.load.slice }
  /// nil where no other slice is waited for.
  package var meeting: Meeting? {
    command.load.meet.map { Meeting(folder: $0, slice: slice) }
  }
  /// Whether the journal of the local cluster is read and judged together with what devices received.
  package var readsJournal: Bool {
    remoteEdges.isEmpty && (chaos != nil || command.judged.journal) && slice.count == 1
      && search == nil && hostile == nil
  }
  private var remoteEdges: [String] { command.remote.edge }
  /// The authorities that devices trust, with `--edge`.
  package var trust = EdgeTrust.system

  package struct Search: Sendable {
    package var stageSeconds: Double
    /// Microseconds.
    package var ringP99Max: UInt64
  }

  /// - Parameter files: the limit of this process and its children.
  /// - Throws: ``SetupError`` that names option, value and remedy.
  package init(
    _ command: LoadCommand, seed: UInt64, files: FileLimit = FileLimit(soft: 1 << 20, hard: 1 << 20)
  ) throws {
    self.command = command
    try command.check()
    try command.checkApp()
    try command.checkSlice()
    scenario = try Scenario(argument: command.load.scenario)
    chaos = try command.chaosPlan(scenario)
    sleep = try command.sleepOptions()
    hostile = try command.hostilePlan()
    trust = try command.trust()
    if command.load.findMax {
      search = Search(
        stageSeconds: command.load.stage.seconds,
        ringP99Max: UInt64(min(command.load.ringP99Max.seconds, 1e6) * 1e6))
    }
    settings = RunSettings()
    settings.devices = command.load.devices
    settings.devicesPerUser = command.load.devicesPerUser
    settings.callsPerSecond = command.load.rate
    settings.durationSeconds =
      (command.load.findMax ? command.load.stage : command.load.duration).seconds
    settings.scenario = scenario.name
    settings.protocolName = command.load.protocol.rawValue
    settings.seed = seed
    settings.webhooks = command.hasWebhooks(scenario)
    settings.history = command.readsHistories(scenario)
    (settings.ongoing, settings.hook) = (command.judged.ongoing, command.judged.hook)
    if let hostile {
      settings.durationSeconds = hostile.attackSeconds + hostile.recoverySeconds
      settings.attacks = hostile.rounds.map(\.name).joined(separator: ",")
    }
    if command.remote.edge.isEmpty {
      let options = try command.localCluster(
        scenario, chaos: chaos, sleep: sleep, hostile: hostile, files: files)
      target = .local(options)
      roster = try command.roster(
        files, probes: chaos == nil ? 0 : options.shards * options.edges)
      settings.nodes = options.nodes
      settings.nearer = options.nearer
      if options.nodes == 0 {
        (settings.coordinators, settings.edges) = (options.coordinators, options.edges)
      }
      settings.tls = options.tls
      settings.natsServers = options.natsServers
      settings.pushGateways = options.pushGateways
      settings.sleepingShare = sleep?.share ?? 0
      settings.chaos = chaos?.description ?? ""
      settings.otherCallnode = options.otherCallnodePath
    } else {
      settings.edgeURLs = try command.remote.edge.map(Self.edgeURL)
      let (keys, app) = try command.edgeKeys()
      target = .edges(settings.edgeURLs, keys: keys, app: app)
      roster = try command.roster(files, probes: 0)
      if hostile?.needsOtherApp == true, keys.appNames.count < 2 {
        throw SetupError(
          "--hostile app-flood: needs a second app in --keys \(command.remote.keys ?? ""); add one")
      }
    }
    settings.processes = slice.count
    settings.slice = slice.count > 1 ? slice.number : nil
    for path in [command.output.json, command.output.hgrm] {
      if let path { try Self.checkWritable(path) }
    }
  }

  /// `ws://host:port` or `wss://host:port`, also for `http://` and `https://`; without a scheme `ws`.
  /// - Throws: ``SetupError`` for any other text.
  package static func edgeURL(_ text: String) throws -> String {
    var rest = text[...]
    var scheme = "ws://"
    for (given, meant) in [
      ("ws://", "ws://"), ("http://", "ws://"), ("wss://", "wss://"), ("https://", "wss://"),
    ] where text.hasPrefix(given) {
      rest = text.dropFirst(given.count)
      scheme = meant
    }
    let authority = rest.prefix { $0 != "/" }
    guard let colon = authority.lastIndex(of: ":"), colon != authority.startIndex,
      let port = UInt16(authority[authority.index(after: colon)...]), port > 0,
      !rest.contains("://")
    else { throw SetupError("--edge \(text): give it as ws://host:port or wss://host:port") }
    return scheme + (rest.hasSuffix("/") ? rest.dropLast() : rest)
  }

  /// Checked before the run, since the report is written after it.
  static func checkWritable(_ path: String) throws {
    let existed = FileManager.default.fileExists(atPath: path)
    guard
      existed
        ? FileManager.default.isWritableFile(atPath: path)
        : FileManager.default.createFile(atPath: path, contents: nil)
    else { throw SetupError("\(path): cannot be written; choose another file") }
    if !existed { try? FileManager.default.removeItem(atPath: path) }
  }
}

extension Scenario {
  /// - Parameter text: a built-in scenario's name, or the path of a file.
  /// - Throws: ``SetupError`` that names option, value and remedy.
  init(argument text: String) throws {
    if let builtIn = Scenario.named(text) {
      self = builtIn
      return
    }
    guard FileManager.default.fileExists(atPath: text) else {
      throw SetupError(
        "--scenario \(text): neither a built-in scenario nor a file; built in are "
          + Scenario.builtInNames.joined(separator: ", "))
    }
    do {
      self = try Scenario.load(path: text)
    } catch {
      throw SetupError("--scenario \(text): \(error)")
    }
  }
}
