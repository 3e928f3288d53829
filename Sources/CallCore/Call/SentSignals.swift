/// The descriptions and candidates that one side of a call sent.
struct SentSignals: Sendable {
  /// Signals that wait until the other side can have them, in their order.
  private(set) var waiting: [Signal] = []
  /// The index of the newest signal.
  private var lastIndex: UInt64 = 0
  private var memory = SignalMemory()

  /// The next signal.
  /// - Parameter request: the sender's number for the command.
  func next(_ request: UInt64, _ kind: SignalKind, _ body: String) -> Signal {
    Signal(index: lastIndex + 1, kind: kind, body: body, request: request)
  }

  /// Whether one more signal may wait. Policy: refuse (`tooManySignals`).
  func hasRoom(for body: String, _ limits: CallLimits) -> Bool {
    waiting.count < limits.signalsWaiting
      && waiting.reduce(body.utf8.count) { $0 + $1.body.utf8.count } <= limits.signalBytesWaiting
  }

  /// Remembers a signal that is a fact now.
  /// - Returns: false where it was applied before.
  mutating func apply(_ signal: Signal) -> Bool {
    guard signal.index > lastIndex else { return false }
    lastIndex = signal.index
    memory.note(signal)
    return true
  }

  mutating func wait(_ signal: Signal) { waiting.append(signal) }

  /// Drops the signals that wait, because the other side will never have them.
  mutating func dropWaiting() { waiting = [] }

  /// Frees the memory, because the call ended.
  mutating func release() {
    waiting = []
    memory = SignalMemory()
  }

  /// Gives later signals an index above this one.
  mutating func skip(to index: UInt64) { lastIndex = max(lastIndex, index) }

  /// Continues the indices of a former device of the side.
  mutating func follow(_ former: SentSignals) {
    waiting = []
    memory = SignalMemory()
    skip(to: former.lastIndex)
  }

  // MARK: Retransmitted commands

  /// Whether a command repeats an accepted one.
  mutating func isRepeat(
    request: UInt64, on session: SessionRef, _ kind: SignalKind, _ body: String
  ) -> Bool {
    memory.isRepeat(request: request, on: session, kind, body)
  }

  /// Whether a command names a previous request that did not arrive.
  /// - Parameter after: the previous request; 0: the command names none.
  func hasGap(after: UInt64, on session: SessionRef) -> Bool {
    after != 0 && !memory.contains(request: after, on: session)
  }

  /// Notes the session of a command, if it was accepted.
  mutating func claim(_ session: SessionRef, _ request: UInt64) { memory.claim(session, request) }

  // MARK: Checkpoints

  func marks(fromCaller: Bool, _ device: DeviceID) -> [SignalMark] {
    memory.marks(fromCaller: fromCaller, device)
  }

  mutating func forgetRequests() { memory = SignalMemory() }

  mutating func restore(_ mark: SignalMark) {
    memory.note(request: mark.request, content: mark.content)
  }
}

/// Recognises the newest signals of one side of a call (R9), so that a retransmitted command adds none.
private struct SignalMemory: Sendable {
  private struct Entry {
    var content: UInt64
    /// The sender's number for the command; 0: not known, because an earlier version wrote the journal.
    var request: UInt64
    /// The session on which the command came last; nil: it is known from the journal only.
    var session: SessionRef?
  }
  private var entries: [Entry] = []

  /// More than a device sends while a command is retransmitted.
  private static let capacity = 64

  mutating func note(_ signal: Signal) {
    note(request: signal.request, content: Self.hash(signal.kind, signal.body))
  }

  /// - Parameter request: 0 where it is not known.
  mutating func note(request: UInt64, content: UInt64) {
    if request != 0, let known = entries.firstIndex(where: { $0.request == request }) {
      if entries[known].content == content { return }
      // An app that was restarted counts from 1 again.
      entries.remove(at: known)
    }
    if entries.count >= Self.capacity { entries.removeFirst() }
    entries.append(Entry(content: content, request: request))
  }

  /// The entries, as a checkpoint keeps them.
  func marks(fromCaller: Bool, _ device: DeviceID) -> [SignalMark] {
    entries.map {
      SignalMark(fromCaller: fromCaller, device: device, request: $0.request, content: $0.content)
    }
  }

  /// Notes the session of the newest command.
  mutating func claim(_ session: SessionRef, _ request: UInt64) {
    guard let newest = entries.indices.last, entries[newest].request == request else { return }
    entries[newest].session = session
  }

  /// Whether a command that came on this session was accepted. An edge retransmits unanswered commands on each new
  /// session, so a command of an earlier session counts once it is repeated on this one.
  func contains(request: UInt64, on session: SessionRef) -> Bool {
    entries.contains { $0.request == request && $0.session == session }
  }

  /// Whether this is a repetition. The same content under another request is not one, unless the request of the earlier
  /// signal is unknown. Then it most likely is, and counts as one once.
  mutating func isRepeat(
    request: UInt64, on session: SessionRef, _ kind: SignalKind, _ body: String
  ) -> Bool {
    guard request != 0, !entries.isEmpty else { return false }
    let content = Self.hash(kind, body)
    let index =
      entries.firstIndex { $0.content == content && $0.request == request }
      ?? entries.firstIndex { $0.content == content && $0.request == 0 }
    guard let index else { return false }
    entries[index].request = request
    entries[index].session = session
    return true
  }

  private static func hash(_ kind: SignalKind, _ body: String) -> UInt64 {
    var hash = FNV1a(seed: kind.rawValue)
    hash.add(body)
    return hash.value
  }
}
