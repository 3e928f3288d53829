import CallClient
import CallCore
import CallJudge
import CallWire
import NIOCore

/// At the end of a stage, users on both sides of some calls read their histories, and again until each has all that
/// it must have. On the fleet's loop.
final class HistoryReader {
  private struct Reading {
    /// The device that was asked, until it has its reply.
    var device: Int?
    var before: HistoryCursor?
    var pages: [HistoryEntry] = []
    /// As it was read last.
    var whole: [HistoryEntry] = []
    var isDone = false
    var againAt = Timestamp.zero
  }

  private unowned let stage: Stage
  private let fleet: DeviceFleet
  /// The newest calls of the stage.
  private var fates = CircularBuffer<CallFate>()
  private var hasDropped = false
  private var judge: HistoryJudge?
  private var readings: [Int: Reading] = [:]
  private var giveUpAt = Timestamp.zero
  private(set) var result: HistoryResult?

  private static let fatesMax = 50_000
  /// Calls of a run whose users read.
  private static let callsRead = 100
  private static let readingMax = 16
  private static let pageSize: UInt32 = 100
  /// An operator may keep more, but the run relies on the standard limit.
  private static let entriesMax = 1_000
  private static let pause: Span = .milliseconds(500)
  /// Entries are stored after the end of their call.
  private static let timeout: Span = .seconds(20)
  private static let timeoutUnderFaults: Span = .seconds(60)

  init(_ stage: Stage, _ fleet: DeviceFleet) {
    self.stage = stage
    self.fleet = fleet
  }

  func judged(_ fate: CallFate) {
    fates.append(fate)
    guard fates.count > Self.fatesMax else { return }
    fates.removeFirst()
    hasDropped = true
  }

  /// Begins to read when it is called first, with all calls over.
  func isOver(at now: Timestamp) -> Bool {
    if judge == nil { begin(at: now) }
    guard result == nil, let judge else { return true }
    let open = readings.filter { !$0.value.isDone }
    guard !open.isEmpty, now < giveUpAt else {
      finish(judge)
      return true
    }
    var waiting = open.values.count { $0.device != nil }
    for (user, reading) in open.sorted(by: { $0.key < $1.key })
    where reading.device == nil && reading.againAt <= now && waiting < Self.readingMax {
      ask(user)
      waiting += 1
    }
    return false
  }

  private func begin(at now: Timestamp) {
    judge = HistoryJudge(
      fates, isWhole: !hasDropped, hasFormer: !fleet.options.isOneVersion, roster: fleet.roster)
    giveUpAt = now + (fleet.options.isDisturbed ? Self.timeoutUnderFaults : Self.timeout)
    var random = SplitMix64(seed: fleet.options.ownSeed)
    var wanted = Self.callsRead
    for fate in fates.shuffled(using: &random) where wanted > 0 {
      let readers = HistoryJudge.readers(of: fate, fleet.roster)
      guard !readers.isEmpty, readers.allSatisfy(canRead) else { continue }
      for user in readers { readings[user] = Reading() }
      wanted -= 1
    }
  }

  private func canRead(_ user: Int) -> Bool {
    fleet.devices[fleet.roster.devices(of: user)].contains { !$0.sleeps && $0.setup == .connected }
  }

  // MARK: Reading

  private func ask(_ user: Int) {
    let device = fleet.devices[fleet.roster.devices(of: user)].first(where: \.isThere)
    guard let device, let reading = readings[user] else { return askAgain(user) }
    let command = HistoryCommand.list(before: reading.before, limit: Self.pageSize)
    readings[user]?.device = device.submit(.history(command)).map { _ in device.index }
    if readings[user]?.device == nil { askAgain(user) }
  }

  /// From the newest entry on.
  private func askAgain(_ user: Int) {
    readings[user]?.device = nil
    readings[user]?.before = nil
    readings[user]?.pages = []
    readings[user]?.againAt = fleet.loop.now + Self.pause
  }

  /// - Parameter reply: nil where none came.
  func replied(_ device: LoadDevice, _ reply: ServerReply?) {
    let user = fleet.roster.user(of: device.index)
    guard readings[user]?.device == device.index else { return }
    readings[user]?.device = nil
    switch reply {
    case .history(let page): took(page, user)
    case .error(let error) where !error.code.asksForRetry:
      fleet.count("history refused: \(error.code.name)")
      readings[user]?.isDone = true
    default: askAgain(user)
    }
  }

  private func took(_ page: HistoryPage, _ user: Int) {
    guard var reading = readings[user] else { return }
    reading.pages += page.items.map(\.entry)
    reading.before = page.next
    let isWhole = page.next == nil || reading.pages.count >= Self.entriesMax
    if isWhole {
      reading.whole = reading.pages
      reading.isDone = judge?.lacks(reading.whole, of: user) == false
    }
    readings[user] = reading
    if isWhole, !reading.isDone { askAgain(user) }
  }

  // MARK: Judging

  private func finish(_ judge: HistoryJudge) {
    let histories = readings.mapValues(\.whole)
    let found = Dictionary(grouping: judge.judge(histories), by: \.rule)
    for (rule, violations) in found {
      let stories = violations.prefix(CallChecker.examplesMax).map {
        "call \($0.call.map(\.description) ?? "?"), seed \(fleet.options.seed): \($0.reason)"
      }
      stage.checker.broken(rule, count: violations.count, stories.joined(separator: "\n"))
    }
    var result = HistoryResult()
    result.users = histories.count
    result.entries = histories.values.reduce(0) { $0 + $1.count }
    result.callsOfBothSides = judge.callsOfBothSides(histories)
    self.result = result
  }
}
