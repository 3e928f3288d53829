import CallCore

/// The order of descriptions and candidates that wait for replies: one stream for each call and session.
///
/// The bus may lose a message and deliver the next one. So each names its predecessor while that one is
/// unanswered (`Command.after`), and a shard ignores one whose predecessor it has not received. What follows a
/// message is retransmitted with it.
struct SignalStreams {
  struct Key: Hashable {
    var session: UInt64
    var call: CallID
  }
  /// Requests that were given up or refused. The device has to send them again, in their order, before new ones.
  private struct Gap {
    /// Ascending, and never empty.
    var owed: [UInt64]
    var until: Timestamp
    let duration: Span
  }

  /// The requests of each stream, in the order in which they came. `CommandOutbox` bounds their number.
  private var waiting: [Key: [UInt64]] = [:]
  private var gaps: [Key: Gap] = [:]
  /// Policy: forget all, and count them. What is lost is the order of streams that failed moments ago.
  static let gapsMax = 10_000
  /// Policy: a later one is refused, and may be overtaken when the device sends it again.
  static let owedMax = 256
  private(set) var gapsForgotten: UInt64 = 0
  var gapCount: Int { gaps.count }

  /// nil: it is in no stream.
  static func key(_ command: Command) -> Key? {
    guard case .call(let call, .signal) = command.body else { return nil }
    return Key(session: command.session.number, call: call)
  }

  /// Whether a command may be sent: not while an earlier one of its stream was given up or refused and has not
  /// come again.
  mutating func admits(_ command: Command, now: Timestamp) -> Bool {
    guard !gaps.isEmpty, let key = Self.key(command), var gap = gaps[key] else { return true }
    guard now < gap.until else {
      gaps[key] = nil
      return true
    }
    let request = command.request
    guard request <= gap.owed[0] else {
      let place = gap.owed.firstIndex { $0 >= request } ?? gap.owed.endIndex
      if gap.owed.count < Self.owedMax, place == gap.owed.endIndex || gap.owed[place] != request {
        gaps[key]?.owed.insert(request, at: place)
      }
      return false
    }
    if request == gap.owed[0] {
      gap.owed.removeFirst()
      gap.until = now + gap.duration
      gaps[key] = gap.owed.isEmpty ? nil : gap
    }
    return true
  }

  mutating func add(_ command: Command) {
    guard let key = Self.key(command) else { return }
    waiting[key, default: []].append(command.request)
  }

  mutating func remove(_ request: UInt64, from key: Key) {
    waiting[key]?.removeAll { $0 == request }
    if waiting[key]?.isEmpty == true { waiting[key] = nil }
  }

  /// The unanswered request before this one; 0: there is none, or the command is in no stream.
  func predecessor(of command: Command) -> UInt64 {
    guard let key = Self.key(command), let requests = waiting[key],
      let index = requests.firstIndex(of: command.request), index > 0
    else { return 0 }
    return requests[index - 1]
  }

  /// The requests that are retransmitted or given up together with a command: the command alone where it is in no
  /// stream, the whole stream for its first command, and none for the others.
  func from(_ command: Command) -> [UInt64] {
    guard let key = Self.key(command), let requests = waiting[key] else {
      return [command.request]
    }
    return requests.first == command.request ? requests : []
  }

  /// A command and all after it are given up. Later ones are refused until these come again.
  /// - Parameters:
  ///   - requests: theirs, in their order.
  ///   - duration: how long later ones are refused at most while none comes again.
  mutating func openGap(
    at command: Command, _ requests: [UInt64], for duration: Span, now: Timestamp
  ) {
    guard let key = Self.key(command), !requests.isEmpty else { return }
    if gaps.count >= Self.gapsMax {
      gapsForgotten += UInt64(gaps.count)
      gaps.removeAll()
    }
    let owed = Set(requests).union(gaps[key]?.owed ?? []).sorted().prefix(Self.owedMax)
    gaps[key] = Gap(owed: Array(owed), until: now + duration, duration: duration)
  }

  /// Removes the gaps whose time is over.
  mutating func expire(now: Timestamp) {
    if !gaps.isEmpty { gaps = gaps.filter { now < $0.value.until } }
  }
}
