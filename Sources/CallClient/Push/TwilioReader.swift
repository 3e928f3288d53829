internal import CallCore
internal import CallWire

/// Twilio's dialect: `twi_message_type` names the kind of push.
enum TwilioReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    guard payload["twi_message_type"] != nil else { throw .foreign }
    switch try Member.text("twi_message_type", in: payload) {
    case "twilio.voice.call":
      let call = try call(payload, note)
      let from = try Member.text("twi_from", in: payload)
      var invite = PushInvite(call: call, handle: user(from), note: note)
      let to = try Member.optionalText("twi_to", in: payload)
      if invite.callee == nil { invite.callee = to.map(user) }
      if let parameters = try Member.optionalText("twi_params", in: payload) {
        guard let headers = FormDecoding.decode(parameters) else { throw .invalid("twi_params") }
        if invite.headers.isEmpty { invite.headers = headers }
      }
      return .invite(invite)
    case "twilio.voice.cancel":
      // Twilio's cancel carries no reason.
      return .stop(PushStop(call: try call(payload, note), .cancel, note: note, orElse: 2))
    default: throw .invalid("twi_message_type")
    }
  }

  /// The call's id as "CA" and 32 hex digits.
  private static func call(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> CallID {
    let sid = Array(try Member.text("twi_call_sid", in: payload).utf8)
    guard sid.count == 34, sid.starts(with: "CA".utf8) else { throw .invalid("twi_call_sid") }
    guard let call = CallID(hex: sid[2...]) else { throw .invalid("twi_call_sid") }
    return try Member.call(call, note, "twi_call_sid")
  }

  private static func user(_ address: String) -> String {
    address.hasPrefix("client:") ? String(address.dropFirst("client:".count)) : address
  }
}

extension CallID {
  /// 32 hex digits.
  init?(hex digits: ArraySlice<UInt8>) {
    guard digits.count == 32 else { return nil }
    var text: [UInt8] = []
    for (index, digit) in digits.enumerated() {
      if index == 8 || index == 12 || index == 16 || index == 20 {
        text.append(UInt8(ascii: "-"))
      }
      text.append(digit)
    }
    self.init(String(decoding: text, as: UTF8.self))
  }
}

/// `application/x-www-form-urlencoded`.
enum FormDecoding {
  /// Returns nil for a `%` without two hex digits, or bytes that are not UTF-8.
  static func decode(_ text: String) -> [CustomHeader]? {
    var headers: [CustomHeader] = []
    for pair in text.utf8.split(separator: UInt8(ascii: "&")) {
      let parts = pair.split(
        separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentEncoding.decode(parts[0], plusIsSpace: true),
        let value = parts.count == 2 ? PercentEncoding.decode(parts[1], plusIsSpace: true) : ""
      else { return nil }
      headers.append(CustomHeader(name: name, value: value))
    }
    return headers
  }
}
