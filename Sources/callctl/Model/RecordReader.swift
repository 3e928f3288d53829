package import CallBus
package import CallCore
internal import CallWire

/// Reads the stream of call records.
package struct RecordReader: Sendable {
  /// The messages of one read.
  static let chunk: UInt64 = 256
  /// How far the clocks of the nodes and of the store may lie apart.
  package static let skew = Span.seconds(60)

  private let stream: any RecordStream
  /// Called after each chunk with the messages that were read, and how many there are to read.
  private let progress: @Sendable (_ read: UInt64, _ of: UInt64) -> Void
  /// Records of later versions.
  package private(set) var unreadable = 0

  package init(
    _ stream: any RecordStream,
    progress: @escaping @Sendable (_ read: UInt64, _ of: UInt64) -> Void = { _, _ in }
  ) {
    self.stream = stream
    self.progress = progress
  }

  /// Reads backwards from the end. Of a call with several records the first comes last.
  /// - Parameter take: gets the records of one message, and when it was stored; returns whether to read on.
  /// - Throws: `BusError`.
  package mutating func backwards(
    _ take: ([CallRecord], _ storedAt: Timestamp) -> Bool
  ) async throws {
    guard let range = try await stream.range() else { return }
    var end = range.upperBound
    while true {
      let start = max(range.lowerBound, end - min(end, Self.chunk - 1))
      for message in try await stream.messages(start...end).reversed() {
        guard take(records(message), message.storedAt) else { return }
      }
      progress(range.upperBound - start + 1, UInt64(range.count))
      guard start > range.lowerBound else { return }
      end = start - 1
    }
  }

  /// Reads on from a sequence.
  /// - Returns: the records, and the sequence behind them.
  package mutating func forwards(
    from sequence: UInt64
  ) async throws -> (records: [CallRecord], next: UInt64) {
    guard let range = try await stream.range(), range.upperBound >= sequence else {
      return ([], sequence)
    }
    let start = max(sequence, range.lowerBound)
    let end = min(range.upperBound, start + Self.chunk - 1)
    let messages = try await stream.messages(start...end)
    return (messages.flatMap { records($0) }, end + 1)
  }

  /// The sequence behind the last message.
  package func end() async throws -> UInt64 { (try await stream.range()?.upperBound ?? 0) + 1 }

  /// The record of one call; nil if there is none.
  /// - Parameter callee: the user who was called; nil: that of the newest call with this id.
  package mutating func record(of call: CallID, to callee: UserKey? = nil) async throws
    -> CallRecord?
  {
    var found: CallRecord?
    try await backwards { records, storedAt in
      // No record of the call is older than its end. A later one is a repetition, and knows less.
      if let end = found?.end?.at, storedAt + Self.skew < end { return false }
      let callee = callee ?? found?.callee
      found =
        records.first { $0.call == call && $0.callee == callee ?? $0.callee } ?? found
      return true
    }
    return found
  }

  private mutating func records(_ message: StoredRecords) -> [CallRecord] {
    guard let batch = try? ClusterCodec.callRecords(message.bytes) else {
      unreadable += 1
      return []
    }
    unreadable += batch.unreadable
    return batch.records
  }
}

/// Recognises the repeated records of a call, which follow the first one soon.
package struct RecentCalls: Sendable {
  /// Policy when full: the oldest half is forgotten.
  static let countMax = 200_000
  private var newer: Set<CallKey> = []
  private var older: Set<CallKey> = []

  package init() {}

  /// - Returns: whether it is the call's first.
  package mutating func isNew(_ call: CallKey) -> Bool {
    guard !newer.contains(call), !older.contains(call) else { return false }
    if newer.count >= Self.countMax / 2 { (older, newer) = (newer, []) }
    newer.insert(call)
    return true
  }
}
