/// The newest signals of one side of a call, so that a command that is repeated, by a client that
/// timed out, an edge or the bus, adds none.
struct SignalMemory: Sendable {
  private struct Entry {
    var content: UInt64
    /// The sender's number for the command; 0 where it was read back from the journal, which keeps
    /// the signal only.
    var request: UInt64
  }
  private var entries: [Entry] = []

  /// More than a device sends within the time that a command is repeated.
  private static let capacity = 64

  /// A signal is a fact now.
  mutating func note(_ signal: Signal) {
    if entries.count >= Self.capacity { entries.removeFirst() }
    entries.append(Entry(content: Self.hash(signal.kind, signal.body), request: 0))
  }

  /// The newest signal came with this request.
  mutating func claim(_ request: UInt64) {
    guard !entries.isEmpty else { return }
    entries[entries.count - 1].request = request
  }

  /// Whether this is a repetition. The same content under another request is none, unless only a new
  /// owner's journal knows it: that one counts as the repetition it most likely is, once.
  mutating func isRepeat(request: UInt64, _ kind: SignalKind, _ body: String) -> Bool {
    guard request != 0, !entries.isEmpty else { return false }
    let content = Self.hash(kind, body)
    if entries.contains(where: { $0.content == content && $0.request == request }) { return true }
    guard
      let index = entries.firstIndex(where: { $0.content == content && $0.request == 0 })
    else { return false }
    entries[index].request = request
    return true
  }

  private static func hash(_ kind: SignalKind, _ body: String) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(kind.rawValue)
    for byte in body.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return hash
  }
}
