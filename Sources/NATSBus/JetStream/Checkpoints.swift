internal import CallBus
internal import Synchronization

/// Checkpoints of any size in a stream that keeps one message per subject.
///
/// A small checkpoint is the shard's head record. A large one is cut in parts under a name of its
/// own, and the head, written last, names it: until then the former checkpoint stays readable.
/// The head is replaced by compare-and-set against the one that this writer read or wrote last, so
/// that a former owner can't replace a newer owner's checkpoint.
final class Checkpoints: Sendable {
  /// Well below the server's default limit of 1 MB for a message.
  private static let partBytes = 512 << 10
  /// How often a reader starts again because the checkpoint was replaced while it read.
  private static let readAttempts = 5

  private let api: JetStreamAPI
  private let stream: String
  private let writer: StreamWriter
  private let seenHeads = Mutex<[Int: SeenHead]>([:])

  /// The head that this writer read or wrote last.
  private struct SeenHead {
    var sequence: UInt64
    /// Whether there may be parts, of its checkpoint or left behind by a writer that died.
    var mayHaveParts: Bool
  }

  init(_ api: JetStreamAPI, stream: String, writer: StreamWriter) {
    self.api = api
    self.stream = stream
    self.writer = writer
  }

  func write(shard: Int, _ bytes: [UInt8]) async throws {
    let seen = try await seenHead(shard)
    guard bytes.count > Self.partBytes else {
      let head = try await replaceHead(shard, seen.sequence, .whole(bytes))
      if seen.mayHaveParts { try await removeParts(shard, before: head) }
      return
    }
    let name = String(UInt64.random(in: .min ... .max), radix: 36)
    var first: UInt64?
    var count = 0
    for start in stride(from: 0, to: bytes.count, by: Self.partBytes) {
      let part = Array(bytes[start..<min(start + Self.partBytes, bytes.count)])
      let sequence = try await store(partSubject(shard, name, count), part, expecting: 0)
      first = first ?? sequence
      count += 1
    }
    let head = CheckpointHead.parts(
      name: name, count: count, bytes: bytes.count, checksum: CheckpointHead.checksum(bytes))
    _ = try await replaceHead(shard, seen.sequence, head)
    try await removeParts(shard, before: first ?? 0)
  }

  func read(shard: Int) async throws -> [UInt8]? {
    for _ in 0..<Self.readAttempts {
      let head = try await api.last(stream: stream, subject: headSubject(shard))
      see(shard, head?.sequence ?? 0, mayHaveParts: true)
      guard let head else { return nil }
      switch CheckpointHead(decoding: head.bytes) {
      case .whole(let bytes): return bytes
      case .parts(let name, let count, let size, let checksum):
        let bytes = try await readParts(shard, name, count)
        if let bytes, bytes.count == size, CheckpointHead.checksum(bytes) == checksum {
          return bytes
        }
      case nil:
        throw BusError.failed("the checkpoint of shard \(shard) is not in a format that we know")
      }
    }
    throw BusError.failed("the checkpoint of shard \(shard) has missing or damaged parts")
  }

  private func readParts(_ shard: Int, _ name: String, _ count: Int) async throws -> [UInt8]? {
    var bytes: [UInt8] = []
    for number in 0..<count {
      let subject = partSubject(shard, name, number)
      guard let part = try await api.last(stream: stream, subject: subject) else { return nil }
      bytes += part.bytes
    }
    return bytes
  }

  private func seenHead(_ shard: Int) async throws -> SeenHead {
    if let seen = seenHeads.withLock({ $0[shard] }) { return seen }
    let sequence = try await api.last(stream: stream, subject: headSubject(shard))?.sequence ?? 0
    return see(shard, sequence, mayHaveParts: true)
  }

  @discardableResult
  private func see(_ shard: Int, _ sequence: UInt64, mayHaveParts: Bool) -> SeenHead {
    let seen = SeenHead(sequence: sequence, mayHaveParts: mayHaveParts)
    seenHeads.withLock { $0[shard] = seen }
    return seen
  }

  private func replaceHead(_ shard: Int, _ seen: UInt64, _ head: CheckpointHead) async throws
    -> UInt64
  {
    let sequence = try await store(headSubject(shard), head.encoded, expecting: seen)
    if case .parts = head {
      see(shard, sequence, mayHaveParts: true)
    } else {
      see(shard, sequence, mayHaveParts: false)
    }
    return sequence
  }

  private func store(_ subject: String, _ bytes: [UInt8], expecting: UInt64) async throws -> UInt64
  {
    switch await writer.write(subject, bytes, expecting: expecting) {
    case .appended(let sequence): return sequence
    case .refused: throw BusError.wrongSequence
    case .unknown(let text): throw BusError.failed("cannot write \(subject): \(text)")
    }
  }

  /// Removes what older checkpoints, finished or not, left behind.
  private func removeParts(_ shard: Int, before sequence: UInt64) async throws {
    try await api.purge(stream: stream, filter: "\(stream).\(shard).part.>", before: sequence)
  }

  private func headSubject(_ shard: Int) -> String { "\(stream).\(shard).head" }
  private func partSubject(_ shard: Int, _ name: String, _ number: Int) -> String {
    "\(stream).\(shard).part.\(name).\(number)"
  }
}

/// The record that stands for a checkpoint.
package enum CheckpointHead: Equatable {
  case whole([UInt8])
  case parts(name: String, count: Int, bytes: Int, checksum: UInt64)

  // The first byte says which, and leaves room for other formats.
  private static let wholeTag: UInt8 = 1
  private static let partsTag: UInt8 = 2

  package var encoded: [UInt8] {
    switch self {
    case .whole(let bytes): [Self.wholeTag] + bytes
    case .parts(let name, let count, let bytes, let checksum):
      [Self.partsTag] + Array("\(name) \(count) \(bytes) \(checksum)".utf8)
    }
  }

  package init?(decoding encoded: [UInt8]) {
    switch encoded.first {
    case Self.wholeTag: self = .whole(Array(encoded.dropFirst()))
    case Self.partsTag:
      let words = String(decoding: encoded.dropFirst(), as: UTF8.self).split(separator: " ")
      guard words.count == 4, let count = Int(words[1]), let bytes = Int(words[2]),
        let checksum = UInt64(words[3]), count > 0
      else { return nil }
      self = .parts(name: String(words[0]), count: count, bytes: bytes, checksum: checksum)
    default: return nil
    }
  }

  /// FNV-1a, 64 bits.
  package static func checksum(_ bytes: [UInt8]) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return hash
  }
}
