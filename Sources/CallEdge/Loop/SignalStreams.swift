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
  /// A request that was given up. The device has to send it again before later ones.
  private struct Gap {
    var request: UInt64
    var until: Timestamp
    let duration: Span
    /// The first later request that was refused because of the gap: the device sends it again, too.
    var refused: UInt64?
  }

  /// The requests of each stream, in the order in which they came. `CommandOutbox` bounds their number.
  private var waiting: [Key: [UInt64]] = [:]
  private var gaps: [Key: Gap] = [:]
  /// Policy: forget all, and count them. What is lost is the order of streams that failed moments ago.
  static let gapsMax = 10_000
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
      // A new request must not overtake those that were refused.
      gaps[key] = gap.refused.map {
        Gap(request: $0, until: now + gap.duration, duration: gap.duration)
      }
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

  /// The command and all after it are given up. Later ones are refused until it comes again.
  /// - Parameter duration: how long they are refused at most.
  mutating func openGap(at command: Command, for duration: Span, now: Timestamp) {
    guard let key = Self.key(command) else { return }
    if gaps.count >= Self.gapsMax {
      gapsForgotten += UInt64(gaps.count)
      gaps.removeAll()
    }
    gaps[key] = Gap(request: command.request, until: now + duration, duration: duration)
  }

  /// Removes the gaps whose time is over.
  mutating func expire(now: Timestamp) {
    if !gaps.isEmpty { gaps = gaps.filter { now < $0.value.until } }
  }
}
