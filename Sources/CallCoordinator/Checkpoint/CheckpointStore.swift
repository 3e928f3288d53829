package import CallBus
package import CallCore
internal import CallWire

/// Checkpoints in a key-value bucket, each as a head and chunks, replaced by compare-and-set.
///
/// A checkpoint replaces part of the journal, so it must be fenced like the journal: a former owner that wakes up and
/// overwrites a newer checkpoint, behind which the journal was purged, would lose calls. So the head names the epoch, a
/// head is never replaced by one of an earlier epoch, and the write expects the revision that was read.
///
/// A replicated bucket may still accept two heads that expect the same revision, the older one last. That does no harm
/// while everything that either needs is kept: chunks and records behind the head that both replace. So only that
/// head's own chunks, and older ones, are removed. (A head that expects an earlier revision would have to be under way
/// while two others were written.)
///
/// Chunks keep every message below a server's default limit of 1 MiB.
package struct CheckpointStore: Sendable {
  private let bucket: any KeyValueBucket
  private let chunkBytesMax: Int

  package init(bucket: any KeyValueBucket, chunkBytesMax: Int = 512 * 1024) {
    self.bucket = bucket
    self.chunkBytesMax = chunkBytesMax
  }

  package enum Failure: Error, Equatable {
    /// A newer checkpoint exists.
    case outdated
    /// A retry does not help.
    case unreadable(String)
    /// It could not be read or written now.
    case unavailable(String)
  }

  /// The value of `<shard>.head`: text, so that operators can read it.
  package struct Head: Sendable, Equatable {
    package var epoch: UInt64
    package var sequence: UInt64
    package var bytes: Int
    package var chunks: Int

    package init(epoch: UInt64, sequence: UInt64, bytes: Int, chunks: Int) {
      self.epoch = epoch
      self.sequence = sequence
      self.bytes = bytes
      self.chunks = chunks
    }

    package var text: String { "1 \(epoch) \(sequence) \(bytes) \(chunks)" }

    package init?(_ text: String) {
      let parts = text.split(separator: " ").map(String.init)
      guard parts.count == 5, parts[0] == "1", let epoch = UInt64(parts[1]),
        let sequence = UInt64(parts[2]), let bytes = Int(parts[3]), let chunks = Int(parts[4]),
        bytes >= 0, chunks >= 0, chunks <= 65_536
      else { return nil }
      self.init(epoch: epoch, sequence: sequence, bytes: bytes, chunks: chunks)
    }
  }

  private func headKey(_ shard: Int) -> String { "\(shard).head" }
  private func chunkKey(_ shard: Int, _ head: Head, _ chunk: Int) -> String {
    "\(shard).\(head.epoch).\(head.sequence).\(chunk)"
  }

  private func head(_ shard: Int) async throws(Failure) -> (head: Head, revision: UInt64)? {
    let entry: KeyValueEntry?
    do { entry = try await bucket.get(headKey(shard)) } catch { throw .unavailable("\(error)") }
    guard let entry, let value = entry.value else { return nil }
    guard let head = Head(String(decoding: value, as: UTF8.self)) else {
      throw .unreadable("the head of its checkpoint")
    }
    return (head, entry.revision)
  }

  /// The revision of the shard's checkpoint; 0 if it has none.
  /// - Throws: `Failure`, as all functions that read.
  package func revision(shard: Int) async throws(Failure) -> UInt64 {
    try await head(shard)?.revision ?? 0
  }

  /// The sequence of the journal up to which an operator accepts losses, written by hand as the value of
  /// `<shard>.accept`; 0 if there is none.
  package func acceptedLoss(shard: Int) async throws(Failure) -> UInt64 {
    do {
      let entry = try await bucket.get("\(shard).accept")
      return entry?.value.flatMap { UInt64(String(decoding: $0, as: UTF8.self)) } ?? 0
    } catch { throw .unavailable("\(error)") }
  }

  /// The newest checkpoint and its revision; nil if there is none.
  package func read(shard: Int) async throws(Failure) -> (Checkpoint, revision: UInt64)? {
    var attempts = 0
    while let (head, revision) = try await head(shard) {
      if let bytes = try await chunks(shard, head) {
        do {
          return (try ClusterCodec.checkpoint(bytes), revision)
        } catch {
          throw .unreadable("its checkpoint: \(error)")
        }
      }
      // Chunks are missing: it was replaced while it was read.
      attempts += 1
      if attempts > 4 {
        if try await self.revision(shard: shard) == revision {
          throw .unreadable("its checkpoint is not complete")
        }
        throw .unavailable("its checkpoint changes while it is read")
      }
    }
    return nil
  }

  private func chunks(_ shard: Int, _ head: Head) async throws(Failure) -> [UInt8]? {
    var bytes: [UInt8] = []
    for chunk in 0..<head.chunks {
      let entry: KeyValueEntry?
      do {
        entry = try await bucket.get(chunkKey(shard, head, chunk))
      } catch {
        throw .unavailable("\(error)")
      }
      guard let value = entry?.value else { return nil }
      bytes += value
    }
    return bytes.count == head.bytes ? bytes : nil
  }

  /// Replaces the shard's checkpoint by a newer one, or by the same one after an attempt without an answer.
  /// - Returns: the head that it replaced; nil if there was none, or if it is unknown.
  /// - Throws: `Failure`.
  @discardableResult
  package func write(_ checkpoint: Checkpoint, shard: Int) async throws(Failure) -> Head? {
    let former = try await head(shard)
    if let former {
      let known = (former.head.epoch, former.head.sequence)
      guard known <= (checkpoint.epoch, checkpoint.sequence) else { throw .outdated }
      let isSame = known == (checkpoint.epoch, checkpoint.sequence)
      if isSame, try await chunks(shard, former.head) != nil { return nil }
    }
    let bytes = ClusterCodec.encode(checkpoint)
    let count = (bytes.count + chunkBytesMax - 1) / chunkBytesMax
    let head = Head(
      epoch: checkpoint.epoch, sequence: checkpoint.sequence, bytes: bytes.count, chunks: count)
    for chunk in 0..<count {
      let part = bytes[chunk * chunkBytesMax..<min(bytes.count, (chunk + 1) * chunkBytesMax)]
      try await put(chunkKey(shard, head, chunk), Array(part), expecting: nil)
    }
    try await put(head, shard, behind: former?.revision ?? 0)
    guard let replaced = former?.head,
      (replaced.epoch, replaced.sequence) != (head.epoch, head.sequence)
    else { return nil }
    await removeChunks(shard, replaced)
    return replaced
  }

  /// Writes the head, which makes the chunks the shard's checkpoint.
  ///
  /// If the head is refused, the chunks stay: the head of an earlier attempt at the same checkpoint may be under way.
  private func put(_ head: Head, _ shard: Int, behind revision: UInt64) async throws(Failure) {
    do throws(Failure) {
      try await put(headKey(shard), Array(head.text.utf8), expecting: revision)
    } catch .outdated {
      // Unless that head has arrived: then it names these chunks, with their former length.
      guard let (standing, revision) = try await self.head(shard),
        (standing.epoch, standing.sequence) == (head.epoch, head.sequence)
      else { throw .outdated }
      try await put(headKey(shard), Array(head.text.utf8), expecting: revision)
    }
  }

  private func put(_ key: String, _ value: [UInt8], expecting: UInt64?) async throws(Failure) {
    switch await bucket.put(key, value, expecting: expecting) {
    case .appended: return
    case .refused: throw .outdated
    case .unknown(let reason): throw .unavailable(reason)
    }
  }

  /// Removes chunks that no head will ever name: those of checkpoints before a replaced one whose writer died before it
  /// wrote their head, or before it removed them.
  ///
  /// Best effort. Call it rarely: it reads everything that the bucket has of the shard.
  /// - Throws: `BusError`.
  package func sweep(shard: Int, before replaced: Head) async throws {
    for entry in try await bucket.entries(matching: "\(shard).>") {
      let parts = entry.key.split(separator: ".").map { UInt64($0) }
      guard parts.count == 4, let epoch = parts[1], let sequence = parts[2],
        (epoch, sequence) < (replaced.epoch, replaced.sequence)
      else { continue }
      _ = await bucket.delete(entry.key)
    }
  }

  /// Best effort: chunks that stay only cost space.
  private func removeChunks(_ shard: Int, _ head: Head) async {
    for chunk in 0..<head.chunks { _ = await bucket.delete(chunkKey(shard, head, chunk)) }
  }
}
