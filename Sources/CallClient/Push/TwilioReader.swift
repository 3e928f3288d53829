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
      guard let name = decode(parts[0]), let value = parts.count == 2 ? decode(parts[1]) : ""
      else { return nil }
      headers.append(CustomHeader(name: name, value: value))
    }
    return headers
  }

  private static func decode(_ text: Substring.UTF8View) -> String? {
    var utf8: [UInt8] = []
    var rest = text[...]
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): utf8.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit)
        else { return nil }
        utf8.append(high << 4 | low)
      default: utf8.append(byte)
      }
    }
    return String(validating: utf8, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
