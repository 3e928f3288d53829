internal import CallCore
internal import CallWire

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
