internal import CallBus

/// The completions of the seams as values to wait for. Their deadlines are the bus's: a write
/// without an answer in time is `unknown`.
extension KeyValueBucket {
  func put(_ key: String, _ value: [UInt8], expecting: UInt64?) async -> AppendResult {
    await withCheckedContinuation { continuation in
      put(key, value, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }

  func delete(_ key: String, expecting: UInt64? = nil) async -> AppendResult {
    await withCheckedContinuation { continuation in
      delete(key, expecting: expecting) { continuation.resume(returning: $0) }
    }
  }
}

extension Journal {
  func append(shard: Int, expecting: UInt64, _ bytes: [UInt8]) async -> AppendResult {
    await withCheckedContinuation { continuation in
      append(shard: shard, expecting: expecting, bytes) { continuation.resume(returning: $0) }
    }
  }
}
