import CallCore

/// The order of descriptions and candidates that wait for an answer: a stream for each call and session.
///
/// The bus may lose a message and deliver the next one. So each names its predecessor while that one is
/// unanswered (`Command.after`), a shard takes none whose predecessor it has not got, and what is
/// retransmitted takes along whatever follows it.
struct SignalStreams {
  private struct Key: Hashable {
    var session: UInt64
    var call: CallID
  }
  /// A request that was given up. The device sends it again, before later ones.
  private struct Gap {
    var request: UInt64
    var until: Timestamp
    /// How long it lasts.
    let time: Span
    /// The first of those that were refused behind it: the device sends that again, too.
    var refused: UInt64?
  }

  /// Requests in the order in which they came.
  private var waiting: [Key: [UInt64]] = [:]
  private var gaps: [Key: Gap] = [:]
  /// Policy: forget all. What is lost is the order of streams that failed moments ago.
  private static let gapsMax = 10_000

  private static func key(_ command: Command) -> Key? {
    guard case .call(let call, .signal) = command.body else { return nil }
    return Key(session: command.session.number, call: call)
  }

  /// False while one that the device sent before was given up or refused, and was not sent again.
  mutating func admits(_ command: Command, now: Timestamp) -> Bool {
    guard !gaps.isEmpty, let key = Self.key(command), let gap = gaps[key] else { return true }
    guard now < gap.until else {
      gaps[key] = nil
      return true
    }
    guard command.request <= gap.request else {
      gaps[key]?.refused = min(gap.refused ?? command.request, command.request)
      return false
    }
    if command.request == gap.request {
      // One that the device sends only now must not overtake those that were refused.
      gaps[key] = gap.refused.map { Gap(request: $0, until: now + gap.time, time: gap.time) }
    }
    return true
  }

  mutating func add(_ command: Command) {
    guard let key = Self.key(command) else { return }
    waiting[key, default: []].append(command.request)
  }

  mutating func remove(_ command: Command) {
    guard let key = Self.key(command) else { return }
    waiting[key]?.removeAll { $0 == command.request }
    if waiting[key]?.isEmpty == true { waiting[key] = nil }
  }

  /// The request that comes first and is unanswered; 0: none, or the command is in no stream.
  func predecessor(of command: Command) -> UInt64 {
    guard let key = Self.key(command), let requests = waiting[key],
      let index = requests.firstIndex(of: command.request), index > 0
    else { return 0 }
    return requests[index - 1]
  }

  /// What goes out when a command is retransmitted or given up: itself; of a stream all from its first
  /// one on, and nothing for those behind that one.
  func from(_ command: Command) -> [UInt64] {
    guard let key = Self.key(command), let requests = waiting[key] else {
      return [command.request]
    }
    return requests.first == command.request ? requests : []
  }

  /// The command and all behind it are given up. Later ones are refused until it comes again.
  mutating func close(behind command: Command, for time: Span, now: Timestamp) {
    guard let key = Self.key(command) else { return }
    if gaps.count >= Self.gapsMax { gaps.removeAll() }
    gaps[key] = Gap(request: command.request, until: now + time, time: time)
  }

  mutating func expire(now: Timestamp) {
    if !gaps.isEmpty { gaps = gaps.filter { now < $0.value.until } }
  }
}
