package import CallBus

/// What a stream answers to a write: `{"stream":"S","seq":12}`, or with an `error`.
package enum StreamAcknowledgement {
  /// - Parameter hasLimit: the stream is one of ours that refuses when it is full. For all others a
  ///   write that could not be stored says nothing of what stands in the stream: a disk is full or
  ///   broken, and who takes that for another's write gives up what is its own.
  package static func result(
    _ bytes: UnsafeBufferPointer<UInt8>, hasLimit: Bool
  ) -> AppendResult {
    if find("\"error\":", bytes) == nil, let start = find("\"seq\":", bytes) {
      var sequence: UInt64 = 0
      for digit in bytes[start...].drop(while: { $0 == 32 }).prefix(19) {
        guard (48...57).contains(digit) else { break }
        sequence = sequence * 10 + UInt64(digit - 48)
      }
      if sequence > 0 { return .appended(sequence: sequence) }
    }
    guard let error = JSONValue(parsing: bytes)?["error"] else {
      return .unknown(
        "not an acknowledgement: \(String(decoding: bytes.prefix(200), as: UTF8.self))")
    }
    let code = error["err_code"]?.unsigned ?? 0
    if JetStreamAPI.wrongLastSequence.contains(code) { return .refused }
    if hasLimit, JetStreamAPI.storeFailed.contains(code) { return .refused }
    return .unknown("JetStream says: \(error["description"]?.text ?? "error") (\(code))")
  }

  /// The index behind the first occurrence of a pattern.
  private static func find(_ pattern: StaticString, _ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    let length = pattern.utf8CodeUnitCount
    guard bytes.count >= length else { return nil }
    return pattern.withUTF8Buffer { pattern in
      for start in 0...(bytes.count - length) where bytes[start] == pattern[0] {
        if (1..<length).allSatisfy({ bytes[start + $0] == pattern[$0] }) { return start + length }
      }
      return nil
    }
  }
}
