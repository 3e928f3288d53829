internal import CallCore
internal import CallTelemetry
internal import Logging

/// What coordinators log of calls: each fact once, by the node whose append the journal took.
extension Logger {
  /// Logs facts that the journal has. Milestones at `debug`, the rest at `trace`; nothing of
  /// descriptions, candidates and tokens.
  func logFacts(_ entries: [JournalEntry], shard: Int, epoch: UInt64) {
    guard logLevel <= .debug else { return }
    for entry in entries {
      guard let line = CallLogLine(entry.change), logLevel <= line.level else { continue }
      var metadata = Metadata.keys([
        .shard: "\(shard)", .epoch: "\(epoch)", .call: "\(entry.call)",
      ])
      metadata.merge(line.metadata) { _, new in new }
      log(level: line.level, line.message, metadata: metadata)
    }
  }
}

/// One fact of a call as it is logged.
private struct CallLogLine {
  var level = Logger.Level.trace
  var message: Logger.Message
  var metadata: Logger.Metadata = [:]

  /// nil for what each device says many times over, as candidates.
  init?(_ change: JournalEntry.Change) {
    switch change {
    case .placed(let facts):
      (level, message) = (.debug, "Call placed.")
      metadata = Self.keys(facts.caller)
      metadata[LogKey.app.rawValue] = "\(facts.callee.app)"
      metadata[LogKey.callee.rawValue] = "\(facts.callee.user)"
      metadata[LogKey.count.rawValue] = "\(facts.legs.count)"
    case .answered(let answer):
      (level, message, metadata) = (.debug, "Call answered.", Self.keys(answer.by))
    case .ended(let end):
      (level, message) = (.debug, "Call ended.")
      metadata = end.by.map(Self.keys) ?? [:]
      metadata[LogKey.reason.rawValue] = "\(end.reason.name)"
    case .legJoined(let party): (message, metadata) = ("Device joined.", Self.keys(party))
    case .alerting(let device): (message, metadata) = ("Device alerts.", Self.keys(device))
    case .legEnded(let device, let end, _):
      (message, metadata) = ("Device rings no more.", Self.keys(device))
      metadata[LogKey.reason.rawValue] = "\(end)"
    case .connected(let caller): message = caller ? "Caller connected." : "Winner connected."
    case .callerLost(let until): message = until == nil ? "Caller is back." : "Caller is lost."
    case .winnerLost(let until): message = until == nil ? "Winner is back." : "Winner is lost."
    case .settled: message = "Every device knows of the end."
    case .pushed(let device, let purpose):
      (message, metadata) = ("Push decided.", Self.keys(device))
      metadata[LogKey.purpose.rawValue] = "\(purpose.name)"
    case .signal: return nil
    }
  }

  private static func keys(_ party: Party) -> Logger.Metadata {
    .keys([.user: "\(party.user)", .device: "\(party.device)"])
  }

  private static func keys(_ device: DeviceID) -> Logger.Metadata {
    .keys([.device: "\(device)"])
  }
}
