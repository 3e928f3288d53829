package import CallCore
internal import CallTelemetry
internal import CallWire

/// The body of `messages:send` (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages).
///
/// A data message: FCM shows nothing, but wakes the app.
package enum FCMMessage {
  /// The most bytes of the data as JSON. FCM counts keys and values only, so its limit is never exceeded.
  package static let dataBytesMax = 4096
  static let tokenBytesMax = 4096

  /// The payload, normalised.
  /// - Throws: why the token or the payload is not valid.
  static func data(of message: PushMessage) throws(PushRefusal) -> [UInt8] {
    guard message.token.provider == .fcm, isToken(message.token.token) else {
      throw PushRefusal(reason: "this is no FCM token")
    }
    guard let data = BoundedJSON.decode([String: String].self, message.payload) else {
      throw PushRefusal(reason: "the payload is not a JSON object of strings")
    }
    guard !data.isEmpty else { throw PushRefusal(reason: "the payload is empty") }
    if data.keys.contains(where: isReserved) {
      throw PushRefusal(reason: "the payload has a key that FCM reserves")
    }
    let json = JSONWriter.object { json in
      for (key, value) in data.sorted(by: { $0.key < $1.key }) { json.member(named: key, value) }
    }
    guard json.count <= dataBytesMax else {
      throw PushRefusal(reason: "the payload is longer than \(dataBytesMax) bytes")
    }
    return json
  }

  /// `from`, `message_type`, and names that begin with `google` or `gcm` (FCM's guide to data messages), and
  /// `collapse_key` of the former API.
  package static func isReserved(_ key: String) -> Bool {
    key.isEmpty || ["from", "message_type", "collapse_key"].contains(key)
      || key.hasPrefix("google") || key.hasPrefix("gcm")
  }

  /// The token may be that of an Android app, a browser or an iPhone, so each of the three has its time to live.
  ///
  /// No message is collapsible: FCM keeps four collapse keys for a device, and delays bursts of such messages. Android
  /// lowers the priority of apps that show nothing for messages of high priority, so notices have the normal one.
  ///
  /// - Parameter data: from `data(of:)`.
  package static func body(_ message: PushMessage, data: [UInt8], now: Timestamp) -> [UInt8] {
    let seconds = message.secondsToLive(at: now)
    let priority = message.isUrgent ? "high" : "normal"
    var text = #"{"message":{"token":"# + JSONWriter.quoted(message.token.token)
    text += #","data":"# + String(decoding: data, as: UTF8.self)
    text += #","android":{"priority":"\#(priority)","ttl":"\#(seconds)s","direct_boot_ok":true}"#
    text += #","webpush":{"headers":{"TTL":"\#(seconds)","Urgency":"\#(priority)"}}"#
    if !message.apple.isEmpty { text += #","apns":"# + apple(message) }
    return Array((text + "}}").utf8)
  }

  /// An alert, since FCM has no VoIP pushes. A later one of the same call replaces it.
  private static func apple(_ message: PushMessage) -> String {
    var text = #"{"headers":{"apns-push-type":"alert","apns-priority":"10","apns-expiration":""#
    text += "\(message.deadline.microseconds / 1_000_000)\""
    if !message.collapseKey.isEmpty {
      text += #","apns-collapse-id":"# + JSONWriter.quoted(message.collapseKey)
    }
    return text + #"},"payload":"# + String(decoding: message.apple, as: UTF8.self) + "}"
  }

  /// Whether the text can be a token. Others are not sent, since FCM would refuse them.
  static func isToken(_ text: String) -> Bool {
    (1...tokenBytesMax).contains(text.utf8.count) && text.isGraphicASCII
  }
}
