/// The position of a delivered message, from its reply subject:
/// `$JS.ACK.<stream>.<consumer>.<count>.<stream sequence>.<consumer sequence>.<time>.<pending>`, in
/// newer servers with domain and account behind `ACK`.
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
