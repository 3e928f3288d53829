package import CallBus

/// A stream's answer to a write: `{"stream":"S","seq":12}`, or with an `error`.
package enum StreamAcknowledgement {
  private static let error = Array("\"error\":".utf8)
  private static let sequence = Array("\"seq\":".utf8)

  /// - Parameter hasLimit: whether the stream is one that refuses writes when it is full. For any other stream, a write
  ///   that could not be stored proves nothing about the stream's content: the disk is full or broken. An owner that
  ///   took it for another's write would give up its shard.
  package static func result(_ bytes: Swift.Span<UInt8>, hasLimit: Bool) -> AppendResult {
    if find(error, bytes) == nil, var index = find(sequence, bytes) {
      var number: UInt64 = 0
      while index < bytes.count, bytes[index] == 32 { index += 1 }
      let end = min(bytes.count, index + 19)
      while index < end, (48...57).contains(bytes[index]) {
        number = number * 10 + UInt64(bytes[index] - 48)
        index += 1
      }
      if number > 0 { return .appended(sequence: number) }
    }
    let text = bytes.indices.map { bytes[$0] }
    guard let error = JSONValue(parsing: text)?["error"] else {
      return .unknown(
        "not an acknowledgement: \(String(decoding: text.prefix(200), as: UTF8.self))")
    }
    let number = error["err_code"]?.unsigned ?? 0
    let code = BusError.Code.jetStream(number)
    if BusError.Code.wrongLastSequence.contains(code) { return .refused }
    if hasLimit, code == .storeFailed { return .refused }
    return .unknown("JetStream says: \(error["description"]?.text ?? "error") (\(number))")
  }

  /// The index after the first occurrence of a pattern.
  private static func find(_ pattern: [UInt8], _ bytes: Swift.Span<UInt8>) -> Int? {
    guard bytes.count >= pattern.count else { return nil }
    for start in 0...(bytes.count - pattern.count) where bytes[start] == pattern[0] {
      var matched = 1
      while matched < pattern.count, bytes[start + matched] == pattern[matched] { matched += 1 }
      if matched == pattern.count { return start + matched }
    }
    return nil
  }
}

/// The position of a delivered message, from its reply subject: `$JS.ACK.<stream>.<consumer>.<count>.<stream
/// sequence>.<consumer sequence>.<time>.<pending>`, in newer servers with domain and account behind `ACK`.
package struct DeliveryOrigin: Equatable {
  package var streamSequence: UInt64
  package var consumerSequence: UInt64
  /// How often it was delivered, including this time.
  package var deliveries: UInt64

  package init?(_ reply: String) {
    let parts = reply.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count >= 9, reply.hasPrefix("$JS.ACK.") else { return nil }
    let shift = parts.count >= 11 ? 2 : 0
    guard let deliveries = UInt64(Substring(parts[4 + shift])),
      let stream = UInt64(Substring(parts[5 + shift])),
      let consumer = UInt64(Substring(parts[6 + shift]))
    else { return nil }
    streamSequence = stream
    consumerSequence = consumer
    self.deliveries = deliveries
  }
}
