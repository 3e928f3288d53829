package import CallCore
package import NIOHPACK

/// One push as an HTTP/2 request, but for what the connection adds.
package struct APNsRequest: Sendable, Equatable {
  package let path: String
  /// With `.voip` at its end for a VoIP push.
  package let topic: String
  package let pushType: String
  package let id: String
  /// Whole seconds since 1970; 0: one try, nothing is kept.
  package let expiration: Int64
  package let priority: String
  /// Empty: none.
  package let collapseID: String
  package let payload: [UInt8]

  /// Why a push is not sent at all. Words of APNs where it has one, since it would say the same.
  package enum Refusal: String, Error {
    case payloadEmpty = "PayloadEmpty"
    case payloadTooLarge = "PayloadTooLarge"
    /// The token is not hex digits in pairs.
    case badToken = "malformed device token"
    case badMessageID = "BadMessageId"
    case badCollapseID = "BadCollapseId"
  }

  /// Apple: 5 kB for a VoIP push, 4 kB for any other.
  package static func payloadBytesMax(_ kind: PushMessage.Kind) -> Int {
    kind == .voip ? 5120 : 4096
  }

  /// Device tokens have no fixed length; Apple's have 64 digits today.
  static let tokenDigitsMax = 512

  /// - Parameter voipKeep: how long APNs may keep a VoIP push; see `APNsLimits`.
  package init(_ message: PushMessage, now: Timestamp, voipKeep: Span) throws(Refusal) {
    guard !message.payload.isEmpty else { throw .payloadEmpty }
    guard message.payload.count <= Self.payloadBytesMax(message.kind) else {
      throw .payloadTooLarge
    }
    guard let token = Self.hex(message.token.token) else { throw .badToken }
    // APNs takes only the canonical form in lower case.
    guard CallID(message.id) != nil else { throw .badMessageID }
    let collapse = message.collapseKey.utf8
    guard collapse.count <= 64, collapse.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else {
      throw .badCollapseID
    }
    path = "/3/device/" + token
    id = Self.lowercase(message.id)
    payload = message.payload
    let bundle = APNsConfiguration.bundle(of: message.token.topic)
    switch message.kind {
    case .voip:
      topic = bundle + ".voip"
      pushType = "voip"
      priority = "10"
      // A VoIP push must ring when it arrives: one that is kept for long rings for nothing. Apple
      // wants 0 or a few seconds, and a few bridge a phone's change of network.
      expiration =
        voipKeep.microseconds == 0
        ? 0 : min(message.deadline, now + voipKeep).microseconds / 1_000_000
      // PushKit hands over every push: there is nothing to replace.
      collapseID = ""
    case .alert:
      topic = bundle
      pushType = "alert"
      priority = "10"
      expiration = message.deadline.microseconds / 1_000_000
      collapseID = message.collapseKey
    case .background:
      topic = bundle
      pushType = "background"
      // Apple refuses 10 here.
      priority = "5"
      expiration = message.deadline.microseconds / 1_000_000
      collapseID = message.collapseKey
    }
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

/// Request headers of one connection, indexed for HPACK as Apple advises ("Sending notification
/// requests to APNs"): a table full of paths and tokens would push out what repeats.
package struct APNsHeaderWriter: Sendable {
  private let authority: String
  /// What was put in the peer's table once, to be named by its index from then on.
  private var hasSentID = false
  private var hasSentExpiration = false
  private var hasSentCollapseID = false

  package init(authority: String) { self.authority = authority }

  package mutating func headers(_ request: APNsRequest, bearer: String) -> HPACKHeaders {
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
      name: "apns-expiration", value: String(request.expiration),
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
