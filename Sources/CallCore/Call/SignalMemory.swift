/// Recognises the newest signals of one side of a call (R9), so that a command that a client, an edge or the bus
/// retransmits adds none.
struct SignalMemory: Sendable {
  private struct Entry {
    var content: UInt64
    /// The sender's number for the command; 0 where the journal does not have it, as in records of
    /// earlier versions.
    var request: UInt64
    /// The session on which the command came last; nil where it is known from the journal only.
    var session: SessionRef?
  }
  private var entries: [Entry] = []

  /// More than a device sends within the time that a command is retransmitted.
  private static let capacity = 64

  /// A signal is a fact now.
  mutating func note(_ signal: Signal) {
    note(request: signal.request, content: Self.hash(signal.kind, signal.body))
  }

  /// - Parameter request: 0 where it is not known.
  mutating func note(request: UInt64, content: UInt64) {
    if request != 0, let known = entries.firstIndex(where: { $0.request == request }) {
      if entries[known].content == content { return }
      // An app that was started again counts from 1.
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

  /// If the command was taken, it came on this session.
  mutating func claim(_ session: SessionRef, _ request: UInt64) {
    guard let newest = entries.indices.last, entries[newest].request == request else { return }
    entries[newest].session = session
  }

  /// Whether a command that came on this session was taken. An edge retransmits on each session what is not
  /// answered, so a command of an earlier session counts once it is repeated here.
  func contains(request: UInt64, on session: SessionRef) -> Bool {
    entries.contains { $0.request == request && $0.session == session }
  }

  /// Whether this is a repetition. The same content under another request is none, unless the request of the
  /// earlier one is unknown: then it is most likely a repetition, and counts as one once.
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
