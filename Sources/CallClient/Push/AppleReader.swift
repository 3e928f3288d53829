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
