package import CallCore
internal import CallTelemetry

/// The body of `messages:send` (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages).
///
/// A data message: FCM shows nothing, but wakes the app.
package enum FCMMessage {
  /// The most bytes of the data as JSON. FCM counts keys and values only, so its limit is never exceeded.
  package static let dataBytesMax = 4096
  static let tokenBytesMax = 4096

  enum Encoded: Sendable, Equatable {
    case body([UInt8])
    case refused(reason: String)
  }

  /// Validates and normalises the payload.
  static func data(_ payload: [UInt8]) -> Encoded {
    guard let data = BoundedJSON.decode([String: String].self, payload) else {
      return .refused(reason: "the payload is not a JSON object of strings")
    }
    guard !data.isEmpty else { return .refused(reason: "the payload is empty") }
    if data.keys.contains(where: isReserved) {
      return .refused(reason: "the payload has a key that FCM reserves")
    }
    var text = "{"
    for (key, value) in data.sorted(by: { $0.key < $1.key }) {
      if text.utf8.count > 1 { text += "," }
      text += "\"\(JSONText.escaped(key))\":\"\(JSONText.escaped(value))\""
    }
    text += "}"
    guard text.utf8.count <= dataBytesMax else {
      return .refused(reason: "the payload is longer than \(dataBytesMax) bytes")
    }
    return .body(Array(text.utf8))
  }

  /// `from`, `message_type`, and names that begin with `google` or `gcm` (FCM's guide to data messages), and
  /// `collapse_key` of the former API.
  package static func isReserved(_ key: String) -> Bool {
    key.isEmpty || ["from", "message_type", "collapse_key"].contains(key)
      || key.hasPrefix("google") || key.hasPrefix("gcm")
  }

  /// - Parameter data: from `data(_:)`.
  package static func body(_ message: PushMessage, data: [UInt8], now: Timestamp) -> [UInt8] {
    var text = #"{"message":{"token":""# + JSONText.escaped(message.token.token)
    text += #"","data":"# + String(decoding: data, as: UTF8.self)
    text += #","android":{"priority":"high","ttl":""# + "\(message.secondsToLive(at: now))s"
    text += #"","direct_boot_ok":true"#
    if !message.collapseKey.isEmpty {
      text += #","collapse_key":""# + JSONText.escaped(message.collapseKey) + "\""
    }
    return Array((text + "}}}").utf8)
  }

  /// Whether the text can be a token. Others are not sent, since FCM would refuse them.
  static func isToken(_ text: String) -> Bool {
    (1...tokenBytesMax).contains(text.utf8.count) && text.isGraphicASCII
  }
}
