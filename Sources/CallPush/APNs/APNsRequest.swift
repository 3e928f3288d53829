package import CallCore
package import NIOHPACK

/// One push as an HTTP/2 request, without the headers that the connection adds.
package struct APNsRequest: Sendable, Equatable {
  package let path: String
  /// With the suffix `.voip` for a VoIP push.
  package let topic: String
  package let pushType: String
  package let id: String
  private let deadline: Timestamp
  /// How long after an attempt APNs may keep it; nil: until the deadline.
  private let keep: Span?
  package let priority: String
  /// Empty: none.
  package let collapseID: String
  package let payload: [UInt8]

  /// The reason for which a push is not sent at all: the reason of APNs if it has one for this case.
  package enum Refusal: String, Error {
    case payloadEmpty = "PayloadEmpty"
    case payloadTooLarge = "PayloadTooLarge"
    /// The token does not consist of pairs of hex digits.
    case badToken = "malformed device token"
    case badMessageID = "BadMessageId"
    case badCollapseID = "BadCollapseId"
  }

  /// Apple: 5 kB for a VoIP push, 4 kB for any other.
  package static func payloadBytesMax(_ kind: PushMessage.Kind) -> Int {
    kind == .voip ? 5120 : 4096
  }

  /// The length of device tokens is not fixed; Apple's have 64 digits today.
  static let tokenDigitsMax = 512

  /// - Parameter voipKeep: see `APNsLimits`.
  /// - Throws: the reason for which APNs would refuse the push.
  package init(_ message: PushMessage, voipKeep: Span) throws(Refusal) {
    guard !message.payload.isEmpty else { throw .payloadEmpty }
    guard message.payload.count <= Self.payloadBytesMax(message.kind) else {
      throw .payloadTooLarge
    }
    guard let token = Self.hex(message.token.token) else { throw .badToken }
    // APNs accepts the canonical form in lower case only.
    guard CallID(message.id) != nil else { throw .badMessageID }
    let collapse = message.collapseKey.utf8
    guard collapse.count <= 64, collapse.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else {
      throw .badCollapseID
    }
    path = "/3/device/" + token
    id = Self.lowercase(message.id)
    payload = message.payload
    let bundle = APNsConfiguration.bundle(of: message.token.topic)
    let isVoIP = message.kind == .voip
    topic = isVoIP ? bundle + ".voip" : bundle
    pushType =
      switch message.kind {
      case .voip: "voip"
      case .alert: "alert"
      case .background: "background"
      }
    // Apple refuses 10 for a background push.
    priority = message.kind == .background ? "5" : "10"
    // PushKit delivers every push, so none is replaced.
    collapseID = isVoIP ? "" : message.collapseKey
    // A VoIP push must ring when it arrives, so APNs must not keep it for long. Apple asks for 0 or a few seconds; a
    // few seconds bridge a phone's change of network.
    keep = isVoIP ? voipKeep : nil
    deadline = message.deadline
  }

  /// Until when APNs may keep it, for an attempt that begins now.
  /// - Returns: whole seconds since 1970; 0: APNs tries once and keeps nothing.
  package func expiration(at now: Timestamp) -> Int64 {
    guard let keep else { return deadline.microseconds / 1_000_000 }
    return keep.microseconds == 0 ? 0 : min(deadline, now + keep).microseconds / 1_000_000
  }

  private static func hex(_ token: String) -> String? {
    let digits = token.utf8
    guard (2...tokenDigitsMax).contains(digits.count), digits.count % 2 == 0 else { return nil }
    return digits.allSatisfy(isHexDigit) ? lowercase(token) : nil
  }

  private static func isHexDigit(_ byte: UInt8) -> Bool {
    0x30...0x39 ~= byte || 0x61...0x66 ~= byte | 0x20
  }

  private static func lowercase(_ text: String) -> String {
    text.utf8.contains { 0x41...0x5a ~= $0 } ? text.lowercased() : text
  }
}

/// Writes the request headers of one connection, indexed for HPACK as Apple recommends ("Sending notification requests
/// to APNs"): paths and tokens would push repeated values out of the table.
package struct APNsHeaderWriter: Sendable {
  private let authority: String
  /// Whether the name is in the peer's table already.
  private var hasSentID = false
  private var hasSentExpiration = false
  private var hasSentCollapseID = false

  package init(authority: String) { self.authority = authority }

  package mutating func headers(
    _ request: APNsRequest, bearer: String, now: Timestamp
  ) -> HPACKHeaders {
    var out = HPACKHeaders()
    out.reserveCapacity(11)
    out.add(name: ":method", value: "POST")
    out.add(name: ":scheme", value: "https")
    out.add(name: ":path", value: request.path, indexing: .nonIndexable)
    out.add(name: ":authority", value: authority)
    out.add(name: "authorization", value: bearer, indexing: .nonIndexable)
    out.add(name: "apns-topic", value: request.topic)
    out.add(name: "apns-push-type", value: request.pushType)
    out.add(name: "apns-priority", value: request.priority)
    out.add(name: "apns-id", value: request.id, indexing: Self.once(&hasSentID))
    out.add(
      name: "apns-expiration", value: String(request.expiration(at: now)),
      indexing: Self.once(&hasSentExpiration))
    if !request.collapseID.isEmpty {
      out.add(
        name: "apns-collapse-id", value: request.collapseID,
        indexing: Self.once(&hasSentCollapseID))
    }
    return out
  }

  private static func once(_ flag: inout Bool) -> HPACKIndexing {
    if flag { return .nonIndexable }
    flag = true
    return .indexable
  }
}
