/// The descriptions and candidates that one side of a call sent.
struct SentSignals: Sendable {
  /// Those that wait until the other side can have them, in their order.
  private(set) var waiting: [Signal] = []
  /// The index of the newest one.
  private var lastIndex: UInt64 = 0
  private var memory = SignalMemory()

  /// The next signal.
  /// - Parameter request: the sender's number for the command.
  func next(_ request: UInt64, _ kind: SignalKind, _ body: String) -> Signal {
    Signal(index: lastIndex + 1, kind: kind, body: body, request: request)
  }

  /// Whether one more may wait. Policy: refuse (`tooManySignals`).
  func hasRoom(for body: String, _ limits: CallLimits) -> Bool {
    waiting.count < limits.signalsWaiting
      && waiting.reduce(body.utf8.count) { $0 + $1.body.utf8.count } <= limits.signalBytesWaiting
  }

  /// Takes note of a signal that is a fact now.
  /// - Returns: false where it was taken before.
  mutating func take(_ signal: Signal) -> Bool {
    guard signal.index > lastIndex else { return false }
    lastIndex = signal.index
    memory.note(signal)
    return true
  }

  mutating func wait(_ signal: Signal) { waiting.append(signal) }

  /// The other side will never have them.
  mutating func dropWaiting() { waiting = [] }

  /// The call ended: nothing of it is needed any more.
  mutating func release() {
    waiting = []
    memory = SignalMemory()
  }

  /// Later signals get an index above this one.
  mutating func skip(to index: UInt64) { lastIndex = max(lastIndex, index) }

  /// A device takes a side over from the one that sent these. Its signals get indices above theirs.
  mutating func follow(_ former: SentSignals) {
    waiting = []
    memory = SignalMemory()
    skip(to: former.lastIndex)
  }

  // MARK: Retransmitted commands

  /// Whether a command repeats one that was taken.
  mutating func isRepeat(
    request: UInt64, on session: SessionRef, _ kind: SignalKind, _ body: String
  ) -> Bool {
    memory.isRepeat(request: request, on: session, kind, body)
  }

  /// Whether a command names a request before it that did not arrive.
  /// - Parameter after: 0: it names none.
  func hasGap(after: UInt64, on session: SessionRef) -> Bool {
    after != 0 && !memory.contains(request: after, on: session)
  }

  /// If the command was taken, it came on this session.
  mutating func claim(_ session: SessionRef, _ request: UInt64) { memory.claim(session, request) }

  // MARK: Checkpoints

  func marks(fromCaller: Bool, _ device: DeviceID) -> [SignalMark] {
    memory.marks(fromCaller: fromCaller, device)
  }

  mutating func forgetTaken() { memory = SignalMemory() }

  mutating func restore(_ mark: SignalMark) {
    memory.note(request: mark.request, content: mark.content)
  }
}
