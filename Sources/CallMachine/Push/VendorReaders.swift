internal import CallCore
internal import CallWire

/// The members `callUUID` and `handle`, as in Apple's notes.
enum AppleReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    guard payload["callUUID"] != nil || payload["handle"] != nil else { throw .foreign }
    let handle = try Member.text("handle", in: payload)
    let call = CallID(try Member.text("callUUID", in: payload))
    guard let call else { throw .invalid("callUUID") }
    return .invite(
      PushInvite(call: try Member.call(call, note, "callUUID"), handle: handle, note: note))
  }
}

/// FCSDK's dialect: `UUID`, `handle` and `hasVideo`. The SDK's handler needs all three.
enum FCSDKReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    guard payload["UUID"] != nil || payload["hasVideo"] != nil else { throw .foreign }
    let call = CallID(try Member.text("UUID", in: payload))
    guard let call else { throw .invalid("UUID") }
    let handle = try Member.text("handle", in: payload)
    guard let hasVideo = payload["hasVideo"] else { throw .missing("hasVideo") }
    // The SDK takes no text for a flag, not even "true".
    guard hasVideo.text == nil, let video = hasVideo.flag else { throw .invalid("hasVideo") }
    return .invite(
      PushInvite(
        call: try Member.call(call, note, "UUID"), handle: handle, video: video, note: note))
  }
}

/// Telnyx's dialect: `metadata`, and the alert's exact text, which on Android is in `message`.
enum TelnyxReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?, sdkMajorVersion: Int?
  ) throws(PushReadError) -> PushNews {
    let metadata = try metadata(payload)
    // If this id is missing or invalid Telnyx's app makes one up; Callmesh's members have the call's.
    let own = metadata["call_id"]?.text.flatMap { CallID($0) }
    let call = try Member.call(own, note, "metadata.call_id")

    switch try text(payload) {
    case "Missed call!":
      // The guide of SDK 3.0.0 reports it as answered elsewhere, that of 4.0.0 as unanswered.
      return .stop(PushStop(call: call, .missed, note: note, orElse: sdkMajorVersion == 3 ? 4 : 3))
    case "Answered Elsewhere":
      return .stop(PushStop(call: call, .answeredElsewhere, note: note, orElse: 4))
    default:
      // Anything else is a call.
      let name = metadata["caller_name"]?.text ?? ""
      let number = metadata["caller_number"]?.text ?? ""
      let handle = !number.isEmpty ? number : !name.isEmpty ? name : note?.caller.user ?? ""
      return .invite(PushInvite(call: call, handle: handle, note: note))
    }
  }

  private static func metadata(_ payload: PayloadValue) throws(PushReadError) -> PayloadValue {
    guard var metadata = payload["metadata"] else { throw .foreign }
    if let text = metadata.text {
      guard let parsed = PayloadValue(json: Array(text.utf8)) else { throw .invalid("metadata") }
      metadata = parsed
    }
    guard case .object = metadata else { throw .invalid("metadata") }
    return metadata
  }

  /// The alert's text. An alert may be an object, whose text is the body.
  private static func text(_ payload: PayloadValue) throws(PushReadError) -> String {
    if let message = payload["message"] {
      guard let text = message.text else { throw .invalid("message") }
      return text
    }
    guard let alert = payload["aps"]?["alert"] else { return "" }
    if let text = alert.text ?? alert["body"]?.text { return text }
    guard case .object = alert else { throw .invalid("aps.alert") }
    return ""
  }
}

/// Sinch's dialect: an opaque text under `SIN` or `sin`. Callmesh's is `cm1.<call>.<sent>.<deadline>.<a or
/// v>`. Only Sinch's client can read that of Sinch's servers, so Callmesh's members must accompany it.
enum SinchReader {
  static func read(
    _ payload: PayloadValue, _ note: CallmeshNote?
  ) throws(PushReadError) -> PushNews {
    guard let value = payload["SIN"] ?? payload["sin"] else { throw .foreign }
    guard let text = value.text, !text.isEmpty, text.utf8.count <= 100 else {
      throw .invalid("SIN")
    }
    guard text.hasPrefix("cm1.") else {
      guard let note else { throw .foreign }
      return .invite(PushInvite(call: note.call, handle: note.caller.user, note: note))
    }
    let own = try Own(text)
    let call = try Member.call(own.call, note, "SIN")
    var invite = PushInvite(
      call: call, handle: note?.caller.user ?? name(payload), video: own.video, note: note)
    invite.sentAt = own.sentAt
    invite.deadline = own.deadline
    return .invite(invite)
  }

  /// The caller's display name from the alert; empty: it has none.
  private static func name(_ payload: PayloadValue) -> String {
    guard case .list(let arguments)? = payload["aps"]?["alert"]?["loc-args"] else { return "" }
    return arguments.first?.text ?? ""
  }

  private struct Own {
    var call: CallID
    var sentAt: Timestamp
    var deadline: Timestamp
    var video: Bool

    init(_ text: String) throws(PushReadError) {
      let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      guard parts.count == 5, let call = CallID(hex: Array(parts[1])[...]),
        let sentAt = Self.time(parts[2]), let deadline = Self.time(parts[3]),
        parts[4].elementsEqual("a".utf8) || parts[4].elementsEqual("v".utf8)
      else { throw .invalid("SIN") }
      self.call = call
      self.sentAt = sentAt
      self.deadline = deadline
      video = parts[4].elementsEqual("v".utf8)
    }

    /// Milliseconds in hex; eleven digits last until the year 2527.
    private static func time(_ digits: Substring.UTF8View) -> Timestamp? {
      guard (1...11).contains(digits.count), digits.first != UInt8(ascii: "+"),
        digits.first != UInt8(ascii: "-"),
        let milliseconds = Int64(String(decoding: digits, as: UTF8.self), radix: 16)
      else { return nil }
      return Timestamp(microseconds: milliseconds * 1000)
    }
  }
}

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
